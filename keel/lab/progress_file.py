"""Where a learner's progress is kept: one JSON file in the user's data folder.

KEEL_PROGRESS names another place (a `.json` file, or a folder for one); `off` keeps it in memory only. Losing
progress is a nuisance and never a reason to stop: a damaged file is put aside, an unwritable one is said in one line,
and the lab goes on from memory. Every change is read, made and written under a lock, so that two kernels lose nothing.
"""

from __future__ import annotations

import copy
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from keel.lab.catalogue import words

State = dict[str, Any]
Change = Callable[[State], None]
LOCK_WAIT_S = 2.0
# What reading a file of any content can raise.
DAMAGE = (ValueError, TypeError, KeyError, RecursionError)

# What this kernel knows, by file: it answers when the file cannot.
_memory: dict[Path | None, State] = {}
_unsaved: dict[Path, list[Change]] = {}


def place() -> Path | None:
    """The file that holds the progress, or None where it is switched off."""
    named = os.environ.get("KEEL_PROGRESS", "").strip()
    if named.lower() == "off":
        return None
    if named:
        path = Path(named).expanduser()
        return path if path.suffix == ".json" else path / "progress.json"
    import platformdirs

    return Path(platformdirs.user_data_dir("keel", appauthor=False)) / "progress.json"


def read() -> tuple[State, str | None]:
    """The progress, and a line to show or None.

    The progress is {"version", "exercises": {id: {"passed", "wrong"}}, "predictions": {id: option}}.
    """
    path = place()
    if path is None or not path.exists():
        return copy.deepcopy(_remembered(path)), None
    try:
        return _load(path), None
    except (*DAMAGE, OSError):
        return update(lambda state: None)


def update(change: Change) -> tuple[State, str | None]:
    """Let `change` alter the progress in place, and keep it. Returns the new progress, and a line to show or None.

    Never raises for what the disk does: what could not be kept stays in memory, the line says so, and the next
    update that succeeds keeps it too.
    """
    path = place()
    note = None
    if path is not None:
        try:
            with _locked(path):
                state, note = _load_or_put_aside(path)
                for waiting in [*_unsaved.get(path, []), change]:
                    waiting(state)
                _write(path, state)
            _unsaved.pop(path, None)
            _memory[path] = state
            return copy.deepcopy(state), note
        except OSError as problem:
            note = words("progress.not_kept", reason=problem.strerror or type(problem).__name__)
            _unsaved.setdefault(path, []).append(change)
    change(_remembered(path))
    return copy.deepcopy(_remembered(path)), note


def record_try(exercise_id: str, passed: bool) -> tuple[State, str | None]:
    """Count one judged try. A pass stays a pass, and what is tried after it counts no more."""

    def change(state: State) -> None:
        entry = state["exercises"].setdefault(exercise_id, {"passed": False, "wrong": 0})
        entry["wrong"] += not passed and not entry["passed"]
        entry["passed"] = entry["passed"] or passed

    return update(change)


def record_prediction(prompt_id: str, option: str) -> tuple[State, str | None]:
    """Keep what a learner predicted; the last answer counts."""
    return update(lambda state: state["predictions"].__setitem__(prompt_id, option))


def forget_memory() -> None:
    """Drop what this process remembers, as a new kernel would. For tests."""
    _memory.clear()
    _unsaved.clear()


def _empty() -> State:
    return {"version": 1, "exercises": {}, "predictions": {}}


def _remembered(path: Path | None) -> State:
    if path not in _memory:
        try:
            _memory[path] = _load(path) if path is not None else _empty()
        except (*DAMAGE, OSError):
            _memory[path] = _empty()
    return _memory[path]


def _load(path: Path) -> State:
    """The file's state. Raises ValueError where it is damaged and OSError where it cannot be read."""
    state = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(state, dict):
        raise ValueError("not an object")
    state = _empty() | state
    if not isinstance(state["exercises"], dict) or not isinstance(state["predictions"], dict):
        raise ValueError("a section is not an object")
    for entry in state["exercises"].values():
        if type(entry["passed"]) is not bool or type(entry["wrong"]) is not int:
            raise ValueError("an entry is not a try count")
    return state


def _load_or_put_aside(path: Path) -> tuple[State, str | None]:
    try:
        return _load(path), None
    except FileNotFoundError:
        return copy.deepcopy(_remembered(path)), None
    except DAMAGE:
        aside = _free_name(path)
        os.replace(path, aside)
        return copy.deepcopy(_remembered(path)), words("progress.damaged", aside=aside.name)


def _free_name(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.stem}.damaged-{number}.json")).exists():
        number += 1
    return aside


def _write(path: Path, state: State) -> None:
    """Write beside the file, then rename over it: a reader sees the old file or the new one, never half of one."""
    handle, beside = tempfile.mkstemp(prefix=path.stem, suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(state, file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock beside the file; the system frees it when a process dies. Raises TimeoutError after two seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "a+b") as file:
        deadline = time.monotonic() + LOCK_WAIT_S
        while not _try_lock(file.fileno()):
            if time.monotonic() > deadline:
                raise TimeoutError("locked by another kernel")
            time.sleep(0.01)
        try:
            yield
        finally:
            _unlock(file.fileno())


if os.name == "nt":
    import msvcrt

    def _try_lock(handle: int) -> bool:
        try:
            os.lseek(handle, 0, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(handle: int) -> None:
        os.lseek(handle, 0, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)
