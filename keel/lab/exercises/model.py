"""What an exercise is, as data. The chapters' files (`ch01.py` …) fill these in; `checking.py` judges with them.

Code stands in the chapter's file: stub, solution, cases, known wrong answers. Words stand in the catalogue, under
`ch01.exercise.01-a`: title, hint.1 to hint.3, case.<name> (the consequence of failing that case) and mistake.<name>
(the consequence of that mistake).
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pprint import pformat
from typing import Any

from keel.contracts import ToolFailure
from keel.lab.exercises.showing import show


@dataclass(frozen=True)
class Crash:
    """An exception that an answer let out: its type's name, its message, and the line of the answer it came from."""

    kind: str
    message: str
    line: str
    number: int | None


@dataclass(frozen=True)
class Trial:
    """What one case showed: what was seen, or a crash, or that the answer did not come back in time."""

    case: Case
    got: Any = None
    crash: Crash | None = None
    hung: bool = False


@dataclass(frozen=True)
class Case:
    """One case: a short script over the answer, and what must be seen.

    `run(answer)` builds everything afresh, calls the answer as often as it likes, and returns plain data; it may let
    the answer's exceptions through. `shown` is the call as a learner would write it.
    """

    name: str
    shown: str
    run: Callable[[Any], Any]
    expected: Any


def case(name: str, function: str, *arguments: Any, expected: Any) -> Case:
    """The plain case: call the answer once with fresh copies of `arguments`; what it returns is what is seen."""
    shown = f"{function}({', '.join(show(value) for value in arguments)})"
    return Case(name, shown, lambda answer: answer(*copy.deepcopy(arguments)), expected)


def outcome(call: Callable[[], Any], *awaited: type[BaseException]) -> dict[str, Any]:
    """What a call came to, as plain data: what it returned, or what it raised.

    A ToolFailure is known by its code, an awaited exception by the name of the awaited type; any other is let through.
    """
    try:
        return {"returned": call()}
    except ToolFailure as failure:
        return {"raised": failure.error.code}
    except awaited as problem:
        return {"raised": next(kind.__name__ for kind in awaited if isinstance(problem, kind))}


@dataclass(frozen=True)
class Mistake:
    """A known wrong answer: code that makes it, and how it shows.

    `shows(first, trials)` gets the first trial that differs and all trials by case name, and says whether this is the
    mistake behind them. It must stand any plain data that an answer may have returned.
    """

    name: str
    answer: Any
    shows: Callable[[Trial, Mapping[str, Trial]], bool]


@dataclass(frozen=True)
class Exercise:
    """One exercise. The learner's name for the answer is `name`; stub, solution and mistakes answer the same task.

    An answer is a function, a class, or a value; a value's stub is `...`. The first mistake that shows is the one told.
    """

    id: str
    name: str
    minutes: int
    stub: Any
    solution: Any
    cases: tuple[Case, ...]
    mistakes: tuple[Mistake, ...]

    @property
    def chapter(self) -> str:
        """The chapter's number: "01" for "01-a"."""
        return self.id.rpartition("-")[0]


def source_of(answer: Any, name: str) -> str:
    """An answer's code as a learner would write it, under the name `name`, after the imports that it needs."""
    if not callable(answer):
        lines = pformat(answer, width=100, sort_dicts=False).splitlines()
        return f"{name} = " + ("\n" + " " * len(f"{name} = ")).join(lines) + "\n"
    own = answer.__name__
    code = re.sub(rf"^(def|class) {own}\b", rf"\1 {name}", inspect.getsource(answer), count=1)
    return _imports(code, vars(sys.modules[answer.__module__])) + code


def _imports(code: str, names: Mapping[str, Any]) -> str:
    """The import lines for what the code uses of its own file's imports: modules first, then classes from elsewhere."""
    used = sorted({node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)} & names.keys())
    modules = [f"import {name}\n" for name in used if inspect.ismodule(names[name])]
    classes = [f"from {names[name].__module__} import {name}\n" for name in used if inspect.isclass(names[name])]
    groups = ["".join(group) for group in (modules, classes) if group]
    return "\n".join(groups) + "\n\n" * bool(groups)
