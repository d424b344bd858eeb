"""What the harness's tests share: somebody who asks, and a way to fire one call at one tool."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from keel import ExecutionContext, Harness, Principal, ToolCall, ToolRegistry, ToolRequest, ToolResult

AMIRA = ExecutionContext(principal=Principal(id="amira", permissions=["desk:read", "desk:write"]))
STRANGER = ExecutionContext(principal=Principal(id="stranger"))


def registry_of(function: Callable, **options: Any) -> ToolRegistry:
    """A registry that holds one tool called `tool`, a read unless the options say otherwise."""
    registry = ToolRegistry()
    registry.tool(function, name="tool", **({"read_only": True} | options))
    return registry


def fire(function: Callable, arguments: Any = None, context: ExecutionContext = AMIRA, **options: Any) -> ToolResult:
    """Send one request to one tool through a whole harness."""
    request = ToolRequest(provider_id="call_1", name="tool", arguments=arguments)
    return Harness(registry_of(function, **options)).handle(request, context)


def fire_schema(schema: Any, arguments: Any, function: Callable | None = None, **options: Any) -> ToolResult:
    """Send one request to one tool whose contract is plain JSON Schema. Its body gives back what it got."""
    registry = ToolRegistry()
    options = {"read_only": True} | options
    registry.add_schema_tool(
        name="tool", description="-", input_schema=schema, function=function or (lambda given: given), **options
    )
    return Harness(registry).handle(ToolRequest(name="tool", arguments=arguments), AMIRA)


def code(result: ToolResult) -> str:
    """`ok`, or the error's code."""
    return "ok" if result.error is None else result.error.code


def call(arguments: dict[str, Any] | None = None, name: str = "tool") -> ToolCall:
    return ToolCall(call_id="c-1", name=name, arguments=arguments or {})


def read_back(result: ToolResult) -> dict[str, Any]:
    """The result as whoever gets it reads it: UTF-8, JSON, without NaN."""

    def no_constant(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    return json.loads(result.model_dump_json().encode("utf-8"), parse_constant=no_constant)


def label(value: Any) -> str:
    """A short id for a parametrised value: the same in every process, so nothing of an object's address."""
    if isinstance(value, str | bool | float | None) or (isinstance(value, int) and abs(value) < 10**9):
        return ascii(value)[:30]
    return value.__name__ if isinstance(value, type) else type(value).__name__


def interrupted_at(line: int, do: Callable[[], Any], module: ModuleType) -> bool:
    """Do it, with a Ctrl-C before that line of the module, counted as it runs. Whether it came to that."""
    left, hit = [line], []

    def stop(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != module.__file__:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                hit.append(frame.f_lineno)
                raise KeyboardInterrupt
        return stop

    before = sys.gettrace()
    sys.settrace(stop)
    try:
        do()
    except KeyboardInterrupt:
        assert hit
    finally:
        sys.settrace(before)
    return bool(hit)
