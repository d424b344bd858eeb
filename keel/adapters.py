"""From what a model sent to a call of our own, and back to the messages that answer it.

Providers agree on little: who makes ids, what an index means, when a stream is over. So everything is
read as plain dicts, and whatever is not clearly one whole call becomes a request that is refused. Nothing
is repaired by guessing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from .contracts import (
    NAME_LENGTH,
    NAME_PATTERN,
    ErrorCode,
    Frozen,
    ToolCall,
    ToolFailure,
    ToolRequest,
    ToolResult,
)

MAX_DEPTH = 64  # levels of lists and objects, the outermost included
MAX_BYTES = 1 << 20  # of UTF-8, counted roughly as the JSON text would be
MAX_DIGITS = 400
_MAX_INT = 10**MAX_DIGITS
_NAME = re.compile(NAME_PATTERN.removesuffix("$") + r"\Z")


class ModelFailure(Exception):
    """Raised for a reply that is an error and no reply: an error object, no choices, a page of HTML.

    Nothing was proposed, so there is nothing to answer. The text is the provider's, cut.
    """


class ModelTurn(Frozen):
    """One reply of a model: its text, and the calls that it proposes, in its own order.

    No two requests of a turn have the same `provider_id`, and none has an empty one: where a provider
    sent none, or one twice, the reader makes one to answer under. `finish_reason` is the provider's word.
    """

    text: str = ""
    requests: tuple[ToolRequest, ...] = ()
    finish_reason: str | None = None


def read_response(body: Any) -> ModelTurn:
    """Read a whole chat completion, as the dict that its JSON is. Raises ModelFailure if it is none."""
    choice = _first_choice(body)
    message = choice.get("message") if choice is not None else None
    if not isinstance(message, dict):
        raise ModelFailure("the reply holds no message")
    drafts = [_Draft.of(one) for one in _list(message.get("tool_calls"))]
    if _named(message.get("function_call")):
        drafts.append(_Draft.legacy(message["function_call"]))
    reason = choice.get("finish_reason")
    return _turn(_text(message), drafts, reason, over=reason not in _CUT)


def read_stream(chunks: Iterable[Any]) -> ModelTurn:
    """Read a streamed chat completion from its chunks, each a dict. Raises ModelFailure if it is none.

    A stream that ends before it says why (`finish_reason`) may have been cut: then only a call whose
    arguments are complete is one.
    """
    text, reason, begun, assembly = [], None, False, _Assembly()
    for chunk in chunks:
        choice = _first_choice(chunk, streamed=True)
        if choice is None:  # usage, or a keep-alive
            continue
        begun = True
        delta = choice.get("delta") or choice.get("message")
        if isinstance(delta, dict):
            text.append(_text(delta))
            for fragment in _list(delta.get("tool_calls")):
                assembly.add(fragment)
            if isinstance(delta.get("function_call"), dict) and any(delta["function_call"].values()):
                assembly.add_legacy(delta["function_call"])
        reason = choice.get("finish_reason") or reason
    if not begun:
        raise ModelFailure("the stream ended before it began")
    return _turn("".join(text), assembly.drafts, reason, over=reason is not None and reason not in _CUT)


# Why a reply ended before the model had finished.
_CUT = ("length", "max_tokens", "content_filter")


def _first_choice(body: Any, streamed: bool = False) -> dict[str, Any] | None:
    """The choice whose index is 0. Others were sent for comparison, and only one answer can be run."""
    if not isinstance(body, dict):
        raise ModelFailure(f"the reply is no JSON object but {kind_of(body)}: {quoted(str(body))}")
    if body.get("error"):
        error = body["error"]
        raise ModelFailure(str(error.get("message", error) if isinstance(error, dict) else error)[:500])
    choices = [one for one in _list(body.get("choices")) if isinstance(one, dict)]
    for choice in choices:
        if choice.get("index", 0) in (0, None):
            return choice
    if streamed:
        return None
    raise ModelFailure("the reply holds no choice")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(message: dict[str, Any]) -> str:
    """The text of a message or a delta, also where it comes in parts or as a refusal. Never read for calls."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return printable(content or message.get("refusal") or "") if isinstance(content, str | None) else ""


def _named(function: Any) -> bool:
    return isinstance(function, dict) and bool(function.get("name"))


class _Draft:
    """A call while it is being put together."""

    def __init__(self, id: Any = None, problem: str | None = None):
        self.id = id if isinstance(id, str) and id else None
        self.name = ""
        self.pieces: list[Any] = []
        self.problem = problem

    @classmethod
    def of(cls, sent: Any) -> _Draft:
        """A call that was sent as a whole, or a fragment of one."""
        if not isinstance(sent, dict):
            return cls(problem=f"it is no object but {kind_of(sent)}")
        draft = cls(sent.get("id"))
        # Some fill every form that there is with empty texts, and mean one of them.
        if sent.get("type") == "custom" or (not _named(sent.get("function")) and _named(sent.get("custom"))):
            draft.problem = "it is a custom tool call, whose input is free text; this harness runs functions"
        draft.take(sent.get("custom") if draft.problem else sent.get("function"))
        return draft

    @classmethod
    def legacy(cls, sent: dict[str, Any]) -> _Draft:
        draft = cls(problem="it came in the retired function_call form; send it as a tool call")
        draft.take(sent)
        return draft

    def take(self, function: Any) -> None:
        """Add what a fragment holds of the name and the arguments."""
        if isinstance(function, dict):
            name, arguments = function.get("name"), function.get("arguments")
            if isinstance(name, str) and not (self.name == name and self.id is not None):
                self.name += name  # some send the whole name again with every chunk, some send it in pieces
            if arguments is not None and arguments != "":
                self.pieces.append(arguments)

    @property
    def arguments(self) -> Any:
        if all(isinstance(piece, str) for piece in self.pieces):
            return "".join(self.pieces) if self.pieces else None
        return self.pieces[0] if len(self.pieces) == 1 else self.pieces  # an object, or a mix that is refused


class _Assembly:
    """Puts streamed fragments together: by id as well as by index, since neither can be relied on alone."""

    def __init__(self):
        self.drafts: list[_Draft] = []
        self._at: dict[Any, _Draft] = {}  # the draft that an index last meant
        self._legacy: _Draft | None = None

    def add(self, fragment: Any) -> None:
        piece = _Draft.of(fragment)
        if not isinstance(fragment, dict):
            self.drafts.append(piece)
            return
        index = fragment.get("index")
        index = index if isinstance(index, int | str) else None
        draft = self._find(piece, index)
        if draft is None:
            self.drafts.append(piece)
            draft = piece
        else:
            draft.id = draft.id or piece.id
            draft.problem = draft.problem or piece.problem
            draft.take(fragment.get("function") or fragment.get("custom"))
        if index is not None:
            self._at[index] = draft

    def _find(self, piece: _Draft, index: Any) -> _Draft | None:
        """The draft that a fragment goes on with; None if it begins a new one."""
        last = self.drafts[-1] if self.drafts else None
        here = self._at.get(index) if index is not None else last
        if piece.id is not None:
            if here is not None and here.id in (piece.id, None):
                return here if here.id or not self._begins(piece, here) else None
            same = [one for one in self.drafts if one.id == piece.id]
            # The same id at an index of its own: a new call if it brings a name, else more of that one.
            return same[-1] if same and (index is None or not piece.name) else None
        if here is not None:
            return None if self._begins(piece, here) else here
        # An index that nobody has used: a head that was sent elsewhere, if it still waits for its arguments.
        waits = last is not None and not piece.name and not last.pieces
        return last if waits else None

    @staticmethod
    def _begins(piece: _Draft, draft: _Draft) -> bool:
        """Whether a name in a fragment without a known id opens another call: the one before has its arguments."""
        return bool(piece.name) and (bool(draft.pieces) or piece.name == draft.name)

    def add_legacy(self, sent: dict[str, Any]) -> None:
        if self._legacy is None:
            self._legacy = _Draft.legacy(sent)
            self.drafts.append(self._legacy)
        else:
            self._legacy.take(sent)


def _turn(text: str, drafts: list[_Draft], reason: Any, over: bool) -> ModelTurn:
    ids: set[str] = set()
    requests = []
    for number, draft in enumerate(drafts, 1):
        problem, arguments = draft.problem, draft.arguments
        if problem is None and not over and not _is_whole(arguments):
            problem = "the reply was cut short before its arguments were complete. Send it again, shorter"
        provider_id = _answer_id(draft.id, number, ids)
        requests.append(ToolRequest(provider_id=provider_id, name=draft.name, arguments=arguments, problem=problem))
    return ModelTurn(text=text, requests=tuple(requests), finish_reason=reason if isinstance(reason, str) else None)


def _answer_id(sent: str | None, number: int, taken: set[str]) -> str:
    """The provider's id where it is one of its own, else one that this turn does not have yet."""
    wanted = printable(sent) if sent else f"call_{number}"
    one = wanted
    while one in taken:
        one = f"{wanted}_{number}"
        number += 1
    taken.add(one)
    return one


def _is_whole(arguments: Any) -> bool:
    """Whether a text is one complete JSON object. No arguments at all may be arguments that never came."""
    if not isinstance(arguments, str):
        return isinstance(arguments, dict)
    try:
        read_arguments(arguments)
    except ToolFailure:
        return False
    return arguments.strip() not in ("", "null")


def to_call(request: ToolRequest, call_id: str) -> ToolCall:
    """Make our own record of a request, under an id that we minted.

    Raises ToolFailure: `unknown_tool` for a name that no tool can have, `invalid_arguments` for
    arguments that are not one JSON object within the limits, or that were cut short.
    """
    name = request.name or ""
    if not (len(name) <= NAME_LENGTH and _NAME.match(name)):
        raise ToolFailure(
            ErrorCode.UNKNOWN_TOOL,
            f"No tool can be called {quoted(name)}: names are lower-case letters, digits and underscores.",
        )
    if request.problem is not None:
        raise ToolFailure(ErrorCode.INVALID_ARGUMENTS, f"This call cannot be run: {printable(request.problem)[:200]}.")
    return ToolCall(call_id=call_id, name=name, arguments=read_arguments(request.arguments))


def structured_form(tools: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The `response_format` that asks a model without native tool calls for "tool or answer" as JSON text."""
    forms = [_form(answer={"type": "string"})]
    for tool in tools:
        function = tool["function"]
        forms.append(_form(tool={"const": function["name"]}, arguments=function["parameters"]))
    return {"type": "json_schema", "json_schema": {"name": "tool_or_answer", "schema": {"anyOf": forms}}}


def _form(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def read_structured(turn: ModelTurn) -> ModelTurn:
    """Read a turn whose text is in that form: a second way to write the same call. Only where it was asked for.

    A text that is in no such form stays a text.
    """
    try:
        said = read_arguments(turn.text)
    except ToolFailure:
        return turn
    if isinstance(said.get("answer"), str) and len(said) == 1:
        return turn.model_copy(update={"text": said["answer"]})
    if isinstance(said.get("tool"), str) and set(said) <= {"tool", "arguments"}:
        request = ToolRequest(provider_id="call_1", name=said["tool"], arguments=said.get("arguments"))
        return turn.model_copy(update={"text": "", "requests": (request,)})
    return turn


def read_arguments(sent: Any) -> dict[str, Any]:
    """The arguments as an object: no text, white space and null stand for {}. An object passes as it is.

    Raises ToolFailure `invalid_arguments` for anything else that is not one JSON object within the
    limits: a list, a text in a text, a key twice, NaN, text behind the end.
    """
    if sent is None:
        return {}
    value, doubtful = sent, True
    if type(sent) is str:
        value, doubtful = _parse(sent)
    if type(value) is not dict:
        raise _refused(f"they must be one JSON object, and came as {kind_of(value)}. Send an object")
    if doubtful:
        check_json(value)
    return value


def _parse(text: str) -> tuple[Any, bool]:
    """The value of a JSON text, and whether it may still hold what a text cannot show at a glance."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise _refused("they hold text with half a character (a lone surrogate)") from None
    if len(data) > MAX_BYTES:
        raise _refused(f"they are too large: over {MAX_BYTES} bytes. Send less")
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _is_deep(data):
        raise _refused(f"they have more than {MAX_DEPTH} levels of lists and objects. Send fewer")
    try:
        value = _decoder.decode(text) if text and not text.isspace() else {}
    except json.JSONDecodeError as error:
        raise _refused(f"they are not JSON: {error.msg} at character {error.pos + 1}. Send one JSON object") from None
    except _NotJson as problem:
        raise _refused(f"they hold {problem}. Send plain JSON without it") from None
    except (ValueError, RecursionError):  # int() refuses numbers of thousands of digits
        raise _refused(f"they hold a number of more than {MAX_DIGITS} digits. Send a shorter one") from None
    return {} if value is None else value, _is_doubtful(data)


def _is_deep(data: bytes) -> bool:
    """Whether brackets nest more than MAX_DEPTH levels. A count, and no recursion."""
    outside = data.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NO_STRUCTURE)
    brackets = _STRING.sub(b"", outside.replace(b'""', b""))
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > MAX_DEPTH


def _is_doubtful(data: bytes) -> bool:
    """Whether a text may come to half characters, infinite floats or numbers of hundreds of digits.

    Most texts are cleared by a look for single characters. One regular expression for all of this
    would cost more than the parsing.
    """
    if b"\\" in data and _SURROGATE.search(data):
        return True
    if (b"e" in data and _EXPONENT.search(data)) or (b"E" in data and _EXPONENT_UPPER.search(data)):
        return True
    sample = data[::_RUN]  # 300 digits in a row fill at least one block of 150, and so meet its first character
    if len(sample) < 3 or sample.translate(None, b"0123456789") == sample:
        return False
    return any(data[at : at + _RUN].isdigit() for at in range(0, len(data), _RUN))


class _NotJson(Exception):
    """Python's parser met something that it takes and JSON does not."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise _NotJson("a key twice in one object")
    return made


def _constant(name: str) -> None:
    raise _NotJson(f"the number {name}")


_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
_NO_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))
_STEP = [{"[": 1, "{": 1, "]": -1, "}": -1}.get(chr(byte), 0) for byte in range(256)]
_STRING = re.compile(rb'"[^"]*"')
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_EXPONENT, _EXPONENT_UPPER = re.compile(rb"e\+?[0-9]{3}"), re.compile(rb"E\+?[0-9]{3}")
_RUN = 150


def _refused(why: str) -> ToolFailure:
    return ToolFailure(ErrorCode.INVALID_ARGUMENTS, f"The arguments cannot be read: {why}.")


def assistant_message(turn: ModelTurn) -> dict[str, Any]:
    """The model's own turn as it goes back in the history, valid for any provider.

    What could not be read goes back as a call without arguments under a name that a provider takes:
    a history that holds unreadable arguments is refused by the next request.
    """
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
    if turn.requests:
        message["tool_calls"] = [_as_sent(request) for request in turn.requests]
    elif not turn.text:
        message["content"] = ""
    return message


def _as_sent(request: ToolRequest) -> dict[str, Any]:
    try:
        arguments = {} if request.problem else read_arguments(request.arguments)
    except ToolFailure:
        arguments = {}
    name = _FOREIGN.sub("_", request.name or "")[:NAME_LENGTH] or "unnamed"
    text = json.dumps(arguments, ensure_ascii=False)
    return {"id": request.provider_id, "type": "function", "function": {"name": name, "arguments": text}}


_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")


def to_message(request: ToolRequest, result: ToolResult) -> dict[str, Any]:
    """The tool message that answers a request, under the id that the provider gave it.

    The result should have been capped (`keel.output.capped`) first: this only writes it down.
    """
    content = result.model_dump_json(exclude={"call_id"})
    return {"role": "tool", "tool_call_id": request.provider_id, "content": content}


def check_json(value: Any) -> None:
    """Raise ToolFailure `invalid_arguments` unless value is JSON within this module's limits.

    Exact types only: a subclass of str or dict may behave as it likes, JSON has none.
    """
    if type(value) is dict and len(value) < 16:  # most calls are a few short words: no need to measure
        for key, item in value.items():
            if type(key) is not str or type(item) is not str or len(key) + len(item) > 1024:
                break
            if not (key.isascii() and item.isascii()):
                break
        else:
            return
    try:
        left = _measure(value, MAX_DEPTH, MAX_BYTES)
    except ValueError as problem:  # a UnicodeEncodeError is one too
        reason = "text with half a character (a lone surrogate)" if isinstance(problem, UnicodeError) else problem
        raise ToolFailure(
            ErrorCode.INVALID_ARGUMENTS, f"The arguments hold {reason}. Send plain JSON without it."
        ) from None
    if left < 0:
        raise ToolFailure(
            ErrorCode.INVALID_ARGUMENTS, f"The arguments are too large: over {MAX_BYTES} bytes. Send less."
        )


def _measure(value: Any, levels: int, left: int) -> int:
    """How much is left of so many bytes after value, roughly, as JSON text; below zero it need not go on.

    Raises ValueError for what JSON cannot hold.
    """
    kind = type(value)
    if kind is str:
        return left - 3 - (len(value) if value.isascii() else len(value.encode()))
    if kind is bool or value is None:
        return left - 5
    if kind is int:
        if not -_MAX_INT < value < _MAX_INT:
            raise ValueError(f"a number of more than {MAX_DIGITS} digits")
        return left - 2 - value.bit_length() // 3
    if kind is float:
        if not math.isfinite(value):
            raise ValueError(f"the number {value}")
        return left - 10
    if kind is not dict and kind is not list:
        raise ValueError(f"a value of type {printable(kind.__name__)}")
    if levels == 0:
        raise ValueError(f"more than {MAX_DEPTH} levels of lists and objects")
    left -= 2
    for key in value:
        if left < 0:  # a list may hold itself, or one list many times over
            break
        item = key
        if kind is dict:
            if type(key) is not str:
                raise ValueError(f"a key of type {printable(type(key).__name__)}")
            left, item = _measure(key, 0, left), value[key]
        left = _measure(item, levels - 1, left)
    return left


def kind_of(value: Any) -> str:
    """The JSON word for a value's type, with its article: "a string", "an object"."""
    words = {str: "a string", bool: "a boolean", int: "an integer", float: "a number", dict: "an object"}
    return "null" if value is None else words.get(type(value), "a list" if type(value) is list else "no JSON")


def quoted(text: str, limit: int = 60) -> str:
    """Text that somebody else wrote, short enough and safe to stand in a sentence of ours."""
    text = printable(text)
    return repr(text if len(text) <= limit else text[:limit] + "…")


def printable(text: str) -> str:
    """The text with half characters replaced, so that UTF-8 can carry it."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
