"""Where turns come from: a script, a provider, a small model on this machine. All of them speak as a Model."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .adapters import ModelFailure, ModelTurn, read_response, read_stream, read_structured, structured_form

Message = dict[str, Any]


class Model(Protocol):
    """Anything that answers a conversation with one turn.

    `messages` and `tools` are those of a chat-completions request. Raises ModelFailure where there
    is no turn to give.
    """

    def complete(self, messages: list[Message], tools: list[dict[str, Any]] = ()) -> ModelTurn: ...


class ScriptError(Exception):
    """A script ran out, or was asked something else than it was written for. A mistake in the script's use."""


@dataclass(frozen=True)
class Step:
    """One answer of a script: a ModelTurn, a response body, or a list of chunks; and what must have been asked.

    `asked` is a text that the last message must hold, or a function of (messages, tools).
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
        step, last = self._steps[number], str((messages or [{}])[-1].get("content"))
        fits = step.asked(messages, list(tools)) if callable(step.asked) else (step.asked or "") in last
        if not fits:
            raise ScriptError(f"turn {number + 1} of the script expects {step.asked!r}, and was asked {last[:200]!r}")
        self.asked.append([dict(message) for message in messages])
        if isinstance(step.reply, ModelTurn):
            return step.reply
        return read_stream(step.reply) if isinstance(step.reply, list) else read_response(step.reply)


class OpenAIModel:
    """A model behind the chat-completions interface: OpenAI, DeepSeek, or any compatible server by its address.

    `timeout_s` bounds one try, `max_retries` counts the tries after the first: the client waits as
    `retry-after` says, and repeats on 408, 409, 429, 5xx and lost connections. A turn is only read,
    so repeating a request for one does no harm. `on_text` gets text as it arrives, and makes the
    request a streamed one. `structured` asks for "tool or answer" as JSON text, for models that
    have no native tool calls. `variable` is named when the provider refuses the model's name.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout_s: float = 60.0,
        max_retries: int = 2,
        on_text: Callable[[str], None] | None = None,
        structured: bool = False,
        variable: str = "model",
    ):
        import openai

        self.model, self.on_text, self.structured, self.variable = model, on_text, structured, variable
        self._client = openai.OpenAI(
            api_key=api_key or "none", base_url=base_url, timeout=timeout_s, max_retries=max_retries
        )

    def __repr__(self) -> str:
        return f"OpenAIModel({self.model!r})"  # and never the key

    def complete(self, messages: list[Message], tools: list[dict[str, Any]] = ()) -> ModelTurn:
        """One request, one turn. Raises ModelFailure, whose text never holds the key."""
        import openai

        request: dict[str, Any] = {"model": self.model, "messages": list(messages)}
        if tools and self.structured:
            request["response_format"] = structured_form(tools)
        elif tools:
            request["tools"] = list(tools)
        try:
            turn = self._streamed(request) if self.on_text else self._whole(request)
        except openai.APIStatusError as error:
            raise ModelFailure(self._refusal(error.status_code, error.response.text)) from None
        except openai.APITimeoutError:
            raise ModelFailure("the model did not answer in time") from None
        except openai.APIError as error:
            raise ModelFailure(f"the model could not be reached: {error.message}") from None
        return read_structured(turn) if tools and self.structured else turn

    def _whole(self, request: dict[str, Any]) -> ModelTurn:
        reply = self._client.chat.completions.with_raw_response.create(**request)
        try:
            body = json.loads(reply.http_response.text)
        except ValueError:  # a page of HTML with status 200
            body = reply.http_response.text
        return read_response(body)

    def _streamed(self, request: dict[str, Any]) -> ModelTurn:
        with self._client.chat.completions.create(**request, stream=True) as stream:
            return read_stream(self._shown(chunk.to_dict() for chunk in stream))

    def _shown(self, chunks: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        import httpx

        try:
            for chunk in chunks:
                for choice in chunk.get("choices") or ():
                    text = (choice.get("delta") or {}).get("content")
                    if isinstance(text, str) and text and choice.get("index", 0) == 0:
                        self.on_text(text)
                yield chunk
        except httpx.HTTPError:
            return  # the line broke: what came so far is a turn that was cut short, and is read as one

    def _refusal(self, status: int, text: str) -> str:
        if status in (401, 403):
            return f"the provider refused the key (status {status})"
        if status in (400, 404) and self.model in text:
            return f"the provider does not take the model {self.model!r}: set {self.variable} to one that it has"
        return f"the provider answered with status {status}: {text[:200]}"


def connect(
    environ: Mapping[str, str] | None = None, on_text: Callable[[str], None] | None = None
) -> OpenAIModel | None:
    """The model for live cells, from the environment; None where none is set up.

    DEEPSEEK_API_KEY, else OPENAI_API_KEY (with OPENAI_MODEL), else KEEL_LOCAL_MODEL, the address of
    a local server. DEEPSEEK_BASE_URL and OPENAI_BASE_URL name any compatible server.
    """
    env = os.environ if environ is None else environ
    for name, default, url in (("DEEPSEEK", "deepseek-flash", "https://api.deepseek.com"), ("OPENAI", "", None)):
        key, model = env.get(f"{name}_API_KEY"), env.get(f"{name}_MODEL") or default
        if key and model:
            return OpenAIModel(
                model,
                api_key=key,
                base_url=env.get(f"{name}_BASE_URL") or url,
                on_text=on_text,
                variable=f"{name}_MODEL",
            )
    if env.get("KEEL_LOCAL_MODEL"):
        return OpenAIModel("local", base_url=env["KEEL_LOCAL_MODEL"], on_text=on_text, structured=True)
    return None
