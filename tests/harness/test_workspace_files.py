"""What stands at a path in a workspace: pipes and swaps, sizes, text, and how a file is written."""

import contextlib
import os
import signal
import socket
import stat
import threading
from collections import Counter
from pathlib import Path

import pytest

from keel import ToolFailure
from keel import workspace as module
from keel.workspace import Workspace

from .workspace_place import code, in_time, leftovers, linux, posix, put

# ---- pipes, devices, what is put in a file's place


def socket_at(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(path.parent)  # the whole path may be too long for a socket
        server.bind(path.name)


def device_at(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root makes devices")


@posix
@pytest.mark.parametrize(
    "make", [os.mkfifo, socket_at, device_at, os.mkdir], ids=["pipe", "socket", "device", "folder"]
)
def test_what_is_no_file_is_refused_and_nobody_waits(place, workspace, make):
    make(place.root / "odd")
    assert in_time(code, workspace.read_text, "odd") == "not_a_file"
    assert in_time(code, workspace.write_text, "odd", "x") == "not_a_file"
    if make is not os.mkdir:
        assert in_time(code, workspace.list, "odd") == in_time(code, workspace.read_text, "odd/x") == "file_not_found"
        assert "odd" not in workspace.list()
    assert not stat.S_ISREG((place.root / "odd").lstat().st_mode) and not leftovers(place.root)


@posix
def test_a_pipe_is_not_even_opened(place, workspace):
    """Whoever waits to write into it would be let go, and lose what is written."""
    os.mkfifo(place.root / "pipe")
    code(workspace.read_text, "pipe")
    opened = []
    real = os.open
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            os, "open", lambda path, *rest, **options: opened.append(str(path)) or real(path, *rest, **options)
        )
        assert code(workspace.read_text, "pipe") == "not_a_file"
    assert not [path for path in opened if path.endswith("pipe")]


def swap(place, name, make, before):
    """Have `name` be something else from the next time that it is looked at, or opened, on."""
    real = getattr(module._Folder, before)

    def swapped(folder, at, *rest):
        found = real(folder, at, *rest) if before == "look" else None
        target = place.root / name
        if at == target.name and not (place.jail / "was").exists():
            target.rename(place.jail / "was")
            make(target)
        return real(folder, at, *rest) if before == "open" else found

    return swapped


SWAPS = {
    "a link to a file": lambda at: at.symlink_to("../../outside/stolen.txt"),
    "a link to a folder": lambda at: at.symlink_to("../outside"),
    "a link to the same, outside": lambda at: at.symlink_to("../../was"),
    "a pipe": lambda at: os.mkfifo(at),
    "a folder": lambda at: at.mkdir(),
}


@posix
@pytest.mark.parametrize("what", SWAPS)
@pytest.mark.parametrize("before", ["look", "open"])
def test_a_file_that_is_swapped_just_before_it_is_opened(place, workspace, monkeypatch, what, before):
    monkeypatch.setattr(module._Folder, before, swap(place, "sub/a.txt", SWAPS[what], before))
    assert in_time(code, workspace.read_text, "sub/a.txt") in ("path_outside_workspace", "not_a_file")


@posix
@pytest.mark.parametrize("what", ["a link to a folder", "a link to the same, outside", "a pipe"])
def test_a_folder_that_is_swapped_just_before_it_is_opened(place, workspace, monkeypatch, what):
    make = (lambda at: at.symlink_to("../was")) if "same" in what else SWAPS[what]
    for call in (workspace.read_text, lambda path: workspace.write_text(path, "x")):
        monkeypatch.setattr(module._Folder, "look", swap(place, "sub", make, "look"))
        before = place.around()
        assert in_time(code, call, "sub/a.txt") in ("path_outside_workspace", "file_not_found")
        after = {path: seen for path, seen in place.around().items() if path in before}
        if module._HANDLES:
            assert after == before
        # Without handles an empty file may have been there for a moment.
        assert {path: seen[-1] for path, seen in after.items()} == {path: seen[-1] for path, seen in before.items()}
        assert len(list((place.jail / "outside").iterdir())) == 4
        (place.root / "sub").unlink()
        (place.jail / "was").rename(place.root / "sub")
        assert (place.root / "sub/a.txt").read_text() == "IN a"


@posix
@pytest.mark.parametrize("what", ["a pipe", "a link to a file", "a link to the same, outside"])
def test_what_was_opened_is_what_is_judged(place, workspace, monkeypatch, what):
    """Swapped only while it is opened: looked at before and after, all is well."""
    real, at = module._Folder.open, place.root / "sub/a.txt"

    def swapped(folder, name, *rest):
        at.rename(place.jail / "was")
        SWAPS[what](at)
        try:
            return real(folder, name, *rest)
        finally:
            at.unlink()
            (place.jail / "was").rename(at)

    monkeypatch.setattr(module._Folder, "open", swapped)
    assert in_time(code, workspace.read_text, "sub/a.txt") in ("path_outside_workspace", "not_a_file")


@posix
@pytest.mark.parametrize("what", SWAPS)
def test_a_write_goes_nowhere_else_when_its_target_is_swapped(place, workspace, monkeypatch, what):
    before = place.around()
    monkeypatch.setattr(module._Folder, "look", swap(place, "sub/a.txt", SWAPS[what], "look"))
    assert in_time(code, workspace.write_text, "sub/a.txt", "new") in ("ok", "not_a_file")
    assert (place.jail / "was").read_text() == "IN a"
    (place.jail / "was").unlink()
    assert place.around() == before and not leftovers(place.root / "sub")


# ---- sizes


@pytest.fixture
def bytes_read(monkeypatch):
    """How many bytes were taken from files."""
    real, taken = os.read, [0]

    def counting(file, size):
        got = real(file, size)
        taken[0] += len(got)
        return got

    monkeypatch.setattr(os, "read", counting)
    return taken


def test_exactly_so_many_bytes_pass_and_one_more_does_not(place, bytes_read):
    workspace = Workspace(place.root, max_bytes=200_000)
    assert workspace.write_text("n", "é" * 100_000) == 200_000
    assert workspace.read_text("n") == "é" * 100_000
    assert code(workspace.write_text, "n", "é" * 100_000 + "x") == "file_too_large"
    assert workspace.read_text("n") == "é" * 100_000
    (place.root / "n").write_bytes(b"x" * 200_001)
    bytes_read[0] = 0
    assert code(workspace.read_text, "n") == "file_too_large" and bytes_read[0] == 0
    assert Workspace(place.root).max_bytes == 1_000_000
    nothing = Workspace(place.root, max_bytes=0)
    assert nothing.write_text("empty", "") == 0 and nothing.read_text("empty") == ""
    assert code(nothing.read_text, "ok.txt") == "file_too_large"


def test_a_vast_file_with_nothing_in_it(place, workspace, bytes_read):
    with open(place.root / "vast", "wb") as file:
        try:
            file.truncate(10 << 30)
        except OSError:
            pytest.skip("this disk has no sparse files")
    assert code(workspace.read_text, "vast") == "file_too_large" and bytes_read[0] == 0


def test_a_file_that_grows_while_it_is_read(place, workspace, monkeypatch, bytes_read):
    (place.root / "log").write_text("x" * 1000)
    real = os.read

    def growing(file, size):
        if (place.root / "log").stat().st_size < 5_000_000:
            with open(place.root / "log", "ab") as log:
                log.write(b"x" * 200_000)
        return real(file, size)

    monkeypatch.setattr(os, "read", growing)
    assert code(workspace.read_text, "log") == "file_too_large"
    assert bytes_read[0] == 1_000_001


@linux
def test_a_file_that_says_it_is_empty_and_is_not(way, bytes_read):
    workspace = Workspace("/proc/sys/kernel", max_bytes=6)
    assert os.stat("/proc/sys/kernel/ostype").st_size == 0
    assert workspace.read_text("ostype") == "Linux\n"
    bytes_read[0] = 0
    assert code(Workspace("/proc/sys/kernel", max_bytes=5).read_text, "version") == "file_too_large"
    assert bytes_read[0] == 6


def test_a_folder_with_too_many_names(place, workspace, monkeypatch):
    monkeypatch.setattr(module, "MAX_ENTRIES", 3)
    for name in "abc":
        put(place.root / "many" / name, "")
    assert workspace.list("many") == ["a", "b", "c"]
    put(place.root / "many" / ".hidden", "")
    assert code(workspace.list, "many") == "file_too_large"


# ---- what is text, and how it is written

TEXTS_AS_THEY_STAND = ["a\r\nb\rc\n", "\ufeffwith a BOM", "", "\n", "no end", "\x00\x1a", "é e\u0301 \U0001f600 \u2028"]


@pytest.mark.parametrize("text", TEXTS_AS_THEY_STAND, ids=ascii)
def test_text_stands_as_it_was_written(place, workspace, text):
    assert workspace.write_text("n", text) == len(text.encode())
    assert (place.root / "n").read_bytes() == text.encode()
    assert workspace.read_text("n") == text


@pytest.mark.parametrize("content", [b"\xff\xfea\x00", b"\xe9", b"ok\xc3", b"\xed\xa0\x80", b"\xc0\xaf"])
def test_what_is_no_utf8_is_no_text(place, workspace, content):
    (place.root / "n").write_bytes(content)
    assert code(workspace.read_text, "n") == "not_text"


def test_half_characters_are_not_written(place, workspace):
    assert code(workspace.write_text, "ok.txt", "\ud800") == code(workspace.write_text, "n", "\udcff") == "not_text"
    assert workspace.read_text("ok.txt") == "IN" and not (place.root / "n").exists()


OLD, NEW = "old " * 50_000, "new " * 60_000
STEPS_OF_A_WRITE = ["open", "fchmod", "write", "fsync", "replace", "close"]


@posix
@pytest.mark.parametrize("step", STEPS_OF_A_WRITE)
@pytest.mark.parametrize("when", ["before", "half", "after"])
def test_a_killed_writer_leaves_the_old_file_or_the_new_one(place, workspace, step, when):
    (place.root / "ok.txt").write_text(OLD)
    if not (writer := os.fork()):
        real = getattr(os, step)

        def killed(*arguments, **options):
            if step == "write" and when == "half":
                real(arguments[0], arguments[1][:1000])
            done = real(*arguments, **options) if when == "after" else None
            os.kill(os.getpid(), signal.SIGKILL)
            return done

        setattr(os, step, killed)
        code(workspace.write_text, "ok.txt", NEW)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]) == -signal.SIGKILL
    check_after_a_kill(place, workspace)


@posix
def test_a_writer_killed_at_any_time(place, workspace):
    (place.root / "ok.txt").write_text(OLD)
    for at in range(25):
        if not (writer := os.fork()):
            with contextlib.suppress(BaseException):
                while True:
                    workspace.write_text("ok.txt", NEW)
                    workspace.write_text("ok.txt", OLD)
            os._exit(1)
        try:
            for _ in range(at):
                code(workspace.read_text, "ok.txt")
        finally:
            os.kill(writer, signal.SIGKILL)
            os.waitpid(writer, 0)
        check_after_a_kill(place, workspace)


def check_after_a_kill(place, workspace):
    assert workspace.read_text("ok.txt") in (OLD, NEW)
    assert "ok.txt" in workspace.list() and not [name for name in workspace.list() if "keel" in name]
    for name in leftovers(place.root):
        assert code(workspace.read_text, name) == code(workspace.write_text, name, "x") == "path_hidden"
    workspace.write_text("ok.txt", NEW)
    assert workspace.read_text("ok.txt") == NEW


def test_a_reader_sees_the_old_file_or_the_new_one(workspace):
    workspace.write_text("ok.txt", OLD)
    seen, over = Counter(), threading.Event()

    def read():
        while not over.is_set():
            with contextlib.suppress(*() if module._HANDLES else (ToolFailure,)):  # it may be told to try again
                seen[workspace.read_text("ok.txt")] += 1

    reader = threading.Thread(target=read)
    reader.start()
    for at in range(100):
        code(workspace.write_text, "ok.txt", NEW if at % 2 else OLD)  # Windows may refuse while somebody reads
    over.set()
    reader.join()
    assert set(seen) <= {OLD, NEW} and seen


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755, 0o200 | 0o444])
def test_a_file_keeps_its_mode_and_is_never_open_to_more(place, workspace, monkeypatch, mode):
    (place.root / "ok.txt").chmod(mode)
    modes = []
    for step in ("fchmod", "write", "fsync"):
        real = getattr(os, step)

        def noting(file, *rest, real=real):
            if stat.S_ISREG(os.fstat(file).st_mode):
                modes.append(stat.S_IMODE(os.fstat(file).st_mode))
            return real(file, *rest)

        monkeypatch.setattr(os, step, noting)
    old = os.umask(0)
    try:
        workspace.write_text("ok.txt", "new")
    finally:
        os.umask(old)
    assert stat.S_IMODE((place.root / "ok.txt").stat().st_mode) == mode
    assert len(modes) >= 3 and not [seen for seen in modes if seen & ~(mode | 0o600)]


@posix
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_mode_that_the_umask_leaves(place, workspace, umask):
    old = os.umask(umask)
    try:
        workspace.write_text("n", "new")
    finally:
        os.umask(old)
    assert stat.S_IMODE((place.root / "n").stat().st_mode) == 0o666 & ~umask


@posix
def test_a_write_changes_one_name_only(place, workspace):
    """A hard link cannot be told from the file, so it is read; but the other name keeps its content."""
    os.link(place.jail / "outside/stolen.txt", place.root / "hard")
    workspace.write_text("hard", "new")
    assert workspace.read_text("hard") == "new" and (place.jail / "outside/stolen.txt").read_text() == "OUTSIDE"


@posix
def test_special_bits_are_not_handed_on(place, workspace):
    (place.root / "ok.txt").chmod(0o4755)
    workspace.write_text("ok.txt", "new")
    assert stat.S_IMODE((place.root / "ok.txt").stat().st_mode) == 0o755
