"""The command ``chat``: a conversation with a language model that may use the tools of one server or of several.

The model's text is streamed to stdout; calls of tools, questions and errors go to stderr. Before a call of a tool that may
destroy something, by the server's hints, the user is asked. If a turn is interrupted, or the API or a server fails in it, its
messages are removed from the conversation, since an API refuses calls without results. The effects of its calls that have run
stay.
"""

import argparse
import contextlib
import json
import os
import sys
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Set

from ..client import Client
from ..client.config import Config, ServerConfig
from ..client.group import Group
from ..errors import MCPError, ToolError
from ..llm import anthropic_sampling, anthropic_tools, openai_sampling, openai_tools
from ..llm.sampling import openai_limit_name
from ..llm.toolset import Kit
from ..types import CreateMessageResult, Tool
from .parser import STATUS, UsageError
from .printing import clean, clean_line, text_of
from .target import client_of, server_names, take_file
from .terminal_questions import TerminalAsker

__all__ = ["HELP", "ChatModel", "add_arguments", "run"]

#: Most rounds of calls in one turn; a model that asks for more most likely repeats the same calls.
_MOST_ROUNDS = 50
#: Characters of arguments and of results that are shown.
_MOST_SHOWN = 300


class ChatModel:
    """A model behind the SDK of its API.

    :param name: of the model, as its API has it.
    :param system: the text that comes before the conversation; empty for none.
    :param max_tokens: the most tokens of one answer.
    """

    #: The base class of the errors that the SDK raises.
    failures: Any = Exception
    #: The client of the SDK.
    _api: Any

    def __init__(self, name: str, system: str, max_tokens: int) -> None:
        self.name, self.system, self.max_tokens = name, system, max_tokens

    def kit(self, client: Any) -> Kit:
        """Return the tools of a client in the form that the API takes."""
        raise NotImplementedError

    def sampling(self) -> Callable[[Any], CreateMessageResult]:
        """Return a handler for the sampling requests of servers, which the model answers."""
        raise NotImplementedError

    def ask(self, messages: List[Any], tools: List[Any], say: Callable[[str], object]) -> Any:
        """Send the conversation to the model, and return its reply as a message of the API.

        :param say: called with each piece of the reply's text, as it arrives.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections to the API."""
        self._api.close()


class AnthropicModel(ChatModel):
    """A model of Anthropic's Messages API."""

    def __init__(self, name: str, system: str, max_tokens: int) -> None:
        super().__init__(name, system, max_tokens)
        sdk = _sdk("anthropic")
        self._api = _made(sdk.Anthropic, "ANTHROPIC_API_KEY")
        if not any(getattr(self._api, name, None) for name in ("api_key", "auth_token", "credentials")):
            raise UsageError("set the variable ANTHROPIC_API_KEY to a key of the API")
        self.failures = sdk.AnthropicError

    def kit(self, client: Any) -> Kit:
        return anthropic_tools(client)

    def sampling(self) -> Callable[[Any], CreateMessageResult]:
        return anthropic_sampling(self._api, self.name, max_tokens=self.max_tokens)

    def ask(self, messages: List[Any], tools: List[Any], say: Callable[[str], object]) -> Any:
        options = {**({"system": self.system} if self.system else {}), **({"tools": tools} if tools else {})}
        with self._api.messages.stream(model=self.name, max_tokens=self.max_tokens, messages=messages, **options) as stream:
            for text in stream.text_stream:
                say(text)
            reply = stream.get_final_message()
        return {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in reply.content]}


class OpenAIModel(ChatModel):
    """A model of OpenAI's Chat Completions, or of an API of the same form: the variable OPENAI_BASE_URL has its address."""

    def __init__(self, name: str, system: str, max_tokens: int) -> None:
        super().__init__(name, system, max_tokens)
        sdk = _sdk("openai")
        self._api = _made(sdk.OpenAI, "OPENAI_API_KEY")
        self.failures = sdk.OpenAIError

    def kit(self, client: Any) -> Kit:
        return openai_tools(client)

    def sampling(self) -> Callable[[Any], CreateMessageResult]:
        return openai_sampling(self._api, self.name, max_tokens=self.max_tokens)

    def ask(self, messages: List[Any], tools: List[Any], say: Callable[[str], object]) -> Any:
        head = [{"role": "system", "content": self.system}] if self.system else []
        options = {openai_limit_name(self._api): self.max_tokens, **({"tools": tools} if tools else {})}
        text = ""
        calls: Dict[int, Dict[str, Any]] = {}
        with self._api.chat.completions.create(model=self.name, messages=[*head, *messages], stream=True,
                                               **options) as stream:
            for chunk in stream:
                for choice in chunk.choices[:1]:
                    if choice.delta.content:
                        text += choice.delta.content
                        say(choice.delta.content)
                    for part in choice.delta.tool_calls or ():
                        _add(calls.setdefault(part.index, {"id": "", "type": "function",
                                                           "function": {"name": "", "arguments": ""}}), part)
        uses = [calls[index] for index in sorted(calls)]
        return {"role": "assistant", "content": text or None, **({"tool_calls": uses} if uses else {})}


def _add(call: Dict[str, Any], part: Any) -> None:
    """Add a streamed piece of a call to the call, which the earlier pieces have begun."""
    call["id"] = part.id or call["id"]
    if part.function is not None:
        call["function"]["name"] += part.function.name or ""
        call["function"]["arguments"] += part.function.arguments or ""


_MODELS = {"anthropic": AnthropicModel, "openai": OpenAIModel}


def _sdk(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(f"the SDK of the model is missing: pip install '{__name__.partition('.')[0]}[{name}]'") from error


def _made(make: Callable[[], Any], variable: str) -> Any:
    try:
        return make()
    except Exception as error:  # the SDK raises it if there is no key
        raise UsageError(f"set the variable {variable} to a key of the API ({error})") from error


def _model(options: argparse.Namespace, system: str) -> ChatModel:
    kind, _, name = (options.model or "").partition(":")
    if kind not in _MODELS or not name:
        raise UsageError("name the model: --model anthropic:NAME or --model openai:NAME")
    if options.max_tokens < 1:
        raise UsageError("--max-tokens must be positive")
    return _MODELS[kind](name, system, options.max_tokens)


# --- consent -----------------------------------------------------------------------------------------


class Consent:
    """Shows each call of a tool, and asks the user before one that may destroy something.

    :param options: of the command; with ``--yes`` the user is not asked.
    :param ask: returns the user's answer to a question; None without a terminal.
    """

    def __init__(self, options: argparse.Namespace, ask: Optional[Callable[[str], str]]) -> None:
        self._options, self._ask = options, ask
        self._always: Set[str] = set()

    def middleware(self, find: Callable[[str], Optional[Tool]]) -> Callable[..., Dict[str, Any]]:
        """Return the middleware of a client.

        :param find: returns the client's tool with a name; None if there is none.
        """
        def approve(method: str, params: Dict[str, Any], proceed: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
            if method != "tools/call":
                return proceed()
            name, arguments = str(params.get("name")), json.dumps(params.get("arguments") or {}, ensure_ascii=False)
            tool = find(name)
            _note(f"[{name} {_cut(arguments)}]")
            if not self._allowed(name, tool):
                raise ToolError("The user did not allow this call.")
            result = proceed()
            _note(f"  {'error: ' if result.get('isError') else ''}{_shown(result)}")
            return result

        return approve

    def _allowed(self, name: str, tool: Optional[Tool]) -> bool:
        hints = tool.annotations if tool is not None else None
        harmless = hints is not None and (hints.is_read_only or not hints.is_destructive)
        if harmless or self._options.yes or name in self._always:
            return True
        if self._ask is None:
            _note("  not called: there is no terminal to ask at; --yes allows all calls")
            return False
        while True:
            question = f"  {clean_line(name)} may change or delete something. Call it? [y/n/a for always] "
            answer = self._ask(question).strip().lower()
            if answer in ("a", "always"):
                self._always.add(name)
            if answer in ("a", "always", "y", "yes", "n", "no", ""):
                return answer not in ("n", "no", "")

    def sampling(self, handler: Callable[[Any], CreateMessageResult]) -> Callable[[Any], Optional[CreateMessageResult]]:
        """Return a sampling handler that shows what a server asks the model, and asks the user first.

        With ``--yes`` the user is not asked. Without it, and without a terminal, the handler declines.
        """
        def answer(request: Any) -> Optional[CreateMessageResult]:
            texts = [getattr(block, "text", f"[{block.wire_type}]") for message in request.messages
                     for block in message.content]
            _note(f"[{request.server.display_name} asks the model: {_cut(' '.join(texts))}]")
            if not self._options.yes and (self._ask is None or self._ask("  Let the model answer? [y/n] ").strip().lower()
                                          not in ("y", "yes")):
                return None
            return handler(request)

        return answer


def _note(text: str) -> None:
    print(clean(clean_line(text) if "\n" in text else text), file=sys.stderr, flush=True)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "..."


def _shown(result: Mapping[str, Any]) -> str:
    blocks = [block for block in result.get("content") or () if isinstance(block, dict)]
    return _cut(" ".join(str(block.get("text") or f"[{block.get('type')}]") for block in blocks)) or "done"


# --- the conversation --------------------------------------------------------------------------------


HELP = """\
Each TARGET is a Python file, module:name, a command in quotes, a URL, @NAME, or mcp.json:name. The model is one
of Anthropic (pip install 'PACKAGE[anthropic]', ANTHROPIC_API_KEY), or of OpenAI or an API of the same form
(pip install 'PACKAGE[openai]', OPENAI_API_KEY, OPENAI_BASE_URL). Before a call that may change or delete
something, by the server's hints, you are asked. Servers may ask you, and with your consent the model. Ctrl-C
ends an answer, Ctrl-D the chat. When stdin is no terminal, each of its lines is a turn.

examples:
  %(prog)s chat weather.py --model anthropic:claude-sonnet-5-5
  %(prog)s chat notes.py https://example.com/mcp --model openai:gpt-5 --system 'Answer in French.'
  echo 'Will it rain in Rome?' | %(prog)s chat weather.py --model anthropic:claude-sonnet-5-5 --yes

""" + STATUS


def add_arguments(one: argparse.ArgumentParser, command: str) -> None:
    """Add the options of the command to its parser."""
    one.add_argument("--model", metavar="API:NAME", help="the model, as anthropic:NAME or openai:NAME")
    one.add_argument("--system", metavar="TEXT", help="a text for the model, before the instructions of the servers")
    one.add_argument("--max-tokens", type=int, default=4096, metavar="N", help="that an answer may have; default 4096")
    one.add_argument("--yes", action="store_true", help="ask before no call, and before no question to the model")


def run(words: List[str], options: argparse.Namespace) -> int:
    """Talk until the end of stdin; return the exit status.

    :param words: the targets.
    :raises UsageError: the model is not named, or cannot be used.
    :raises MCPError: a server cannot be reached.
    """
    if options.record or options.keep:
        raise UsageError("chat: leave out --record and --keep, which are for one server")
    model = _model(options, options.system or "")
    asker = TerminalAsker()
    with contextlib.closing(model), contextlib.ExitStack() as stack:
        consent = Consent(options, asker.line if asker.has_terminal else None)
        clients: Dict[str, Client] = {}
        for own in _targets(words, options):
            client = stack.enter_context(_client(own, consent, model))
            stack.enter_context(client)
            name = _label(own.words[0] if own.words else own.server)
            while name in clients:
                name += "_"
            clients[name] = client
        model.system = "\n\n".join(filter(None, [model.system, *(client.instructions for client in clients.values())]))
        source: Any = next(iter(clients.values())) if len(clients) == 1 else _group(clients)
        chat = _Chat(model, model.kit(source), asker)
        if asker.has_terminal:
            tools = len(source.list_tools())
            _note(f"{model.name} with {', '.join(clients)} ({tools} tool{'' if tools == 1 else 's'}); Ctrl-C ends an answer,"
                  " Ctrl-D the chat")
        return chat.run()


def _targets(words: List[str], options: argparse.Namespace) -> Iterator[argparse.Namespace]:
    """Give the options of each server, with its target as ``words``, or as ``config`` and ``server``."""
    for word in words or [""]:
        own = argparse.Namespace(**{**vars(options), "words": [word] if word else []})
        take_file(own.words, own)
        if own.config and not own.server:
            for name, used in server_names(own).items():
                if used:
                    yield argparse.Namespace(**{**vars(own), "server": name})
        else:
            yield own


def _label(target: str) -> str:
    """Return a name for a server; if there are several servers, it is the prefix of the names of its tools."""
    place = target.rpartition("/")[2] if "://" in target else os.path.basename(target.split()[0])
    return "".join(letter if letter.isalnum() else "_" for letter in place.lstrip("@").partition(".")[0]) or "server"


@contextlib.contextmanager
def _client(own: argparse.Namespace, consent: Consent, model: ChatModel) -> Iterator[Client]:
    found: List[Client] = []

    def find(name: str) -> Optional[Tool]:
        return next((tool for tool in found[0].list_tools() if tool.name == name), None)

    with client_of(list(own.words), own, middleware=[consent.middleware(find)],
                   sampling_handler=consent.sampling(model.sampling())) as client:
        found.append(client)
        yield client


def _group(clients: Mapping[str, Client]) -> Group:
    """Return a group of clients that are open."""
    config = Config({name: ServerConfig(name, "stdio") for name in clients})
    return Group(config, lambda server: clients[server.name])


class _Chat:
    """One conversation.

    :param kit: the tools.
    :param asker: knows whether there is a terminal, from which the user's lines are read with a prompt.
    """

    def __init__(self, model: ChatModel, kit: Kit, asker: TerminalAsker) -> None:
        self._model, self._kit, self._asker = model, kit, asker
        self._messages: List[Any] = []

    def run(self) -> int:
        """Read and answer until the end of stdin; return the exit status: 3 if the last turn has failed, 0 otherwise.

        A turn that the user interrupts does not change the status.
        """
        status = 0
        while True:
            try:
                text = self._read()
            except KeyboardInterrupt:
                _note("")
                continue
            if text is None:
                return status
            if not text.strip():
                continue
            before = len(self._messages)
            self._messages.append({"role": "user", "content": text.strip()})
            try:
                self._answer()
                status = 0
                continue
            except KeyboardInterrupt:
                _note("\ninterrupted: this turn is forgotten")
            except self._model.failures as error:
                _note(f"the API of the model failed: {error}")
                status = 3
            except MCPError as error:
                _note(text_of(error))
                status = 3
            del self._messages[before:]

    def _read(self) -> Optional[str]:
        if self._asker.has_terminal:
            try:
                return input("> ")
            except EOFError:
                print()
                return None
        return sys.stdin.readline() or None if sys.stdin is not None else None

    def _answer(self) -> None:
        for _ in range(_MOST_ROUNDS):
            reply = self._model.ask(self._messages, self._kit.tools, self._say)
            print(flush=True)
            self._messages.append(reply)
            answers = self._kit.answers(reply)
            if not answers:
                return
            self._messages += answers
        _note(f"the model has called tools {_MOST_ROUNDS} times without an end; say how to go on")

    @staticmethod
    def _say(text: str) -> None:
        print(clean(text), end="", flush=True)
