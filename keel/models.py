"""Where turns come from: a script, a provider, a small model on this machine. All of them speak as a Model."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol

from .adapters import ModelFailure, ModelTurn, printable, read_response, read_stream
from .structured import plain_messages, read_structured, structured_form

Message = dict[str, Any]
OnText = Callable[[str], None]


class Model(Protocol):
    """Anything that answers a conversation with one turn.

    `messages` and `tools` are those of a chat-completions request. A loop shows the same tools to all
    its models: who wants to change them changes a `copy.deepcopy`. Raises ModelFailure where there is
    no turn to give.
    """

    def complete(self, messages: list[Message], tools: list[dict[str, Any]] = ()) -> ModelTurn: ...


class ScriptError(Exception):
    """A script ran out, or was asked something else than it was written for. A mistake in the script's use."""


@dataclass(frozen=True)
class Step:
    """One answer of a script: a ModelTurn, a response body, or a list of chunks; and what must have been asked.

    `asked` is a text that the last message must hold, or a function of messages and tools.
    """

    reply: Any
    asked: str | Callable[[list[Message], list[Any]], bool] | None = None


class ScriptedModel:
    """Replays written or recorded turns, each once, in order. Raises ScriptError when it cannot."""

    def __init__(self, script: Iterable[Any]):
        self._steps = [one if isinstance(one, Step) else Step(one) for one in script]
        self.asked: list[list[Message]] = []  # the messages of every request so far

    def complete(self, messages: list[Message], tools: list[dict[str, Any]] = ()) -> ModelTurn:
        number = len(self.asked)
        if number >= len(self._steps):
            raise ScriptError(f"the script has {len(self._steps)} turns, and was asked for one more")
        step, last = self._steps[number], str((messages or [{}])[-1].get("content") or "")
        fits = step.asked(messages, list(tools)) if callable(step.asked) else (step.asked or "") in last
        if not fits:
            wanted = getattr(step.asked, "__name__", step.asked)
            raise ScriptError(f"turn {number + 1} of the script expects {wanted!r}, and was asked {last[:200]!r}")
        self.asked.append(deepcopy(list(messages)))
        reply = deepcopy(step.reply)  # whoever gets it may change it, and the script stays as it was written
        if isinstance(reply, ModelTurn):
            return reply
        return read_stream(reply) if isinstance(reply, list) else read_response(reply)


class OpenAIModel:
    """A model behind the chat-completions interface: OpenAI, DeepSeek, or any compatible server by its address.

    `timeout_s` bounds each wait: for the connection, for the reply, between two pieces of it. `max_retries`
    counts the tries after the first: the client waits as `retry-after` says (up to two minutes), and
    repeats on 408, 409, 429, 5xx, timeouts and lost connections. A turn is only read, so repeating a
    request for one does no harm. `on_text` gets text as it arrives, and makes the request a streamed
    one, which asks for the count of its tokens until a server refuses to be asked. `structured` asks for
    "tool or answer" as JSON text, for models that have no native tool calls. `variable` is named when the
    provider refuses the model's name.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout_s: float = 60.0,
        max_retries: int = 2,
        on_text: OnText | None = None,
        structured: bool = False,
        variable: str = "model",
    ):
        import openai

        self.model, self.on_text, self.structured, self.variable = model, on_text, structured, variable
        self._key, self._asks_for_usage = (api_key or "").strip(), True
        settings: dict[str, Any] = {"base_url": base_url, "timeout": timeout_s, "max_retries": max_retries}
        try:
            self._chat = openai.OpenAI(api_key=self._key or "none", **settings).chat.completions
        except Exception:  # the network library's own exception for an address that is none
            raise ModelFailure("the base URL is no address of a server") from None

    def __repr__(self) -> str:
        return f"OpenAIModel({self.model!r})"  # and never the key

    def complete(self, messages: list[Message], tools: list[dict[str, Any]] = ()) -> ModelTurn:
        """One request, one turn. Raises ModelFailure, whose text never holds the key."""
        form = self.structured and bool(tools)
        request = {"model": self.model, "messages": plain_messages(messages, tools) if self.structured else messages}
        if tools:
            request |= {"response_format": structured_form(tools)} if form else {"tools": list(tools)}
        try:
            turn = self._ask(request)
        except ModelFailure as failure:  # it may quote a server that quotes the request
            told = str(failure)
            for length in range(len(self._key), 7, -1):  # or its beginning, where a long text was cut
                told = told.replace(self._key[:length], "[the key]")
            raise ModelFailure(told) from None
        turn = read_structured(turn) if form else turn
        if self.structured and self.on_text and turn.text:
            self.on_text(turn.text)
        return turn

    def _ask(self, request: dict[str, Any]) -> ModelTurn:
        import openai

        try:
            if self.structured or not self.on_text:  # pieces of the form are nothing to show
                return read_response(_json(self._chat.with_raw_response.create(**request).http_response.content))
            return self._streamed(request)
        except openai.APIStatusError as error:
            raise ModelFailure(self._refusal(error.status_code, error.response.text)) from None
        except openai.APITimeoutError:
            raise ModelFailure("the model did not answer in time") from None
        except openai.APIError as error:
            raise ModelFailure(f"the model could not be reached: {error.message}") from None
        except UnicodeEncodeError:
            raise ModelFailure("the key or a message holds characters that cannot be sent") from None

    def _streamed(self, request: dict[str, Any]) -> ModelTurn:
        """A streamed turn, with its tokens where the server takes the question for them."""
        import openai

        if self._asks_for_usage:
            try:
                return self._stream(request | {"stream_options": {"include_usage": True}})
            except openai.APIStatusError as error:
                if error.status_code not in (400, 422):
                    raise
        turn = self._stream(request)
        self._asks_for_usage = False  # what was refused with the question is taken without it
        return turn

    def _stream(self, request: dict[str, Any]) -> ModelTurn:
        with self._chat.with_streaming_response.create(**request, stream=True) as reply:
            pieces = _arriving(reply.iter_bytes())
            if "event-stream" in reply.headers.get("content-type", ""):
                return read_stream(self._shown(_events(pieces)))
            return read_response(*self._shown([_json(b"".join(pieces))]))  # it cannot stream, or it failed

    def _shown(self, chunks: Iterable[Any]) -> Iterator[Any]:
        for chunk in chunks:
            if text := _text_in(chunk):
                self.on_text(text)
            yield chunk

    def _refusal(self, status: int, text: str) -> str:
        if status in (400, 403, 404, 422) and _NO_SUCH_MODEL.search(text):
            return f"the provider does not take the model {self.model!r}: set {self.variable} to one that it has"
        if status in (401, 403):
            return f"the provider refused the key (status {status})"
        return f"the provider answered with status {status}: {text.strip()[:200]}"


_NO_SUCH_MODEL = re.compile(r"(?i)model.{0,100}not[ _](exist|found)|(unknown|invalid|not a valid) model")


def _text_in(chunk: Any) -> str:
    with suppress(AttributeError, LookupError, TypeError):  # whether it is a chunk at all, its reader judges
        said = [one.get("delta") or one["message"] for one in chunk["choices"] if not one.get("index")]
        return printable(said[0]["content"] or "")
    return ""


def _json(data: bytes) -> Any:
    """The value of a JSON text; the text itself where it is none, such as a page of HTML."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data.decode("utf-8", "replace")


def _arriving(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces until the line breaks: what came so far is a turn that was cut short, and is read as one."""
    with suppress(Exception):  # every version of the client's own network library has its own
        yield from pieces


def _events(pieces: Iterable[bytes]) -> Iterator[Any]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for data in (line[5:].strip() for line in lines if line.startswith(b"data:")):
            if data == b"[DONE]":
                return
            yield _json(data)


def connect(environ: Mapping[str, str] | None = None, on_text: OnText | None = None) -> OpenAIModel | None:
    """The model for live cells, from the environment; None where none is set up.

    DEEPSEEK_API_KEY, else OPENAI_API_KEY (with OPENAI_MODEL), else KEEL_LOCAL_MODEL, the address of
    a local server. DEEPSEEK_BASE_URL and OPENAI_BASE_URL name any compatible server.
    """
    env = {name: value.strip() for name, value in (os.environ if environ is None else environ).items()}
    for name, default, url in _PROVIDERS:
        key, model = env.get(f"{name}_API_KEY"), env.get(f"{name}_MODEL") or default
        if key and model:
            url = env.get(f"{name}_BASE_URL") or url
            return OpenAIModel(model, api_key=key, base_url=url, on_text=on_text, variable=f"{name}_MODEL")
    if env.get("KEEL_LOCAL_MODEL"):
        return OpenAIModel("local", base_url=env["KEEL_LOCAL_MODEL"], on_text=on_text, structured=True)
    return None


_PROVIDERS = (("DEEPSEEK", "deepseek-flash", "https://api.deepseek.com"), ("OPENAI", "", "https://api.openai.com/v1"))
