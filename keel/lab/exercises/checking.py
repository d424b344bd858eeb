"""Judge an answer: not attempted, wrong or passed, as data whose text a notebook shows."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from keel.lab.cards import framed
from keel.lab.catalogue import words
from keel.lab.exercises.guarding import TIME_LIMIT_S, try_case
from keel.lab.exercises.model import Crash, Exercise, Trial
from keel.lab.exercises.showing import same, show
from keel.lab.exercises.stubs import is_stub

Outcome = Literal["not_attempted", "wrong", "passed"]
VALUE_TIME_LIMIT_S = 60.0


@dataclass(frozen=True, repr=False)
class CheckResult:
    """What `check` says. Beyond `message`, the fields are empty unless a case differed; `note` is about saving only."""

    exercise: str
    outcome: Outcome
    message: str
    case: str = ""
    call: str = ""
    expected: str = ""
    got: str = ""
    consequence: str = ""
    note: str = ""

    @property
    def text(self) -> str:
        """All of it, as lines."""
        lines = [self.message]
        if self.call:
            lines += [
                words("exercises.first_case", call=self.call),
                words("exercises.expected", value=self.expected),
                words("exercises.got", value=self.got),
            ]
        return "\n".join(line for line in [*lines, self.consequence, self.note] if line)

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return framed(self.text, {"passed": "good", "wrong": "bad", "not_attempted": "plain"}[self.outcome])


def judge(exercise: Exercise, answer: Any, limit: float = TIME_LIMIT_S) -> CheckResult:
    """Run all cases over an answer and say how it stands. Counts nothing and keeps nothing; never raises for it."""
    refused = _not_judged(exercise, answer)
    if refused:
        return refused
    trials: dict[str, Trial] = {}
    if not callable(exercise.stub):  # a value runs no code of the learner's; what judges it may have much to load first
        limit = max(limit, VALUE_TIME_LIMIT_S)
    for case in exercise.cases:
        trials[case.name] = try_case(case, answer, limit)
        if trials[case.name].hung:
            break
    first = next((trial for trial in trials.values() if not _right(trial)), None)
    if first is None:
        message = words("exercises.passed", id=exercise.id, cases=len(trials))
        return CheckResult(exercise.id, "passed", message)
    return CheckResult(
        exercise.id,
        "wrong",
        words("exercises.wrong", id=exercise.id),
        case=first.case.name,
        call=first.case.shown,
        expected=show(first.case.expected),
        got=_got(first),
        consequence=_consequence(exercise, first, trials),
    )


def with_note(result: CheckResult, note: str | None) -> CheckResult:
    """The same result with a line about saving, if there is one to show."""
    return replace(result, note=note or "")


def _not_judged(exercise: Exercise, answer: Any) -> CheckResult | None:
    """The result for what no case need be run over: a stub, no function, the wrong parameters; None for an attempt."""
    if is_stub(answer, exercise.stub):
        return CheckResult(exercise.id, "not_attempted", words("exercises.not_attempted", id=exercise.id))
    if not callable(exercise.stub):
        return None
    if not callable(answer):
        message = words("exercises.no_function", id=exercise.id, name=exercise.name, kind=type(answer).__name__)
        return CheckResult(exercise.id, "not_attempted", message)
    wanted = inspect.signature(exercise.stub)
    if not _takes(answer, wanted):
        form = f"{exercise.name}{wanted}"
        return CheckResult(exercise.id, "wrong", words("exercises.parameters", id=exercise.id, form=form))
    if inspect.iscoroutinefunction(answer) and not inspect.iscoroutinefunction(exercise.stub):
        return CheckResult(exercise.id, "wrong", words("exercises.coroutine", id=exercise.id, name=exercise.name))
    return None


def _takes(answer: Any, wanted: inspect.Signature) -> bool:
    """Whether the answer can be called with as many arguments as the stub takes."""
    try:
        inspect.signature(answer).bind(*wanted.parameters)
    except TypeError:
        return False
    except ValueError:  # some functions of C have no signature to read: let the cases decide
        return True
    return True


def _right(trial: Trial) -> bool:
    if trial.crash or trial.hung:
        return False
    try:
        return same(trial.got, trial.case.expected)
    except Exception:
        return False


def _got(trial: Trial) -> str:
    if trial.hung:
        return words("exercises.hung")
    return _crash_text(trial.crash) if trial.crash else show(trial.got)


def _crash_text(crash: Crash) -> str:
    what = f"{crash.kind}: {crash.message}" if crash.message else crash.kind
    if crash.number is None:
        return words("exercises.crash", what=what)
    return words("exercises.crash_at", what=what, number=crash.number, line=crash.line)


def _consequence(exercise: Exercise, first: Trial, trials: Mapping[str, Trial]) -> str:
    """What would happen in the world: the known mistake's own words, else those of the case."""
    for mistake in exercise.mistakes:
        try:
            if mistake.shows(first, trials):
                return words(f"ch{exercise.chapter}.exercise.{exercise.id}.mistake.{mistake.name}")
        except Exception:  # an answer may have returned anything: then it is not this mistake
            continue
    return words(f"ch{exercise.chapter}.exercise.{exercise.id}.case.{first.case.name}")
