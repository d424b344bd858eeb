"""The teaching side of Keel: worlds to break, the gauntlet, widgets, exercises. It stands on the harness.

Each name is loaded when it is first asked for, so that a chapter pays only for what it uses.
"""

from importlib import import_module
from typing import Any

_WHERE = {
    "across": ("boards_across",),
    "bench": ("call_bench",),
    "board": ("BoardPicture", "board_text", "gauntlet_board"),
    "capstone": ("OnCallModel", "assistant", "killed_assistant", "take_up"),
    "checkup": ("doctor",),
    "desk_view": ("approval_desk",),
    "exercises": ("check", "hint", "progress", "solution"),
    "failures": ("failure_lab",),
    "fatigue": ("day_of_calls", "on_call", "questions_picture"),
    "four": ("FOUR", "fire_four"),
    "gauntlet": ("Subject", "Verdict", "run_gauntlet"),
    "ledgers": ("ledger_lab",),
    "live_cells": ("live",),
    "recordings": ("proposal_turn", "proposals_turn", "recording"),
    "killed": ("FileDesk", "ask_desk", "desk_harness", "entry_of", "killed_write", "running_write"),
    "lines": ("HandLoop", "finished", "first_done_first", "line", "naive"),
    "flawed": ("FlawedHarness",),
    "pager": ("Page", "Pager"),
    "plots": ("Bar", "Crash", "Picture", "crash_picture", "timeline_picture"),
    "prompts": ("predict", "quiz"),
    "rubrics": ("rubric",),
    "run_view": ("run_picture",),
    "guards": ("GUARDS", "red_rows", "sabotage", "sabotage_picture", "without"),
    "strip": ("stage_strip",),
    "traces": ("explain", "ticking", "timeline"),
    "world": (
        *("World", "Wrong", "add_files", "approver", "bodies", "confined_files", "course_registry", "everything"),
        *("naive_namespace", "seeded_mint", "IncidentId", "same_team"),
    ),
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names}

__all__ = sorted([*_MODULE_OF, "next_step"])


def __getattr__(name: str) -> Any:
    if name == "next_step":  # from the first chapter on, though chapter 06 builds what is behind it
        return import_module("keel.recovery").next_step
    if name not in _MODULE_OF:
        raise AttributeError(f"keel.lab has no {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
