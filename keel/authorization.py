"""Who may: a permission for each tool, and policies that look at the object itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .contracts import ErrorCode, ExecutionContext, Principal, ToolFailure
from .registry import Tool, permitted
from .rules import ask

__all__ = [
    "Denied", "ExecutionContext", "Policy", "Principal", "all_of", "any_of", "check_permission", "check_policies",
]  # fmt: skip

Policy = Callable[[Tool, dict[str, Any], ExecutionContext], bool]


class Denied(ToolFailure):
    """Raised when a principal may not. `decided_by` names who said so, for the trace and never for the model."""

    def __init__(self, tool: Tool, decided_by: str):
        # One sentence for every denial: it does not say whether the object exists, or which policy it was.
        super().__init__(
            ErrorCode.PERMISSION_DENIED, f"You may not do this with {tool.name}. Asking again changes nothing."
        )
        self.decided_by = decided_by


def check_permission(tool: Tool, context: ExecutionContext) -> None:
    """May this principal use this tool at all? Raises Denied (`permission_denied`)."""
    if not permitted(tool, context.principal):
        raise Denied(tool, f"permission {tool.permission}")


def check_policies(tool: Tool, values: dict[str, Any], context: ExecutionContext) -> None:
    """May this principal touch what these arguments name? All policies must say True.

    A policy is `policy(tool, values, context)`. Anything but True denies, so a policy that forgets
    to answer denies too. Raises Denied (`permission_denied`), or ToolFailure `internal_error` if
    a policy broke: nothing runs then either, and somebody has to mend it.
    """
    for policy in tool.policies:
        if ask(policy, tool, values, context) is not True:
            raise Denied(tool, name_of(policy))


def any_of(*policies: Policy) -> Policy:
    """A policy that allows if at least one of these says True. Of none, none does: it denies.

    All are asked in order up to the first True. One that breaks before that breaks the whole: a
    yes of another must not cover for it.
    """

    def any_policy(tool: Tool, values: dict[str, Any], context: ExecutionContext) -> bool:
        return any(policy(tool, values, context) is True for policy in policies)

    any_policy.__name__ = f"any_of({', '.join(map(name_of, policies))})"
    return any_policy


def all_of(*policies: Policy) -> Policy:
    """A policy that allows if all of these say True. Of none, there is nobody to allow: it denies."""

    def all_policies(tool: Tool, values: dict[str, Any], context: ExecutionContext) -> bool:
        return bool(policies) and all(policy(tool, values, context) is True for policy in policies)

    all_policies.__name__ = f"all_of({', '.join(map(name_of, policies))})"
    return all_policies


def name_of(policy: Any) -> str:
    """The name under which a policy stands in the trace."""
    return getattr(policy, "__name__", type(policy).__name__)
