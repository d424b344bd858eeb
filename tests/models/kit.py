"""Replies as providers send them, written for these tests."""

from __future__ import annotations

import json
import socket
from typing import Any

KEY = "not-a-real-credential"
ASK = [{"role": "user", "content": "Double 21."}]
DOUBLE = {
    "type": "function",
    "function": {
        "name": "double",
        "description": "Double an integer.",
        "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    },
}


def call(arguments: str = '{"n": 21}', name: str = "double", id: str = "call_a", **more: Any) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def completion(text: str | None = None, *calls: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    """A whole response body."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = list(calls)
    reason = reason or ("tool_calls" if calls else "stop")
    return {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}


def whole(text: str | None = None, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A step of the server's script: one whole reply."""
    return {"body": json.dumps(completion(text, *calls)), **more}


def delta(reason: str | None = None, **fields: Any) -> str:
    """One event of a stream."""
    chunk = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": fields, "finish_reason": reason}]}
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"


def begun(arguments: str = "", index: int = 0, id: str = "call_a", name: str = "double") -> str:
    """The event that opens a call."""
    return delta(tool_calls=[call(arguments, name, id, index=index)])


def more(arguments: str, index: int = 0) -> str:
    """An event that goes on with a call."""
    return delta(tool_calls=[{"index": index, "function": {"arguments": arguments}}])


DONE = "data: [DONE]\n\n"


def stream(*events: str, **more: Any) -> dict[str, Any]:
    """A step of the server's script: a streamed reply."""
    return {"stream": list(events), **more}


def closed_port() -> int:
    """A port of the loopback where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
