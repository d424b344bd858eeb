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

from pydantic import Field, field_validator

from .contracts import NAME_LENGTH, NAME_PATTERN, ErrorCode, Frozen, ToolCall, ToolFailure, ToolRequest, ToolResult

MAX_DEPTH = 64  # levels of lists and objects, the outermost included
MAX_BYTES = 1 << 20  # of UTF-8, counted roughly as the JSON text would be
MAX_DIGITS = 400
_MAX_INT = 10**MAX_DIGITS
_NAME, _FOREIGN = re.compile(NAME_PATTERN), re.compile(r"[^a-zA-Z0-9_-]")


class ModelFailure(Exception):
    """Raised for a reply that is an error and no reply: an error object, no choices, a page of HTML.

    Nothing was proposed, so there is nothing to answer. The text is the provider's, cut.
    """


class ModelTurn(Frozen):
    """One reply of a model: its text, and the calls that it proposes, in its own order.

    Every request has a `provider_id` of its own, to answer under: where a provider sent none, or one
    twice, the turn makes one. `finish_reason` is the provider's word, and `tokens` what it has counted
    for this turn, 0 where it does not say.
    """

    text: str = ""
    requests: tuple[ToolRequest, ...] = ()
    finish_reason: str | None = None
    tokens: int = Field(default=0, ge=0)

    @field_validator("requests")
    @classmethod
    def _each_under_its_own_id(cls, requests: tuple[ToolRequest, ...]) -> tuple[ToolRequest, ...]:
        taken: dict[str, ToolRequest] = {}
        for number, request in enumerate(requests, 1):
            one = sent = printable(request.provider_id or f"call_{number}")
            while one in taken:
                one, number = f"{sent}_{number}", number + 1
            taken[one] = request if one == request.provider_id else request.model_copy(update={"provider_id": one})
        return tuple(taken.values())


# Why a reply ended, where it ended because the model had finished.
_FINISHED = ("stop", "tool_calls", "function_call", "tool_use", "end_turn", "eos_token", "stop_sequence")


def read_response(body: Any) -> ModelTurn:
    """Read a whole chat completion, as the dict that its JSON is. Raises ModelFailure if it is none."""
    choice = _first_choice(body)
    message = choice.get("message") if choice is not None else None
    if not isinstance(message, dict):
        raise ModelFailure(f"the reply holds no message: {quoted(_shown(body), 200)}")
    reason = choice.get("finish_reason") or None
    turn = _turn(_text(message), [_Draft(one) for one in _calls(message)], reason, reason in (None, *_FINISHED))
    return turn.model_copy(update={"tokens": _tokens(body)})


def read_stream(chunks: Iterable[Any]) -> ModelTurn:
    """Read a streamed chat completion from its chunks, each a dict. Raises ModelFailure if it is none.

    A stream that ends before it says why (`finish_reason`) may have been cut: then only a call whose
    arguments are complete is one.
    """
    text, reason, begun, tokens, assembly = [], None, False, 0, _Assembly()
    for chunk in chunks:
        choice = _first_choice(chunk)
        tokens = max(tokens, _tokens(chunk))  # some servers count on, chunk by chunk
        if choice is None:  # usage, or a keep-alive
            continue
        begun = True
        delta = choice.get("delta", choice.get("message"))
        if isinstance(delta, dict):
            text.append(_text(delta))
            for fragment in _calls(delta):
                assembly.add(fragment)
        reason = choice.get("finish_reason") or reason
    if not begun:
        raise ModelFailure("the stream ended before it began")
    return _turn("".join(text), assembly.drafts, reason, reason in _FINISHED).model_copy(update={"tokens": tokens})


def _tokens(body: dict[str, Any]) -> int:
    """What a provider has counted, prompt and reply together; 0 where it says nothing that is a count."""
    usage = body.get("usage")
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return total if type(total) is int and 0 < total < 10**12 else 0


def _first_choice(body: Any) -> dict[str, Any] | None:
    """The choice whose index is 0. Others were sent for comparison, and only one answer can be run."""
    if not isinstance(body, dict):
        raise ModelFailure(f"the reply is no JSON object but {kind_of(body)}: {quoted(_shown(body))}")
    if error := body.get("error"):
        raise ModelFailure(_shown((isinstance(error, dict) and error.get("message")) or error))
    choices = body.get("choices")
    for choice in choices if isinstance(choices, list) else []:
        if isinstance(choice, dict) and choice.get("index", 0) in (0, None):
            return choice
    return None


def _shown(sent: Any) -> str:
    """The beginning of what came in the place of a reply, whatever it is."""
    try:
        return printable(str(sent)[:500])
    except (ValueError, RecursionError):  # a number of thousands of digits, lists in lists in lists
        return kind_of(sent)


def _text(message: dict[str, Any]) -> str:
    """The text of a message or a delta, also where it comes in parts or as a refusal. Never read for calls."""
    content = message.get("content") or message.get("refusal")
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _calls(message: dict[str, Any]) -> list[Any]:
    """What a message or a delta holds of calls, one in the retired form among them."""
    sent, retired = message.get("tool_calls") or [], message.get("function_call")
    calls = list(sent) if isinstance(sent, list) else [[sent]]  # what is no list is one call, and refused
    if any(retired.values()) if isinstance(retired, dict) else retired:
        calls.append({"type": "function_call", "index": "function_call", "function": retired})
    return calls


_REFUSED_KINDS = {
    "custom": "it is a custom tool call, whose input is free text; this harness runs functions",
    "function_call": "it came in the retired function_call form; send it as a tool call",
}


class _Draft:
    """A call while it is being put together: what was sent as a whole, or a fragment and what joins it."""

    def __init__(self, sent: Any):
        self.id: str | None = None
        self.name = ""
        self.pieces: list[Any] = []
        self.problem: str | None = None
        self.unsure = False  # without arguments, it may be no call at all
        self.before: _Draft | None = None  # whoever had its index before
        if not isinstance(sent, dict):
            self.problem = f"it is no object but {kind_of(sent)}"
            return
        kind, function, custom = sent.get("type"), sent.get("function"), sent.get("custom")
        if kind == "custom" or (_named(custom) and not _named(function)):  # some fill in both, and mean one
            kind, function = "custom", custom
        self.problem = _REFUSED_KINDS.get(kind) if isinstance(kind, str) else None
        if isinstance(sent.get("id"), str):
            self.id = sent["id"] or None
        if isinstance(function, dict):
            self.name = function["name"] if _named(function) else ""
            self.pieces = [one for one in [function.get("arguments")] if one is not None and one != ""]

    def join(self, more: _Draft) -> None:
        """Take in another fragment. Some send the whole name again with every one, some send it in pieces."""
        again = bool(more.name) and more.name == self.name
        if again and not (self.id or self.pieces):
            self.problem = "its name came twice, and it may be two calls"
        if not (again and (more.id or self.pieces)):
            self.name += more.name
        self.id, self.problem = self.id or more.id, self.problem or more.problem
        self.pieces += more.pieces

    @property
    def arguments(self) -> Any:
        if self.pieces and all(isinstance(piece, str) for piece in self.pieces):
            return _joined(self.pieces)
        return self.pieces[0] if len(self.pieces) == 1 else self.pieces or None  # an object; a mix is refused


def _named(function: Any) -> bool:
    return isinstance(function, dict) and isinstance(function.get("name"), str) and function["name"] != ""


def _joined(pieces: list[str]) -> str:
    """One text of its pieces; a character that was sent in two halves is whole again."""
    text = "".join(pieces)
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class _Assembly:
    """Puts streamed fragments together: by id as well as by index, since neither can be relied on alone."""

    def __init__(self):
        self.drafts: list[_Draft] = []
        self._at: dict[Any, _Draft] = {}  # the draft that an index last meant, and each id, with its index and without

    def add(self, fragment: Any) -> None:
        piece = _Draft(fragment)
        index = fragment.get("index") if isinstance(fragment, dict) else None
        index = index if isinstance(index, int | str) else None
        last = self.drafts[-1] if self.drafts else None
        here = last if index is None else self._at.get(index)
        draft = None if not isinstance(fragment, dict) else self._find(piece, index, here, last)
        if draft is None:
            namesake = self._at.get((None, piece.id)) if piece.id else here
            piece.unsure = namesake is not None and namesake.name == piece.name
            piece.before, draft = here, piece
            self.drafts.append(piece)
        else:
            rival = draft.before if piece.pieces and not (piece.id or draft.pieces) else None
            while rival is not None and not (rival.pieces or rival.unsure):  # who had the index may have lost these
                rival.unsure, rival = True, rival.before
            draft.join(piece)
        if index is not None:
            self._at[index] = draft
        if draft.id:
            self._at[index, draft.id] = self._at[None, draft.id] = draft

    def _find(self, piece: _Draft, index: Any, here: _Draft | None, last: _Draft | None) -> _Draft | None:
        """The draft that a fragment goes on with; None if it begins a new one."""
        if piece.id:
            # The same id at an index of its own: a new call if it brings a name, else more of that one.
            known = self._at.get((index, piece.id)) or (None if piece.name else self._at.get((None, piece.id)))
            fits = here is not None and not here.id and not (piece.name and (here.name or here.pieces))
            return known or (here if fits else None)
        if here is None:
            # An index that nobody has used: a head that was sent under another's, if it still waits for arguments.
            waits = last is not None and last.before is not None and not last.pieces and not piece.name
            return last if waits else None
        # A name behind arguments opens another call, unless it is said again of a call that has an id.
        begins = piece.name and here.pieces and not (here.id and here.name == piece.name)
        return None if begins else here


def _turn(text: str, drafts: list[_Draft], reason: Any, over: bool) -> ModelTurn:
    # Arguments without a name may be any call's: then no call is believed to have none.
    over = over and all(draft.name or not draft.pieces for draft in drafts)
    requests = []
    for draft in drafts:
        problem, arguments = draft.problem, draft.arguments
        if problem is None and (draft.unsure or not over) and not _is_whole(arguments):
            problem = "the reply was cut short before its arguments were complete. Send it again, shorter"
        requests.append(ToolRequest(provider_id=draft.id, name=draft.name, arguments=arguments, problem=problem))
    text, reason = printable(_joined([text])), reason if isinstance(reason, str) else None
    return ModelTurn(text=text, requests=requests, finish_reason=reason)


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
    if request.problem is not None:
        raise ToolFailure(ErrorCode.INVALID_ARGUMENTS, f"This call cannot be run: {printable(request.problem)[:200]}.")
    name = request.name or ""
    if len(name) > NAME_LENGTH or not _NAME.fullmatch(name):
        raise ToolFailure(
            ErrorCode.UNKNOWN_TOOL,
            f"No tool can be called {quoted(name)}: names are lower-case letters, digits and underscores.",
        )
    return ToolCall(call_id=call_id, name=name, arguments=read_arguments(request.arguments))


def read_arguments(sent: Any) -> dict[str, Any]:
    """The arguments as an object: no text, white space and null stand for {}. An object passes as it is.

    Raises ToolFailure `invalid_arguments` for anything else that is not one JSON object within the
    limits: a list, a text in a text, a key twice, NaN, text behind the end.
    """
    if sent is None:
        return {}
    value = _parse(sent) if type(sent) is str else sent
    if type(value) is not dict:
        raise _refused(f"they must be one JSON object, and came as {kind_of(value)}. Send an object")
    if value is sent:
        check_json(value)
    return value


def _parse(text: str) -> Any:
    """The value of a JSON text within the limits; {} for no text and for null."""
    try:
        if not text.isascii():
            text.encode("utf-16-le")  # raises where there is half a character, and costs less than UTF-8
        if len(text) > MAX_BYTES // 4 and len(text.encode()) > MAX_BYTES:
            raise _refused(_TOO_LARGE)
        if text.count("[") + text.count("{") > MAX_DEPTH and _is_deep(text.encode()):
            raise _refused(f"they have more than {MAX_DEPTH} levels of lists and objects. Send fewer")
        if not text or text.isspace():
            return {}
        value = (_careful_decoder if _may_hold_long_integers(text) else _decoder).decode(text)
        if "\\" in text and "\\u" in text and "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode()  # raises where half a character came as an escape
    except json.JSONDecodeError as error:
        raise _refused(f"they are not JSON: {error.msg} at character {error.pos + 1}. Send one JSON object") from None
    except (ValueError, RecursionError) as problem:
        raise _unfit(problem) from None
    return {} if value is None else value


def _is_deep(data: bytes) -> bool:
    """Whether brackets nest more than MAX_DEPTH levels. A count, and no recursion."""
    outside = data.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_ONE_KIND, _NO_STRUCTURE)
    brackets = left = _STRING.sub(b"", outside.replace(b'""', b""))
    for _ in range(MAX_DEPTH):  # each time the innermost level goes; most texts are soon without any
        left = left.replace(b"[]", b"")
        if not left:
            return False
    return max(accumulate(1 if byte == ord("[") else -1 for byte in brackets)) > MAX_DEPTH


def _may_hold_long_integers(text: str) -> bool:
    """Whether a block of the text is all digits: more than MAX_DIGITS in a row fill one at least."""
    first = text[::_RUN] if len(text) > MAX_DIGITS else ""
    return any(one.isdigit() and text[at * _RUN : at * _RUN + _RUN].isdigit() for at, one in enumerate(first))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key twice in one object")
    return made


def _float(text: str) -> float:
    if math.isfinite(number := float(text)):
        return number
    raise ValueError(f"the number {text[:20]}")


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise ValueError(_TOO_LONG)
    return int(digits)


_hooks = {"object_pairs_hook": _object, "parse_constant": _float, "parse_float": _float}
_decoder, _careful_decoder = json.JSONDecoder(**_hooks), json.JSONDecoder(**_hooks, parse_int=_integer)
_RUN = MAX_DIGITS // 2
_ONE_KIND, _NO_STRUCTURE = bytes.maketrans(b"{}", b"[]"), bytes(set(range(256)) - set(b'[]{}"'))
_STRING = re.compile(rb'"[^"]*"')
_TOO_LARGE = f"they are too large: over {MAX_BYTES} bytes. Send less"
_TOO_LONG = f"a number of more than {MAX_DIGITS} digits"


def _refused(why: str) -> ToolFailure:
    return ToolFailure(ErrorCode.INVALID_ARGUMENTS, f"The arguments cannot be read: {why}.")


def _unfit(problem: Exception) -> ToolFailure:
    """The refusal of what JSON cannot hold. A ValueError of this module says what that is."""
    words = {UnicodeEncodeError: "text with half a character (a lone surrogate)", RecursionError: "too many levels"}
    return _refused(f"they hold {words.get(type(problem), problem)}. Send plain JSON without it")


def assistant_message(turn: ModelTurn) -> dict[str, Any]:
    """The model's own turn as it goes back in the history, valid for any provider.

    What could not be read goes back as a call without arguments under a name that a provider takes:
    a history that holds unreadable arguments is refused by the next request.
    """
    content = printable(turn.text) or (None if turn.requests else "")
    calls = {"tool_calls": [_as_sent(request) for request in turn.requests]} if turn.requests else {}
    return {"role": "assistant", "content": content, **calls}


def _as_sent(request: ToolRequest) -> dict[str, Any]:
    try:
        arguments = {} if request.problem else read_arguments(request.arguments)
    except ToolFailure:
        arguments = {}
    name = _FOREIGN.sub("_", request.name or "")[:NAME_LENGTH] or "unnamed"
    text = json.dumps(arguments, ensure_ascii=False)
    return {"id": request.provider_id, "type": "function", "function": {"name": name, "arguments": text}}


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
            short = type(key) is str and type(item) is str and len(key) + len(item) < 1024
            if not (short and key.isascii() and item.isascii()):
                break
        else:
            return
    try:
        left = _measure(value, MAX_DEPTH, MAX_BYTES)
    except (ValueError, RecursionError) as problem:  # a UnicodeEncodeError is one too
        raise _unfit(problem) from None
    if left < 0:
        raise _refused(_TOO_LARGE)


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
            raise ValueError(_TOO_LONG)
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
