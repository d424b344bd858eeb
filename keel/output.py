"""What a tool returned: is it what its contract promised, and how much of it goes back to the model?"""

from __future__ import annotations

import json
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from pydantic_core import to_json

from .adapters import MAX_DEPTH
from .contracts import ErrorCode, ToolFailure, ToolResult
from .registry import Tool

MESSAGE_BYTES = 16 * 1024  # what one result may cost the model's context
_LONG = 4000
_LEAVES = (str, int, float, bool, type(None), date, datetime, time, timedelta, Decimal, UUID)


def check_output(tool: Tool, value: Any) -> Any:
    """The returned value as JSON, by the tool's return annotation.

    Raises ToolFailure `invalid_output` for what breaks the annotation and for what JSON in UTF-8
    cannot carry: NaN, infinities, half characters, open files, iterators. A write has still happened.
    """
    try:
        output = tool.output
        value = output.validate(value, strict=True)
        if output.open:
            _refuse_unfit(output.dump(value, "python"), MAX_DEPTH)
        data = output.dump(value)
        text = to_json(data, inf_nan_mode="constants")
        if len(text) > _LONG or b"NaN" in text or b"Infinity" in text:
            json.loads(text, parse_constant=_refuse_constant)  # can it be read again? Not an integer of 5,000 digits
    except BaseException as error:  # a serializer of the tool's own may raise anything, and pydantic wraps it
        for one in (error, error.__cause__):
            if isinstance(one, KeyboardInterrupt):
                raise one from None
        raise ToolFailure(
            ErrorCode.INVALID_OUTPUT,
            f"{tool.name} returned something that its contract does not allow. This is the tool's fault, not yours.",
        ) from error
    return data


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _refuse_unfit(value: Any, levels: int) -> None:
    """Where no annotation speaks, let through only what has one plain meaning in JSON.

    pydantic would read an open file as a list of its lines, and write NaN as null.
    """
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        raise ValueError(f"{value} is no JSON")
    if isinstance(value, _LEAVES):
        return
    if levels == 0:
        raise ValueError("too many levels")
    if isinstance(value, dict):
        if not all(type(key) is str for key in value):
            raise TypeError("a key that is no text")
        value = value.values()
    elif not isinstance(value, list | tuple):
        raise TypeError(f"{type(value).__name__} is no JSON")
    for item in value:
        _refuse_unfit(item, levels - 1)


def capped(result: ToolResult, limit: int = MESSAGE_BYTES) -> ToolResult:
    """The result as it goes back to the model: at most `limit` bytes of JSON, and what is cut says so.

    The result itself stays whole; this makes another one. Cut data becomes an object with
    `truncated`, the size in `bytes`, and the `beginning` of the JSON text as a string. A limit
    below 512 is taken for 512: the answer's frame needs some of it.
    """
    size = len(result.model_dump_json().encode())
    if size <= max(limit, 512):
        return result
    text = to_json(result.data) if result.ok else to_json(result.error.message)
    room = max(limit, 512) - (size - len(text)) - 64  # of the frame nothing can be cut, and the label takes its part
    if result.ok:
        label = {"truncated": True, "bytes": len(text), "beginning": _head(text, room)}
        return result.model_copy(update={"data": label})
    message = _head(result.error.message.encode(), room) + " … (cut)"
    return result.model_copy(update={"error": result.error.model_copy(update={"message": message})})


def _head(text: bytes, limit: int) -> str:
    """The longest beginning that stays within `limit` bytes when JSON has escaped it once more."""
    head = text[: max(limit, 0)].decode("utf-8", "ignore")
    while len(to_json(head)) > limit and head:
        head = head[: len(head) * 3 // 4]
    return head
