"""Progress: kept, shared between kernels, and never a reason to stop."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keel.lab import progress_file
from keel.lab.progress_file import place, read, record_prediction, record_try, update


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("KEEL_PROGRESS", str(tmp_path / "deep" / "progress.json"))
    return tmp_path / "deep" / "progress.json"


def test_places(monkeypatch, tmp_path):
    monkeypatch.setenv("KEEL_PROGRESS", "OFF")
    assert place() is None
    monkeypatch.setenv("KEEL_PROGRESS", str(tmp_path))
    assert place() == tmp_path / "progress.json"
    monkeypatch.delenv("KEEL_PROGRESS")
    assert place().name == "progress.json" and place().parent.name == "keel"


def test_off_writes_nothing_and_still_counts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record_try("01-a", False)
    state, note = record_try("01-a", True)
    assert (state["exercises"]["01-a"], note) == ({"passed": True, "wrong": 1}, None)
    assert list(tmp_path.iterdir()) == []


def test_kept_for_the_next_kernel(file):
    record_try("01-a", False)
    record_try("01-a", True)
    record_try("01-a", False)  # after the pass: counts no more
    record_prediction("01-b", "c")
    progress_file.forget_memory()
    state, note = read()
    assert state["exercises"] == {"01-a": {"passed": True, "wrong": 1}}
    assert state["predictions"] == {"01-b": "c"}
    assert note is None
    assert sorted(path.name for path in file.parent.iterdir()) == ["progress.json", "progress.lock"]


DAMAGED = ["", "{", "[]", "null", '{"exercises": 3}', '{"exercises": {"01-a": {}}}', '{"exercises": {"01-a": 1}}',
           '{"exercises": {"01-a": {"passed": 1, "wrong": "x"}}}', "[" * 100_000]  # fmt: skip


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_file_is_put_aside(file, content):
    file.parent.mkdir()
    file.write_text(content)
    _, note = record_try("01-a", True)
    assert "progress.damaged-1.json" in note
    assert (file.parent / "progress.damaged-1.json").read_text() == content
    assert read() == (record_try("01-a", True)[0], None)


def test_bytes_that_are_no_text_are_put_aside_and_an_older_one_is_kept(file):
    file.parent.mkdir()
    (file.parent / "progress.damaged-1.json").write_text("older")
    file.write_bytes(b"\xff\xfe\x00")
    assert "progress.damaged-2.json" in read()[1]
    assert (file.parent / "progress.damaged-1.json").read_text() == "older"


def test_what_this_kernel_knows_survives_a_file_damaged_later(file):
    record_try("01-a", True)
    file.write_text("{")
    assert read()[0]["exercises"]["01-a"]["passed"]
    assert json.loads(file.read_text())["exercises"]["01-a"]["passed"]


def test_an_unwritable_place_is_said_and_caught_up_on(tmp_path, monkeypatch):
    blocker = tmp_path / "blocker"
    blocker.write_text("")
    monkeypatch.setenv("KEEL_PROGRESS", str(blocker / "progress.json"))
    state, note = record_try("01-a", True)
    assert state["exercises"]["01-a"]["passed"] and note and len(note.splitlines()) == 1
    assert read()[0] == state
    blocker.unlink()
    state, note = record_try("01-b", False)
    assert note is None
    progress_file.forget_memory()
    assert set(read()[0]["exercises"]) == {"01-a", "01-b"}


def test_a_failed_write_leaves_the_old_file_whole(file, monkeypatch):
    record_try("01-a", True)
    before = file.read_bytes()

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fails)
    _, note = record_try("01-b", True)
    assert "No space left on device" in note
    assert file.read_bytes() == before
    assert sorted(path.name for path in file.parent.iterdir()) == ["progress.json", "progress.lock"]


def test_what_a_newer_version_wrote_is_kept(file):
    file.parent.mkdir()
    file.write_text('{"version": 9, "exercises": {}, "predictions": {}, "stars": [1]}')
    record_try("01-a", True)
    assert json.loads(file.read_text())["stars"] == [1]


def test_a_lock_held_elsewhere_is_said_after_a_while(file, monkeypatch):
    monkeypatch.setattr(progress_file, "LOCK_WAIT_S", 0.05)
    monkeypatch.setattr(progress_file, "_try_lock", lambda handle: False)
    _, note = record_try("01-a", True)
    assert note and read()[0]["exercises"]["01-a"]["passed"]


BUSY_KERNEL = """
import sys
from keel.lab.progress_file import record_try
for n in range(30):
    assert record_try(f'01-{sys.argv[1]}{n}', True)[1] is None
    record_try('01-a', False)
"""


def test_two_kernels_at_once_lose_nothing(file):
    root = Path(__file__).parents[2]
    kernels = [subprocess.Popen([sys.executable, "-c", BUSY_KERNEL, name], cwd=root) for name in "xyz"]
    assert [kernel.wait(60) for kernel in kernels] == [0, 0, 0]
    exercises = read()[0]["exercises"]
    assert len(exercises) == 91
    assert exercises["01-a"]["wrong"] == 90


def test_a_change_gets_its_own_copy(file):
    state, _ = update(lambda state: None)
    state["exercises"]["01-a"] = "spoiled"
    assert read()[0]["exercises"] == {}
