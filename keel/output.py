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
_LEAVES = (str, int, float, bool, type(None), date, datetime, time, timedelta, Decimal, Enum, UUID)


def check_output(tool: Tool, value: Any) -> Any:
    """The returned value as JSON, by the tool's return annotation.

    Raises ToolFailure `invalid_output` for what breaks the annotation and for what JSON in UTF-8
    cannot carry: NaN, infinities, half characters, open files, iterators. A write has still happened.
    """
    try:
        value = tool.output.validate(value, strict=True)
        if tool.output.open:
            _refuse_unfit(tool.output.dump(value, "python"), MAX_DEPTH)
        data = tool.output.dump(value)
        text = to_json(data, inf_nan_mode="constants")
        if b"NaN" in text or b"Infinity" in text:
            json.loads(text, parse_constant=_refuse_constant)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a serializer of the tool's own may raise anything
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
    if isinstance(value, float) and not math.isfinite(value):
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
    """The result as it goes back to the model: at most about `limit` bytes, what is cut says so.

    The result itself stays whole; this makes another one. Cut data becomes an object with
    `truncated`, the size in `bytes`, and the `beginning` of the JSON text as a string.
    """
    if result.ok:
        text = to_json(result.data)
        if len(text) <= limit:
            return result
        label = {"truncated": True, "bytes": len(text), "beginning": _head(text, limit - 256)}
        return result.model_copy(update={"data": label})
    message = result.error.message.encode()
    if len(message) <= limit:
        return result
    error = result.error.model_copy(update={"message": _head(message, limit - 64) + " … (cut)"})
    return result.model_copy(update={"error": error})


def _head(text: bytes, limit: int) -> str:
    """The longest beginning that stays within `limit` bytes when JSON has escaped it once more."""
    head = text[: max(limit, 0)].decode("utf-8", "ignore")
    while len(to_json(head)) > limit and head:
        head = head[: len(head) * 3 // 4]
    return head
