"""Find exercises by id. Each chapter's file is read when one of its exercises is first asked for."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

from keel.lab.exercises.model import Exercise


def chapters() -> list[str]:
    """The numbers of the chapters that have exercises, in order: "01", "02", …"""
    package = importlib.import_module(__package__)
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    return sorted(name[2:] for name in names if re.fullmatch(r"ch\d\d[a-z]?", name))


def find(exercise_id: Any) -> Exercise | None:
    """The exercise of that id, or None."""
    chapter = str(exercise_id).rpartition("-")[0]
    if chapter not in chapters():
        return None
    return next((exercise for exercise in _of(chapter) if exercise.id == exercise_id), None)


def all_exercises() -> dict[str, tuple[Exercise, ...]]:
    """Every chapter's exercises, by the chapter's number."""
    return {chapter: _of(chapter) for chapter in chapters()}


def exercise_ids() -> list[str]:
    """Every exercise's id, in order."""
    return [exercise.id for exercises in all_exercises().values() for exercise in exercises]


def _of(chapter: str) -> tuple[Exercise, ...]:
    return importlib.import_module(f"{__package__}.ch{chapter}").EXERCISES
