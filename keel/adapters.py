"""From what a model sent to a call of our own, and back to the message that answers it."""

from __future__ import annotations

import math
import re
from typing import Any

from .contracts import NAME_LENGTH, NAME_PATTERN, ErrorCode, ToolCall, ToolFailure, ToolRequest, ToolResult

MAX_DEPTH = 64  # levels of lists and objects, the outermost included
MAX_BYTES = 1 << 20  # of UTF-8, counted roughly as the JSON text would be
MAX_DIGITS = 400
_MAX_INT = 10**MAX_DIGITS
_NAME = re.compile(NAME_PATTERN.removesuffix("$") + r"\Z")


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
        raise ToolFailure(ErrorCode.INVALID_ARGUMENTS, f"This call cannot be run: {printable(request.problem)[:200]}")
    arguments = {} if request.arguments is None else request.arguments
    if type(arguments) is not dict:
        raise ToolFailure(
            ErrorCode.INVALID_ARGUMENTS,
            f"The arguments must be one JSON object, and came as {kind_of(arguments)}. Send an object.",
        )
    check_json(arguments)
    return ToolCall(call_id=call_id, name=name, arguments=arguments)


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
