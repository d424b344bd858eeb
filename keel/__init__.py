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
from .idempotency import MemoryLedger
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
    "Trace",
    "Workspace",
]


def __getattr__(name: str) -> object:
    if name == "SqliteLedger":  # it loads sqlite3, which a program without a ledger on disk need not pay for
        from .sqlite_ledger import SqliteLedger

        return SqliteLedger
    if name == "Trace":  # nor one that keeps none
        from .trace import Trace

        return Trace
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
