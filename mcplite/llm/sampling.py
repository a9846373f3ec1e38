"""Sampling handlers: a server's requests to the client's language model, answered by the SDK of a model's API.

``llm.anthropic_sampling(api, model)`` and ``llm.openai_sampling(api, model)`` return one each. A kit for the tools of a request
puts it into the words of the API, so that names and schemas that the API refuses are changed, and changed back in the answer;
content that the API does not take is named in words. The client of the SDK may be any object with the same methods. Its errors
go to the log; the server is told the kind of the error, and no more.
"""

from abc import abstractmethod
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ..client.handler_types import AskedSampling
from ..errors import InternalError, InvalidParams
from ..rpc.tracing import get_logger
from ..types import (
    CallToolResult,
    Content,
    CreateMessageResult,
    ModelPreferences,
    TextContent,
    Tool,
    ToolResultContent,
    ToolUseContent,
)
from .anthropic import AnthropicKit, blocks_of
from .openai import OpenAIKit, media_of
from .result_content import Part, never, parts_of, split
from .toolset import BadModelArguments, Kit, Outcome, ToolUse, field

__all__ = ["AnthropicSampling", "OpenAISampling", "SamplingHandler", "openai_limit_name"]

_log = get_logger(__name__)
#: The protocol's reasons why a model stopped, by those of the APIs; others are passed on as they are.
_STOP_REASONS = {"end_turn": "endTurn", "stop": "endTurn", "stop_sequence": "stopSequence", "max_tokens": "maxTokens",
                 "length": "maxTokens", "tool_use": "toolUse", "tool_calls": "toolUse"}


class _AskedTools:
    """The tools of a request, in place of the client from which a kit takes its tools.

    :param tools: of the request; None for none.
    """

    def __init__(self, tools: Optional[List[Tool]]) -> None:
        self._tools = tools or []

    def list_tools(self) -> List[Tool]:
        """Return the tools."""
        return self._tools


class RequestKit(Kit):
    """Puts one request of a server into the words of an API, and the reply back into those of the protocol."""

    #: How the API writes the choices of tools.
    choices: Mapping[str, Any] = {}

    @abstractmethod
    def messages(self, request: AskedSampling) -> List[Any]:
        """Return the messages of the request as the API has them; empty if it takes nothing of them."""

    @abstractmethod
    def said(self, reply: Any) -> Tuple[str, Any]:
        """Return the text of a reply, and why the model stopped.

        :raises TypeError: it is no reply of the API.
        """

    def result(self, reply: Any, model: str) -> CreateMessageResult:
        """Return a reply as the answer to the request.

        :param model: the model that was asked, for a reply that does not name it.
        :raises InternalError: it is no reply of the API, or asks for a tool with arguments that are no object.
        """
        try:
            text, reason = self.said(reply)
            uses: List[Content] = [self._original(self._checked(use)) for use in self._uses(reply)]
        except (AttributeError, BadModelArguments, IndexError, TypeError) as error:
            raise InternalError(f"the client's model has answered with what cannot be read: {error}") from error
        named = field(reply, "model")
        return CreateMessageResult("assistant", [*([TextContent(text)] if text or not uses else []), *uses],
                                   named if isinstance(named, str) and named else model,
                                   _STOP_REASONS.get(reason, reason) if isinstance(reason, str) else None)

    def _original(self, use: ToolUse) -> ToolUseContent:
        """Return a call of the model with the server's names."""
        entry = self._find(use.name)
        if entry is None:
            raise TypeError(f"it asks for the tool {use.name[:100]!r}, which the request does not have")
        return ToolUseContent(use.id or use.name, entry.tool.name, self._arguments(use.arguments, entry))

    def _shown_use(self, block: ToolUseContent) -> Tuple[str, Dict[str, Any]]:
        """Return the name and the arguments of an earlier call as the model knows them."""
        with self._lock:
            self._names.add([block.name])
            name = self._names.shown(block.name)
            entry = self._entries.get(name)
        shown = {own: shown for shown, own in entry.own_parameters.items()} if entry is not None else {}
        return name, {shown.get(own, own): value for own, value in block.input.items()}

    def _results(self, content: Sequence[Content]) -> List[Any]:
        """Return the results of tools in a message as messages of the API."""
        answers, rest = [], []
        for block in content:
            if isinstance(block, ToolResultContent):
                failed = bool(block.is_error)
                result = CallToolResult(block.content, structured_content=block.structured_content, is_error=failed)
                answer, more = self._answer(None, ToolUse(block.tool_use_id, "", None), Outcome(parts_of(result), failed),
                                            self._follows)
                answers.append(answer)
                rest += more
        return self._messages(answers, rest) if answers else []


def _parts(content: Sequence[Content]) -> List[Part]:
    """Return the parts of a message, without the calls of tools and their results."""
    return [part for block in content if not isinstance(block, (ToolUseContent, ToolResultContent))
            for part in parts_of(CallToolResult([block]))]


def _in_words(content: Sequence[Content]) -> str:
    """Return content as text, for a message of the model, in which APIs take nothing else."""
    return "\n".join(part.text for part in split(_parts(content), never)[0])


class AnthropicRequest(RequestKit, AnthropicKit):
    """A request for Anthropic's Messages API."""

    choices = {"auto": {"type": "auto"}, "required": {"type": "any"}, "none": {"type": "none"}}

    def messages(self, request: AskedSampling) -> List[Any]:
        found = []
        for message in request.messages:
            # The results of tools come first; the API refuses another order.
            blocks = [block for one in self._results(message.content) for block in one["content"]]
            if message.role == "assistant":
                text = _in_words(message.content).rstrip()  # the API refuses white space at the end
                blocks += [{"type": "text", "text": text}] if text else []
            else:
                blocks += blocks_of(Outcome(_parts(message.content), False))
            for block in message.content:
                if isinstance(block, ToolUseContent):
                    name, arguments = self._shown_use(block)
                    blocks.append({"type": "tool_use", "id": block.id, "name": name, "input": arguments})
            if blocks:
                found.append({"role": message.role, "content": blocks})
        return found

    def said(self, reply: Any) -> Tuple[str, Any]:
        blocks = field(reply, "content")
        if not isinstance(blocks, list):
            raise TypeError(f"{type(reply).__name__} is no message of the API")
        text = "".join(str(field(block, "text", "")) for block in blocks if field(block, "type") == "text")
        return text, field(reply, "stop_reason")


class OpenAIRequest(RequestKit, OpenAIKit):
    """A request for Chat Completions."""

    choices = {"auto": "auto", "required": "required", "none": "none"}

    def messages(self, request: AskedSampling) -> List[Any]:
        found: List[Any] = [{"role": "system", "content": request.system_prompt}] if request.system_prompt else []
        for message in request.messages:
            found += self._results(message.content)
            if message.role == "assistant":
                uses = []
                for block in message.content:
                    if isinstance(block, ToolUseContent):
                        name, arguments = self._shown_use(block)
                        uses.append(self.use(block.id, name, arguments))
                text = _in_words(message.content)
                if text or uses:
                    found.append({"role": "assistant", "content": text or None, **({"tool_calls": uses} if uses else {})})
            else:
                kept, _ = split(_parts(message.content), lambda part: media_of(part) is not None)
                blocks = [{"type": "text", "text": part.text} if part.kind == "text" else media_of(part) for part in kept]
                found += [{"role": message.role, "content": blocks}] if blocks else []
        return found

    def said(self, reply: Any) -> Tuple[str, Any]:
        choices = field(reply, "choices")
        if not choices:
            raise TypeError(f"{type(reply).__name__} is no completion of the API")
        message = field(choices[0], "message")
        return str(field(message, "content") or field(message, "refusal") or ""), field(choices[0], "finish_reason")


class SamplingHandler:
    """Answers a server's requests by a model: ``connect(target, sampling_handler=handler)``.

    It may be used from any thread, by any number of clients.

    :param api: the client of an SDK, or an object with the same methods.
    :param model: the name of the model, or several names: the first is used, unless a hint of the server is a part of another.
    :param max_tokens: that an answer may have at most, whatever the server asks for.
    :raises TypeError: *api* is no such client.
    :raises ValueError: *model* is empty, or *max_tokens* is not positive.
    """

    #: The names that lead from *api* to the method to call, and how an error writes such an *api*.
    _method: Tuple[str, ...] = ()
    _example = ""

    def __init__(self, api: Any, model: Union[str, Sequence[str]], max_tokens: int) -> None:
        self._models = [model] if isinstance(model, str) else list(model)
        if not self._models or not all(isinstance(name, str) and name for name in self._models):
            raise ValueError(f"model is the name of a model, or a list of names, not {model!r}")
        if max_tokens < 1:
            raise ValueError(f"max_tokens must be positive, not {max_tokens!r}")
        self._max_tokens = max_tokens
        self._api = api
        create = api
        for name in self._method:
            create = getattr(create, name, None)
        if not callable(create):
            raise TypeError(f"give {self._example}, or an object with {'.'.join(self._method)}(), not {type(api).__name__}")
        self._create: Callable[..., Any] = create

    def __call__(self, request: AskedSampling) -> CreateMessageResult:
        """Return the model's answer; the client calls this.

        :raises InvalidParams: the request has no message that the model takes, or an unknown choice of tools.
        :raises InternalError: the API cannot be reached, refuses the request, or its answer cannot be read.
        :raises TypeError: the client of the SDK is asynchronous.
        """
        kit = self._kit(request)
        tools, messages = kit.tools, kit.messages(request)
        if not any(message["role"] != "system" for message in messages):
            raise InvalidParams("send a message with content: the client's model takes nothing of these")
        model = self._chosen(request.model_preferences)
        options: Dict[str, Any] = {"model": model, "messages": messages, **self._options(request)}
        if request.temperature is not None:
            options["temperature"] = request.temperature
        if tools:
            options["tools"] = tools
            mode = request.tool_choice.mode if request.tool_choice is not None else None
            if mode is not None and mode not in kit.choices:
                raise InvalidParams(f"the mode of toolChoice is one of {', '.join(kit.choices)}, not {mode[:50]!r}")
            if mode is not None:
                options["tool_choice"] = kit.choices[mode]
        return kit.result(self._asked(options), model)

    def _asked(self, options: Dict[str, Any]) -> Any:
        try:
            reply = self._create(**options)
        except Exception as error:
            status = getattr(error, "status_code", None)
            kind = f"{type(error).__name__}{f', {status}' if isinstance(status, int) else ''}"
            # The server does not get the text: it may have a part of the key, or the address of the API.
            _log.warning("the model %s could not be asked: %s: %s", options["model"], type(error).__name__, error)
            raise InternalError(f"the API of the client's model failed ({kind})") from error
        if hasattr(reply, "__await__"):
            reply.close()  # or Python warns that it was never awaited
            raise TypeError(f"give {self._example}, and not the asynchronous client of the SDK")
        return reply

    def _chosen(self, preferences: Optional[ModelPreferences]) -> str:
        """Return the model of the first hint that is a part of a name (SAMP-18, SAMP-19); the first model if none is."""
        hints = [hint.name for hint in (preferences.hints if preferences is not None else None) or () if hint.name]
        return next((name for hint in hints for name in self._models if hint.lower() in name.lower()), self._models[0])

    def _limit(self, request: AskedSampling) -> int:
        return max(1, min(request.max_tokens, self._max_tokens))

    def _kit(self, request: AskedSampling) -> RequestKit:
        """Return the kit for a request."""
        raise NotImplementedError

    def _options(self, request: AskedSampling) -> Dict[str, Any]:
        """Return the parameters that have other names in each API."""
        raise NotImplementedError


class AnthropicSampling(SamplingHandler):
    """Answers by Anthropic's Messages API; :func:`mcplite.llm.anthropic_sampling` makes one."""

    _method = ("messages", "create")
    _example = "anthropic.Anthropic()"

    def _kit(self, request: AskedSampling) -> RequestKit:
        return AnthropicRequest(_AskedTools(request.tools), None, None, None)  # type: ignore[arg-type]

    def _options(self, request: AskedSampling) -> Dict[str, Any]:
        user = (request.metadata or {}).get("user_id")
        found = {"max_tokens": self._limit(request), "system": request.system_prompt, "stop_sequences": request.stop_sequences,
                 "metadata": {"user_id": user} if isinstance(user, str) else None}
        return {name: value for name, value in found.items() if value}


class OpenAISampling(SamplingHandler):
    """Answers by OpenAI's Chat Completions, which many others have too; :func:`mcplite.llm.openai_sampling` makes one."""

    _method = ("chat", "completions", "create")
    _example = "openai.OpenAI()"

    def _kit(self, request: AskedSampling) -> RequestKit:
        return OpenAIRequest(_AskedTools(request.tools), None, None, None, False, True)  # type: ignore[arg-type]

    def _options(self, request: AskedSampling) -> Dict[str, Any]:
        return {openai_limit_name(self._api): self._limit(request),
                **({"stop": request.stop_sequences} if request.stop_sequences else {})}


def openai_limit_name(api: Any) -> str:
    """Return the member of a request to Chat Completions that limits the tokens of the answer."""
    # Others than OpenAI know the older name only, which OpenAI's newer models refuse.
    address = str(getattr(api, "base_url", "") or "https://api.openai.com")
    return "max_completion_tokens" if "//api.openai.com" in address else "max_tokens"
