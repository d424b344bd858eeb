"""Replies of a model, whole and in fragments, as short as a test can write them; and what they come to."""

from __future__ import annotations

from typing import Any

from keel import ToolFailure, ToolRequest
from keel.adapters import ModelTurn, read_response, read_stream, to_call


def function(name: Any = None, arguments: Any = None) -> dict[str, Any]:
    """What stands under `function`, without what is None."""
    return {key: value for key, value in {"name": name, "arguments": arguments}.items() if value is not None}


def part(index: Any = None, id: Any = None, name: Any = None, arguments: Any = None, **more: Any) -> dict[str, Any]:
    """A call, or a fragment of one, without what is None."""
    sent = {"index": index, "id": id, "function": function(name, arguments)} | more
    return {key: value for key, value in sent.items() if value is not None}


def reply(*calls: Any, content: Any = None, finish: Any = "tool_calls", **more: Any) -> dict[str, Any]:
    """A whole reply of one choice."""
    message = {"role": "assistant", "content": content, "tool_calls": list(calls), **more}
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}]}


def chunk(*parts: Any, content: Any = None, **more: Any) -> dict[str, Any]:
    """One chunk of a stream."""
    return {"choices": [{"index": 0, "delta": {"content": content, "tool_calls": list(parts), **more}}]}


def end(finish: Any = "tool_calls") -> dict[str, Any]:
    """The chunk that says why a stream is over."""
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}


def streamed(*parts: Any, finish: Any = "tool_calls") -> ModelTurn:
    """The turn of a stream that has each part in a chunk of its own. Without `finish`, it just stops."""
    return read_stream([chunk(), *[chunk(one) for one in parts], *([end(finish)] if finish else [])])


def sent(*calls: Any, **options: Any) -> ModelTurn:
    """The turn of a whole reply."""
    return read_response(reply(*calls, **options))


def outcome(request: ToolRequest) -> Any:
    """The (name, arguments) that a request comes to, or the code of its refusal."""
    try:
        call = to_call(request, "c-1")
    except ToolFailure as failure:
        return failure.error.code
    return call.name, call.arguments


def outcomes(turn: ModelTurn) -> list[Any]:
    return [outcome(request) for request in turn.requests]
