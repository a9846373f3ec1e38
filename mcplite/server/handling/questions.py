"""What a handler may ask: Elicit, Sample, ListRoots as plain objects, and InputRequired for several at once."""

from typing import Any, Dict, Generic, List, Mapping, Optional, Sequence, TypeVar, Union

from ...types import ModelPreferences, PromptMessage, SamplingMessage, Tool, ToolChoice

__all__ = ["Elicit", "Elicited", "InputRequired", "ListRoots", "Question", "Sample"]

T = TypeVar("T")


class Question:
    """The base of everything that can be asked of a client."""

    #: Lets a signature be read without importing this module.
    __mcplite_question__ = True


class Elicit(Question):
    """A question to the user, by form or by URL.

    :param message: what the user reads. In a declared question, ``{name}`` stands for the argument.
    :param schema: what the answer looks like: a dataclass, TypedDict or plain type, or a JSON Schema of
        a flat object. None asks for no more than yes or no.
    :param url: asks the user to visit this page instead of filling in a form; for whatever must not
        pass through the client, such as passwords (ELIC-16, ELIC-17).
    :param elicitation_id: names a URL question; made when left out.
    """

    def __init__(self, message: str, schema: Any = None, *, url: Optional[str] = None,
                 elicitation_id: Optional[str] = None) -> None:
        if url is not None and schema is not None:
            raise ValueError("a question has a schema (form) or a url, not both")
        self.message = message
        self.schema = schema
        self.url = url
        self.elicitation_id = elicitation_id


class Sample(Question):
    """A request to the client's language model; the arguments are those of ``ctx.sample``."""

    def __init__(self, messages: "Sequence[Union[str, PromptMessage, SamplingMessage]]", *, max_tokens: int = 1000,
                 system_prompt: Optional[str] = None, temperature: Optional[float] = None,
                 stop_sequences: Optional[List[str]] = None, include_context: Optional[str] = None,
                 model_preferences: Optional[ModelPreferences] = None, metadata: Optional[Dict[str, Any]] = None,
                 tools: Optional[List[Tool]] = None, tool_choice: Optional[ToolChoice] = None) -> None:
        self.messages = list(messages)
        self.max_tokens = max_tokens
        self.system_prompt = system_prompt
        self.temperature = temperature
        self.stop_sequences = stop_sequences
        self.include_context = include_context
        self.model_preferences = model_preferences
        self.metadata = metadata
        self.tools = tools
        self.tool_choice = tool_choice


class ListRoots(Question):
    """A question for the client's roots."""


class Elicited(Generic[T]):
    """What came of a question to the user.

    ``action`` is "accept", "decline" or "cancel"; ``content`` is the answer as JSON and ``data`` the
    same as the type that was asked for, both None unless the user accepted a form.
    """

    def __init__(self, action: str, content: Optional[Dict[str, Any]] = None, data: Optional[T] = None) -> None:
        self.action = action
        self.content = content
        self.data = data

    @property
    def accepted(self) -> bool:
        """Whether the user accepted."""
        return self.action == "accept"

    def __repr__(self) -> str:
        return f"Elicited({self.action!r}, {self.data!r})"


class InputRequired:
    """Returned by a handler that wants answers first; it is called again with them.

    The answers are then in ``ctx.input_responses`` under the same keys, and *state* in ``ctx.state``.

    :param requests: questions by key.
    :param state: any JSON value to get back on the next round.
    """

    def __init__(self, requests: Mapping[str, Question], state: Any = None) -> None:
        for key, question in requests.items():
            if not isinstance(question, Question):
                raise TypeError(f"InputRequired[{key!r}] must be Elicit, Sample or ListRoots, not {question!r}")
        self.requests = dict(requests)
        self.state = state
