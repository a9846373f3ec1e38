"""Models: a client's tools for their APIs, and models that answer servers; each API in the words of its own SDK.

Nothing is imported but what the caller uses, and no SDK at all where plain dicts are enough.
"""

from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Union

from .tool_names import Choice
from .toolset import DEFAULT, Source

if TYPE_CHECKING:
    from .anthropic import AnthropicKit
    from .gemini import GeminiKit
    from .openai import OpenAIKit, ResponsesKit
    from .sampling import AnthropicSampling, OpenAISampling
    from .tool_search import ToolSearch as ToolSearch

__all__ = ["ToolSearch", "anthropic_sampling", "anthropic_tools", "gemini_tools", "langchain_tools", "openai_responses_tools",
           "openai_sampling", "openai_tools"]


def anthropic_tools(client: Source, *, only: Choice = None, exclude: Choice = None,
                    timeout: Optional[float] = DEFAULT) -> "AnthropicKit":
    """Return the tools of *client* for Anthropic's Messages API.

    ``kit.tools`` is for ``tools=``, ``kit.call(block)`` runs a ``tool_use`` block and returns its ``tool_result`` block,
    ``kit.answers(message)`` does so for all of a message, and ``kit.runnable_tools()`` is for the SDK's tool runner.

    :param client: a ``Client``, or a ``Group`` of several, or a :class:`ToolSearch` of one; open when the tools are listed.
    :param only: the tools to offer: their names as ``client.list_tools()`` has them, or a function of the ``Tool``. None
        for all.
    :param exclude: the tools to leave out, in the forms of *only*. A tool that is not offered cannot be called.
    :param timeout: seconds for each call; by default the client's.
    :raises TypeError: *only* or *exclude* is one string.
    """
    from .anthropic import AnthropicKit

    return AnthropicKit(client, only, exclude, timeout)


def openai_tools(client: Source, *, only: Choice = None, exclude: Choice = None, timeout: Optional[float] = DEFAULT,
                 strict: bool = False, media: bool = True) -> "OpenAIKit":
    """Return the tools of *client* for OpenAI's Chat Completions, and for APIs of the same form.

    ``kit.tools`` is for ``tools=``, ``kit.call(tool_call)`` runs an item of ``tool_calls`` and returns its message, and
    ``kit.answers(completion)`` does so for all of a completion, with a message for the images and sounds that they return.

    :param client, only, exclude, timeout: as for :func:`anthropic_tools`.
    :param strict: whether to ask for the strict mode for each tool whose schema can be brought into its subset.
    :param media: whether images, sounds and PDF files follow in a message of the user; False for a model that reads text
        only, and gets a text in place of them.
    :raises TypeError: *only* or *exclude* is one string.
    """
    from .openai import OpenAIKit

    return OpenAIKit(client, only, exclude, timeout, strict, media)


def openai_responses_tools(client: Source, *, only: Choice = None, exclude: Choice = None, timeout: Optional[float] = DEFAULT,
                           strict: bool = False) -> "ResponsesKit":
    """Return the tools of *client* for OpenAI's Responses API.

    ``kit.tools`` is for ``tools=``, ``kit.call(item)`` runs a ``function_call`` item and returns its
    ``function_call_output``, ``kit.answers(response)`` does so for all of a response, and ``kit.runnable_tools()`` is for
    the SDK's tool runner.

    :param client, only, exclude, timeout: as for :func:`anthropic_tools`.
    :param strict: whether to ask for the strict mode for each tool whose schema can be brought into its subset.
    :raises TypeError: *only* or *exclude* is one string.
    """
    from .openai import ResponsesKit

    return ResponsesKit(client, only, exclude, timeout, strict)


def gemini_tools(client: Source, *, only: Choice = None, exclude: Choice = None,
                 timeout: Optional[float] = DEFAULT, media_inside: bool = True) -> "GeminiKit":
    """Return the tools of *client* for Gemini's API.

    ``kit.tools`` is for ``tools`` of the configuration, ``kit.call(part)`` runs a function call and returns the part with
    its response, and ``kit.answers(response)`` does so for all of a response. With objects of ``google-genai`` the results
    are such objects; with dicts of the REST API they are dicts.

    :param client, only, exclude, timeout: as for :func:`anthropic_tools`.
    :param media_inside: whether images and PDF files are part of a function's response, which models take from Gemini 3 on;
        False puts them behind the responses.
    :raises TypeError: *only* or *exclude* is one string.
    """
    from .gemini import GeminiKit

    return GeminiKit(client, only, exclude, timeout, media_inside)


def langchain_tools(client: Source, *, only: Choice = None, exclude: Choice = None,
                    timeout: Optional[float] = DEFAULT) -> List[Any]:
    """Return the tools of *client* as LangChain's ``StructuredTool`` objects, for ``bind_tools()`` and agents.

    ``invoke()`` calls the server on the calling thread. The result is a text, or a list of blocks if there are images; the
    artifact of the ``ToolMessage`` is the whole ``CallToolResult``.

    :param client, only, exclude, timeout: as for :func:`anthropic_tools`.
    :raises ImportError: ``langchain-core`` is not installed.
    :raises MCPError: the tools cannot be listed, as with ``client.list_tools()``.
    :raises TypeError: *only* or *exclude* is one string.
    """
    from .langchain import LangChainTools

    return LangChainTools(client, only, exclude, timeout).tools


def anthropic_sampling(api: Any, model: Union[str, Sequence[str]], *, max_tokens: int = 4096) -> "AnthropicSampling":
    """Return a sampling handler that answers servers by Anthropic's Messages API.

    ``connect(target, sampling_handler=anthropic_sampling(anthropic.Anthropic(), "claude-sonnet-5-5"))``. Texts, images and PDF
    files reach the model, other content is named in words. With ``ClientOptions(sampling_tools=True)`` servers may give the
    model tools (from November 2025 on). The handler asks no user: wrap it in a function that does, for servers that you do
    not trust with your model.

    :param api: the blocking client of the SDK, or any object with ``messages.create()``.
    :param model: the name of a model; or several, of which the first is used unless a hint of the server is part of another.
    :param max_tokens: that an answer may have at most, even if the server asks for more; default 4096.
    :raises TypeError: *api* is no such client.
    :raises ValueError: *model* is empty, or *max_tokens* is not positive.
    """
    from .sampling import AnthropicSampling

    return AnthropicSampling(api, model, max_tokens)


def openai_sampling(api: Any, model: Union[str, Sequence[str]], *, max_tokens: int = 4096) -> "OpenAISampling":
    """Return a sampling handler that answers servers by OpenAI's Chat Completions, or an API of the same form.

    Texts, images, PDF files, and sounds in WAV or MP3 reach the model, other content is named in words.

    :param api: the blocking client of the SDK, or any object with ``chat.completions.create()``.
    :param model, max_tokens: as for :func:`anthropic_sampling`.
    :raises TypeError: *api* is no such client.
    :raises ValueError: *model* is empty, or *max_tokens* is not positive.
    """
    from .sampling import OpenAISampling

    return OpenAISampling(api, model, max_tokens)


def __getattr__(name: str) -> Any:
    if name == "ToolSearch":
        from .tool_search import ToolSearch

        return ToolSearch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
