"""The four canonical calls of chapter 01: one success, three failures, and what each is worth."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from keel.contracts import ToolRequest, ToolResult
from keel.harness import Harness
from keel.recovery import next_step

from .world import World, course_registry, everything, seeded_mint

FOUR: Mapping[str, ToolRequest] = MappingProxyType(
    {
        "valid": ToolRequest(name="lookup_incident", arguments={"incident_id": "INC-001"}),
        "unknown_tool": ToolRequest(name="delete_prod", arguments={}),
        "invalid_arguments": ToolRequest(name="lookup_incident", arguments={"incident": "INC-001"}),
        "approval_required": ToolRequest(
            name="create_ticket", arguments={"title": "login returns 502", "incident_id": "INC-001"}
        ),
    }
)


def fire_four() -> list[tuple[ToolRequest, ToolResult]]:
    """Send the four to the finished harness over a fresh world."""
    harness = Harness(course_registry(World()), mint=seeded_mint())
    context = everything()
    return [(request, harness.handle(request, context)) for request in FOUR.values()]


def as_json(request: ToolRequest, result: ToolResult) -> dict[str, Any]:
    """One outcome as `python -m keel` prints it: the proposal, the result and, after a failure, the next step."""
    shown = {
        "request": {"name": request.name, "arguments": request.arguments},
        "result": result.model_dump(mode="json"),
    }
    if result.error is not None:
        step = next_step(result.error)
        shown["next_step"] = {"action": step.action.value, "advice": step.advice}
    return shown
