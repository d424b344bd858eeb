"""Keel: a model proposes, the harness disposes."""

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
from .registry import RegistrationError, Tool, ToolRegistry

__version__ = "0.1.0"

__all__ = [
    "ErrorCode",
    "ExecutionContext",
    "Harness",
    "Principal",
    "RegistrationError",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolFailure",
    "ToolRegistry",
    "ToolRequest",
    "ToolResult",
]
