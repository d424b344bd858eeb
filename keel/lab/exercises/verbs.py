"""The four verbs of a chapter: check, hint, solution, progress."""

from __future__ import annotations

import os
from typing import Any

from keel.lab import progress_file
from keel.lab.cards import Card
from keel.lab.catalogue import words
from keel.lab.chapters import CHAPTERS
from keel.lab.exercises.checking import CheckResult, judge, with_note
from keel.lab.exercises.finding import all_exercises, exercise_ids, find
from keel.lab.exercises.model import Exercise, source_of
from keel.lab.prompts import prompt_ids

TRIES_BEFORE_SOLUTION = 3

# How many hints each exercise has given in this kernel.
_hints_given: dict[str, int] = {}


def check(exercise_id: str, answer: Any) -> CheckResult:
    """Judge an answer and count the try. Pass the function itself, not what it returns: `check("01-a", dispatch)`.

    Returns a CheckResult, which a notebook shows as text; what goes wrong in the answer is in it and never raised.
    """
    exercise = find(exercise_id)
    if exercise is None:
        return CheckResult(str(exercise_id), "not_attempted", _no_such(exercise_id))
    result = judge(exercise, answer)
    if result.outcome == "not_attempted":
        return result
    _, note = progress_file.record_try(exercise.id, result.outcome == "passed")
    return with_note(result, note)


def hint(exercise_id: str) -> Card:
    """The next hint; after the third, the third again."""
    exercise = find(exercise_id)
    if exercise is None:
        return Card(_no_such(exercise_id))
    number = min(_hints_given.get(exercise.id, 0) + 1, 3)
    _hints_given[exercise.id] = number
    text = words(f"ch{exercise.chapter}.exercise.{exercise.id}.hint.{number}")
    return Card(words("exercises.hint", number=number, text=text))


def solution(exercise_id: str) -> Card:
    """The solution's code, after a pass or three wrong tries; KEEL_SOLUTIONS=closed keeps it shut for a class."""
    exercise = find(exercise_id)
    if exercise is None:
        return Card(_no_such(exercise_id))
    if os.environ.get("KEEL_SOLUTIONS", "").strip().lower() == "closed":
        return Card(words("exercises.closed"))
    entry = _entry(exercise, progress_file.read()[0])
    if entry["passed"] or entry["wrong"] >= TRIES_BEFORE_SOLUTION:
        return Card(source_of(exercise.solution, exercise.name).rstrip())
    return Card(words("exercises.locked", tries=TRIES_BEFORE_SOLUTION, made=entry["wrong"]))


def progress() -> Card:
    """What is done, chapter by chapter."""
    state, note = progress_file.read()
    lines: list[str] = []
    by_chapter = all_exercises()
    for chapter in CHAPTERS:
        exercises, asked = by_chapter.get(chapter, ()), prompt_ids("predict", chapter)
        if exercises or asked:
            lines.append(words("progress.title", chapter=chapter))
        lines += [_line(exercise, _entry(exercise, state)) for exercise in exercises]
        made = sum(1 for name in asked if name in state["predictions"])
        if asked:
            lines.append(words("progress.predicted", made=made, all=len(asked)))
    return Card("\n".join(lines + ([note] if note else [])))


def forget_hints() -> None:
    """Begin with the first hints again, as a new kernel would."""
    _hints_given.clear()


def _entry(exercise: Exercise, state: progress_file.State) -> dict[str, Any]:
    return state["exercises"].get(exercise.id, {"passed": False, "wrong": 0})


def _line(exercise: Exercise, entry: dict[str, Any]) -> str:
    if entry["passed"]:
        state = words("progress.passed_after", wrong=entry["wrong"]) if entry["wrong"] else words("progress.passed")
    elif entry["wrong"]:
        state = words("progress.wrong", wrong=entry["wrong"])
    else:
        state = words("progress.not_attempted")
    title = words(f"ch{exercise.chapter}.exercise.{exercise.id}.title")
    return words("progress.line", id=exercise.id, title=title, minutes=exercise.minutes, state=state)


def _no_such(exercise_id: Any) -> str:
    return words("exercises.no_such", id=exercise_id, ids=", ".join(exercise_ids()))
