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


def proposal_turn(name: str, arguments: Any, provider_id: str = "call_1") -> ModelTurn:
    """A turn with one proposal in it, written by hand."""
    request = ToolRequest(provider_id=provider_id, name=name, arguments=arguments)
    return ModelTurn(requests=(request,), finish_reason="tool_calls")
