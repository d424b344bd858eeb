"""Run a learner's code so that nothing it does ends the notebook: no exception, no exit, no endless loop."""

from __future__ import annotations

import contextvars
import ctypes
import linecache
import threading
import traceback
from collections.abc import Callable
from typing import Any

from keel.lab.exercises.model import Case, Crash, Trial
from keel.lab.exercises.showing import steady
from keel.lab.exercises.stubs import codes_of

TIME_LIMIT_S = 2.0
LONGEST_LINE = 120


class _Stopped(BaseException):
    """Thrown into a learner's code that has had its time. Not an Exception, so that `except Exception` lets it out."""


def try_case(case: Case, answer: Any, limit: float = TIME_LIMIT_S) -> Trial:
    """Run one case over an answer. Never raises for what the answer does; the caller's own interrupt passes through."""
    outcome: dict[str, Any] = {}

    def work() -> None:
        try:
            outcome["got"] = case.run(answer)
        except BaseException as problem:
            outcome["problem"] = problem

    if not _run_in_time(work, limit) or isinstance(outcome.get("problem"), _Stopped):
        return Trial(case, hung=True)
    if "problem" in outcome:
        return Trial(case, crash=_crash(outcome["problem"], answer))
    return Trial(case, got=outcome["got"])


def _run_in_time(work: Callable[[], None], limit: float) -> bool:
    """Run `work` in a thread of its own. False if it had to be stopped, or could not even be stopped.

    A loop in Python is stopped. One long call into C (`time.sleep(9999)`) is left behind; it keeps nothing waiting,
    and as a daemon it does not keep the kernel from ending.
    """
    # The copied context sends what the learner prints to the cell that is running.
    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(work,), daemon=True, name="keel-check")
    thread.start()
    try:
        thread.join(limit)
    except BaseException:
        _stop(thread)
        raise
    if thread.is_alive():
        _stop(thread)
        return False
    return True


def _stop(thread: threading.Thread) -> None:
    """Throw `_Stopped` into the thread, a few times over: code that catches everything may swallow the first."""
    for _ in range(20):
        if not thread.is_alive():
            return
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_Stopped))
        thread.join(0.02)


def _crash(problem: BaseException, answer: Any) -> Crash:
    """The exception, short: type, message, and the deepest line that stands in the answer's own file or cell."""
    own_file = next((code.co_filename for code in codes_of(answer)), None)
    line, number = "", None
    for frame, lineno in traceback.walk_tb(problem.__traceback__):
        if frame.f_code.co_filename == own_file:
            line, number = linecache.getline(own_file, lineno).strip()[:LONGEST_LINE], lineno
    try:
        message = steady(str(problem)).strip()[:LONGEST_LINE]
    except Exception:
        message = ""
    return Crash(type(problem).__name__, message, line, number)
