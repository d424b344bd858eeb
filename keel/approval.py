"""Has a person agreed to exactly this call?"""

from __future__ import annotations

from .contracts import ErrorCode, ToolFailure
from .registry import Tool


def require_approval(tool: Tool) -> None:
    """Raise ToolFailure `approval_required` for a tool that a person has to agree to.

    Nobody can agree to anything yet, so the answer is always no: that is the safe side.
    """
    if tool.needs_approval:
        raise ToolFailure(
            ErrorCode.APPROVAL_REQUIRED, f"{tool.name} changes the world: a person has to agree to this call first."
        )
