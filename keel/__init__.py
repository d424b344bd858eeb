"""Keel: a model proposes, the harness disposes."""

from .approval import ApprovalDesk
from .contracts import (
    ErrorCode,
    ExecutionContext,
    Principal,
    ToolCall,
    ToolError,
    ToolFailure,
    ToolRequest,
    ToolResult,
)
from .harness import Harness
from .idempotency import MemoryLedger, SqliteLedger
from .registry import RegistrationError, Tool, ToolRegistry
from .settling import CannotTell, Happened, NotHappened
from .workspace import Workspace

__version__ = "0.1.0"

__all__ = [
    "ApprovalDesk",
    "CannotTell",
    "ErrorCode",
    "ExecutionContext",
    "Happened",
    "Harness",
    "MemoryLedger",
    "NotHappened",
    "Principal",
    "RegistrationError",
    "SqliteLedger",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolFailure",
    "ToolRegistry",
    "ToolRequest",
    "ToolResult",
    "Workspace",
]
