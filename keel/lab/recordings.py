"""Replies of models, for chapters and tests: written for the course or recorded, each file says which."""

from __future__ import annotations

import json
from typing import Any

from keel.adapters import ModelTurn
from keel.contracts import ToolRequest

from .world import DATA

FOLDER = DATA / "recordings"


def recording(name: str) -> Any:
    """The reply of that name: a response body as a dict, or the chunks of a stream as a list.

    Raises LookupError that names the recordings there are.
    """
    path = FOLDER / f"{name}.json"
    if not path.is_file():
        known = ", ".join(sorted(one.stem for one in FOLDER.glob("*.json")))
        raise LookupError(f"there is no recording {name!r}; there are {known}")
    return json.loads(path.read_text(encoding="utf-8"))["reply"]


def proposal_turn(name: str, arguments: Any) -> ModelTurn:
    """A turn with one proposal in it, written by hand."""
    return proposals_turn((name, arguments))


def proposals_turn(*proposals: tuple[str, Any]) -> ModelTurn:
    """A turn with several proposals in it, each a name and its arguments."""
    requests = [
        ToolRequest(provider_id=f"call_{number}", name=name, arguments=arguments)
        for number, (name, arguments) in enumerate(proposals, 1)
    ]
    return ModelTurn(requests=tuple(requests), finish_reason="tool_calls")
