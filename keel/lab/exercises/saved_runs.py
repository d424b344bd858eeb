"""Runs that were saved in the middle of a turn, and the desk that their calls go to: for exercise 12-c."""

from __future__ import annotations

import json
from typing import Any

from keel.contracts import ToolCall

GOAL = "Open a ticket for each incident."


class SavedDesk:
    """Carries out calls, and keeps a ledger: a write that comes again under its own call id is replayed."""

    def __init__(self, done: list[str]):
        self.handled: list[str] = []
        self.ledger: dict[str, dict[str, Any]] = {}
        self.known = {f"c-{number}" for number in range(1, 10)}
        for call_id in done:
            self._write(call_id)

    def handle(self, call: Any) -> dict[str, Any]:
        sent = call.model_dump() if isinstance(call, ToolCall) else call
        call_id = sent["call_id"] if sent.get("call_id") in self.known else "another id"
        self.handled.append(call_id)
        if sent["name"] == "lookup_incident":
            return {"ok": True, "data": sent["arguments"]["incident_id"]}
        if sent["name"] == "open_ticket":
            return {"ok": False, "code": "unknown_tool"}
        return self.ledger[call_id] if call_id in self.known & self.ledger.keys() else self._write(call_id)

    def _write(self, call_id: str) -> dict[str, Any]:
        number = len(self.ledger) + 1
        name = call_id if call_id in self.known else f"{call_id} ({number})"
        self.ledger[name] = {"ok": True, "data": f"T-{number}"}
        return self.ledger[name]


# How a call stands in the text: done, failed, or open. What is "lost" is open as well, and its ticket was made.
_SAVED = {"done": {"ok": True, "data": "before"}, "failed": {"ok": False, "code": "rule_violated"}}
_NAMES = {"read": "lookup_incident", "write": "create_ticket", "bad": "open_ticket"}


def saved(used: int, limit: int, turn: str) -> str:
    """A run as text, its turn written as "write:lost read:open"."""
    entries = []
    for number, written in enumerate(turn.split(), 1):
        kind, state = written.split(":")
        call = {"call_id": f"c-{number}", "name": _NAMES[kind], "arguments": {"incident_id": f"INC-00{number}"}}
        entries.append({"call": call, "result": _SAVED.get(state)})
    return json.dumps({"goal": GOAL, "limit": limit, "calls": used, "turn": entries})


def read_run(text: Any) -> dict[str, Any]:
    """What a learner's text says of the run; or of what type it is, where it is no text."""
    if not isinstance(text, str):
        return {"returned": type(text).__name__}
    try:
        run = json.loads(text)
        answers = [_said(one["result"]) for one in run["turn"]]
        used = f"{run['calls']} of {run['limit']}"
        return {"used": used, "answers": answers, "goal": "kept" if run.get("goal") == GOAL else "lost"}
    except (ValueError, TypeError, LookupError, AttributeError):
        return {"returned": text}


def _said(result: Any) -> Any:
    return "open" if result is None else result["data"] if result["ok"] else result["code"]
