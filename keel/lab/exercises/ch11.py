"""Chapter 11's exercises: string checks to break, the layer that stops a call, a read with a cap."""

from __future__ import annotations

from collections.abc import Callable
from os.path import getsize
from pathlib import Path
from posixpath import join, normpath
from tempfile import TemporaryDirectory
from typing import Any

from keel.contracts import ToolFailure
from keel.lab.exercises.model import Case, Exercise, Mistake, outcome

# --- 11-a: break three checks ---------------------------------------------------------------------------------------

# Paths of POSIX, as text: nothing is opened, and so it is the same on every system.
_ROOT = "/srv/desk"


def _opened(path: str) -> str:
    return normpath(join(_ROOT, path))


_CHECKS: dict[str, Callable[[str], bool]] = {
    "joined": lambda path: join(_ROOT, path).startswith(_ROOT),
    "no_dots": lambda path: ".." not in path,
    "resolved": lambda path: _opened(path).startswith(_ROOT),
}

escapes_solution = {"joined": "../keys.txt", "no_dots": "/etc/passwd", "resolved": "../desk-old/keys.txt"}
escapes_refused = {"joined": "/etc/passwd", "no_dots": "../keys.txt", "resolved": "../keys.txt"}
escapes_dots_everywhere = dict.fromkeys(_CHECKS, "../keys.txt")
escapes_inside = {"joined": "notes/../app.py", "no_dots": "./app.py", "resolved": "desk-old/keys.txt"}


def _escape_case(name: str) -> Case:
    """The path for one check. Seen: whether the check allows it, and where it lies."""

    def run(answer: Any) -> Any:
        path = answer.get(name) if isinstance(answer, dict) else answer
        if not isinstance(path, str) or not isinstance(answer, dict):
            return path
        inside = _opened(path) == _ROOT or _opened(path).startswith(_ROOT + "/")
        return {"allowed": _CHECKS[name](path), "lies": "inside" if inside else "outside"}

    shown = f"checks[{name!r}](escapes[{name!r}])"
    return Case(name, shown, run, {"allowed": True, "lies": "outside"})


ESCAPES = Exercise(
    id="11-a",
    name="escapes",
    minutes=10,
    stub=...,
    solution=escapes_solution,
    cases=tuple(_escape_case(name) for name in _CHECKS),
    mistakes=(
        Mistake("already_refused", escapes_refused, lambda first, _: first.got["allowed"] is False),
        Mistake("stays_inside", escapes_inside, lambda first, _: first.got["lies"] == "inside"),
    ),
)

# --- 11-b: the layer that stops a call ------------------------------------------------------------------------------

_CALLS = {
    "A": ("cut", 'read_file({"path": "app.py")', "parse"),
    "B": ("near_name", 'read_files({"path": "app.py"})', "registry"),
    "C": ("number", 'read_file({"path": 123})', "schema"),
    "D": ("dots", 'read_file({"path": "../app.py"})', "confinement"),
    "E": ("missing", 'read_file({"path": "missing.py"})', "open"),
    "F": ("hidden", 'read_file({"path": ".env"})', "confinement"),
    "G": ("other_field", 'read_file({"file": "app.py"})', "schema"),
    "H": ("big", 'read_file({"path": "big.log"})  # 3 MB', "open"),
}

layers_solution = {letter: layer for letter, (_, _, layer) in _CALLS.items()}
layers_all_confinement = dict.fromkeys(_CALLS, "confinement")
layers_number_is_a_path = {**layers_solution, "C": "confinement"}
layers_hidden_when_opened = {**layers_solution, "F": "open"}
layers_missing_by_text = {**layers_solution, "E": "confinement"}
layers_size_by_text = {**layers_solution, "H": "confinement"}
layers_name_by_schema = {**layers_solution, "B": "schema"}
layers_in_capitals = {letter: layer.upper() for letter, layer in layers_solution.items()}
layers_one_left_out = {letter: layer for letter, layer in layers_solution.items() if letter != "G"}


def _layer_case(letter: str) -> Case:
    name, call, layer = _CALLS[letter]

    def run(answer: Any) -> Any:
        return answer.get(letter) if isinstance(answer, dict) else answer

    return Case(name, f"layers[{letter!r}]: {call}", run, layer)


def _said(name: str, *layers: str) -> Callable[[Any, Any], bool]:
    return lambda first, _: first.case.name == name and first.got in layers


LAYERS = Exercise(
    id="11-b",
    name="layers",
    minutes=10,
    stub=...,
    solution=layers_solution,
    cases=tuple(map(_layer_case, _CALLS)),
    mistakes=(
        Mistake(
            "all_confinement",
            layers_all_confinement,
            lambda _, trials: all(trial.got == "confinement" for trial in trials.values()),
        ),
        Mistake(
            "no_such_layer",
            layers_in_capitals,
            lambda first, _: isinstance(first.got, str) and first.got not in layers_solution.values(),
        ),
        Mistake("left_out", layers_one_left_out, lambda first, _: first.got is None),
        Mistake("number_is_a_path", layers_number_is_a_path, _said("number", "confinement", "open")),
        Mistake("name_by_schema", layers_name_by_schema, _said("near_name", "schema")),
        Mistake("missing_by_text", layers_missing_by_text, _said("missing", "confinement")),
        Mistake("hidden_when_opened", layers_hidden_when_opened, _said("hidden", "open")),
        Mistake("size_by_text", layers_size_by_text, _said("big", "confinement", "schema")),
    ),
)

# --- 11-c: a capped read --------------------------------------------------------------------------------------------


def read_capped_stub(file, limit): ...


def read_capped_solution(file, limit):
    content = b""
    while len(content) <= limit:
        more = file.read(limit + 1 - len(content))
        if not more:
            return content
        content += more
    raise ToolFailure("file_too_large", f"A file here has at most {limit} bytes.")


def _too_large(limit):
    return ToolFailure("file_too_large", f"A file here has at most {limit} bytes.")


def read_capped_reads_all(file, limit):
    content = file.read()
    if len(content) > limit:
        raise _too_large(limit)
    return content


def read_capped_reopens(file, limit):
    if getsize(file.name) > limit:
        raise _too_large(limit)
    return Path(file.name).read_bytes()


def read_capped_checks_first(file, limit):
    if getsize(file.name) > limit:
        raise _too_large(limit)
    content = b""
    while more := file.read():
        content += more
    return content


def read_capped_cuts(file, limit):
    content = b""
    while more := file.read(limit - len(content)):
        content += more
    return content


def read_capped_one_read(file, limit):
    content = file.read(limit + 1)
    if len(content) > limit:
        raise _too_large(limit)
    return content


def read_capped_off_by_one(file, limit):
    content = read_capped_solution(file, limit)
    if len(content) == limit:
        raise _too_large(limit)
    return content


def read_capped_past_the_limit(file, limit):
    content = b""
    while more := file.read(4096):
        content += more
        if len(content) > limit:
            raise _too_large(limit)
    return content


def read_capped_bytearray(file, limit):
    content = bytearray()
    while more := file.read(limit + 1 - len(content)):
        content += more
        if len(content) > limit:
            raise _too_large(limit)
    return content


class _File:
    """A file open for reading, as far as an answer to 11-c may use it. It counts what is taken out of it."""

    def __init__(self, name: str, content: bytes, piece: int):
        self.name, self._left, self._piece = name, content, piece
        self.taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        whole = size is None or size < 0
        size = len(self._left) if whole else min(size, self._piece)
        given, self._left = self._left[:size], self._left[size:]
        self.taken += len(given)
        return given


_LIMIT = 100
_ENOUGH = f"at most {_LIMIT + 1} bytes"
_APP, _DOOR = b"print('desk')\n", b"door code: 4711"


def _read_case(
    name: str, content: bytes, expected: Any, about: str, *, by_name: bytes | None = None, piece: int = 1_000_000
) -> Case:
    """One open file, and what stands under its name by now. Seen: what came of it, and how much was taken."""

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            path = Path(folder) / "app.py"
            path.write_bytes(content if by_name is None else by_name)
            file = _File(str(path), content, piece)
            came = outcome(lambda: answer(file, _LIMIT))
        return {**came, "took": _ENOUGH if file.taken <= _LIMIT + 1 else f"{file.taken} bytes"}

    return Case(name, f"read_capped(file, {_LIMIT})  # {about}", run, {**expected, "took": _ENOUGH})


_REFUSED = {"raised": "file_too_large"}

READ_CAPPED = Exercise(
    id="11-c",
    name="read_capped",
    minutes=15,
    stub=read_capped_stub,
    solution=read_capped_solution,
    cases=(
        _read_case("small", _APP, {"returned": _APP}, "14 bytes"),
        _read_case("empty", b"", {"returned": b""}, "0 bytes"),
        _read_case("full", b"x" * _LIMIT, {"returned": b"x" * _LIMIT}, "100 bytes"),
        _read_case("one_more", b"x" * (_LIMIT + 1), _REFUSED, "101 bytes"),
        _read_case("huge", b"x" * 50_000, _REFUSED, "50000 bytes"),
        _read_case("in_pieces", _APP * 2, {"returned": _APP * 2}, "28 bytes, at most 5 at a time", piece=5),
        _read_case("long_in_pieces", _APP * 50, _REFUSED, "700 bytes, at most 5 at a time", piece=5),
        _read_case("swapped", _APP, {"returned": _APP}, "14 bytes; another file has its name by now", by_name=_DOOR),
        _read_case("grown", b"x" * 50_000, _REFUSED, "50000 bytes; a small file has its name by now", by_name=_APP),
    ),
    mistakes=(
        Mistake(
            "reads_all",
            read_capped_reads_all,
            lambda first, _: first.case.name == "huge" and first.got["took"] == "50000 bytes",
        ),
        Mistake(
            "reopens",
            read_capped_reopens,
            lambda first, _: first.case.name == "swapped" and first.got["returned"] == _DOOR,
        ),
        Mistake(
            "checks_first",
            read_capped_checks_first,
            lambda first, _: first.case.name == "grown" and first.got["took"] == "50000 bytes",
        ),
        Mistake(
            "past_the_limit",
            read_capped_past_the_limit,
            lambda first, _: first.got["took"] != _ENOUGH and first.got["raised"] == "file_too_large",
        ),
        Mistake(
            "cuts",
            read_capped_cuts,
            lambda first, _: first.case.name == "one_more" and first.got["returned"] == b"x" * _LIMIT,
        ),
        Mistake(
            "bytearray",
            read_capped_bytearray,
            lambda first, _: isinstance(first.got["returned"], bytearray) and first.got["returned"] == _APP,
        ),
        Mistake("one_read", read_capped_one_read, lambda first, _: first.got["returned"] == _APP[:5]),
        Mistake(
            "off_by_one",
            read_capped_off_by_one,
            lambda first, _: first.case.name == "full" and first.got["raised"] == "file_too_large",
        ),
    ),
)

EXERCISES = (ESCAPES, LAYERS, READ_CAPPED)
