"""Who may: a permission for each tool, and policies that look at the object itself."""

from __future__ import annotations

from typing import Any

from .contracts import ErrorCode, ExecutionContext, Principal, ToolFailure
from .registry import Tool, permitted
from .rules import ask

__all__ = ["ExecutionContext", "Principal", "check_permission", "check_policies"]


def check_permission(tool: Tool, context: ExecutionContext) -> None:
    """May this principal use this tool at all? Raises ToolFailure `permission_denied`."""
    if not permitted(tool, context.principal):
        raise denied(tool)


def check_policies(tool: Tool, values: dict[str, Any], context: ExecutionContext) -> None:
    """May this principal touch what these arguments name? All policies must say True.

    A policy is `policy(tool, values, context)`. Anything but True denies, so a policy that forgets
    to answer denies too. Raises ToolFailure: `permission_denied`, or `internal_error` if one broke.
    """
    for policy in tool.policies:
        if ask(policy, tool, values, context) is not True:
            raise denied(tool)


def denied(tool: Tool) -> ToolFailure:
    """One sentence for every denial: it does not say whether the object exists."""
    return ToolFailure(
        ErrorCode.PERMISSION_DENIED, f"You may not do this with {tool.name}. Asking again changes nothing."
    )
