"""The one straight line that a proposal walks before it becomes a call, and after."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from .adapters import NAME_LENGTH, printable, to_call
from .approval import require_approval
from .authorization import check_permission, check_policies
from .contracts import ErrorCode, ExecutionContext, ToolCall, ToolError, ToolFailure, ToolRequest, ToolResult
from .output import check_output
from .recovery import classify
from .registry import Tool, ToolRegistry
from .rules import check_rules
from .validation import validate


def mint_call_id() -> str:
    """A new call id: random, so that two processes never make the same one."""
    return f"call_{uuid4().hex}"


class Harness:
    """Judges proposals against a registry, runs what passes, and answers every one.

    `mint` makes call ids. There is no ledger in this harness yet, so it runs no write: it could
    not promise that a write happens once.
    """

    def __init__(self, registry: ToolRegistry, *, mint: Callable[[], str] = mint_call_id):
        self.registry = registry
        self.mint = mint

    def handle(self, request: ToolRequest, context: ExecutionContext) -> ToolResult:
        """Answer a model's request: mint a call id, read the request, execute the call.

        A request that cannot be read ends as a complete ToolResult too. Raises nothing that the
        model could cause.
        """
        call_id = self.mint()
        try:
            call = to_call(request, call_id)
        except ToolFailure as failure:
            name, error = printable(request.name or "")[:NAME_LENGTH], failure.error
            if error.code == ErrorCode.UNKNOWN_TOOL:
                error = ToolError(code=error.code, message=self.registry.unknown(name, context.principal))
            version = self.registry.lookup(name).version if name in self.registry else None
            return ToolResult(call_id=call_id, tool_name=name, tool_version=version, ok=False, error=error)
        return self.execute(call, context)

    def execute(self, call: ToolCall, context: ExecutionContext) -> ToolResult:
        """Walk one call through the stages, in this order, up to the first that says no.

        Gives exactly one result with the call's own id. Nothing that a model sends and nothing
        that a tool does makes this raise, but for a KeyboardInterrupt, which is the caller's.
        """
        tool = None
        try:
            tool = self.registry.lookup(call.name, context.principal)
            check_permission(tool, context)
            values = validate(tool, call.arguments)
            check_policies(tool, values, context)
            check_rules(tool, values, context)
            require_approval(tool)
            refuse_unclaimed(tool)
            returned = run(tool, values, context, call.call_id)
            data = check_output(tool, returned)
        except ToolFailure as failure:
            return answer(call, tool, error=failure.error)
        return answer(call, tool, data=data)


_result = ToolResult.__pydantic_validator__.validate_python  # what model_validate calls, a step sooner


def answer(call: ToolCall, tool: Tool | None, data: Any = None, error: ToolError | None = None) -> ToolResult:
    """The one result of a call."""
    return _result(
        {
            "call_id": call.call_id,
            "tool_name": call.name,
            "tool_version": None if tool is None else tool.version,
            "ok": error is None,
            "data": data,
            "error": error,
        }
    )


def refuse_unclaimed(tool: Tool) -> None:
    """Raise ToolFailure `unavailable` for a write: without a ledger nobody can promise that it happens once."""
    if not tool.read_only:
        raise ToolFailure(
            ErrorCode.UNAVAILABLE, f"{tool.name} is a write, and this harness keeps no ledger. Nothing ran.", True
        )


def run(tool: Tool, values: dict[str, Any], context: ExecutionContext, call_id: str) -> Any:
    """Run the body in the caller's thread and give what it returns.

    Raises ToolFailure: `budget_exceeded` if the context's deadline has passed, else what
    `keel.recovery.classify` makes of the exception that came out of the body.
    """
    if context.deadline is not None and not time.monotonic() < context.deadline:  # a deadline of NaN has passed
        raise ToolFailure(ErrorCode.BUDGET_EXCEEDED, "The time for this run is used up. Nothing ran.")
    if tool.context_parameter is not None:
        context = context.model_copy(update={"call_id": call_id, "idempotency_key": None})
    try:
        return tool.call(values, context)
    except KeyboardInterrupt:
        raise
    except BaseException as raised:
        raise classify(tool, raised, call_id) from raised
