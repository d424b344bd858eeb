"""Somebody swaps folders, files and links under a reader and a writer: nothing outside is read or changed.

Run as a program it is that somebody: it swaps until its input ends, and then leaves the honest one there.
"""

import ctypes
import os
import random
import select
import stat
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from keel import ToolFailure
from keel import workspace as module
from keel.workspace import PATH_CODES, Workspace

pytestmark = pytest.mark.skipif(not module._HANDLES, reason="without handles of folders this is best effort")
SECONDS = 1.5
EXCHANGE = 2
HERE = -100  # what the system takes for the current folder


def exchange(one: str, other: str) -> None:
    """Both names at once where the system can do that, else one after the other."""
    try:
        done = ctypes.CDLL(None).renameat2(HERE, os.fsencode(one), HERE, os.fsencode(other), EXCHANGE)
    except AttributeError:
        done = -1
    if done:
        os.rename(one, "aside")
        os.rename(other, one)
        os.rename("aside", other)


def put_over(name: str, other: str, kind: str) -> None:
    """A link to the other, or a pipe, in the file's place, and an honest file again."""
    os.mkfifo("made") if kind == "pipe" else os.symlink(other, "made")
    os.rename("made", name)
    end = time.perf_counter() + random.random() / 20_000
    while time.perf_counter() < end:
        pass
    Path("made").write_text("honest")
    os.rename("made", name)


def swap_until_the_end(kind: str, name: str, other: str) -> None:
    print("begun", flush=True)
    count = 0
    while not select.select([0], [], [], 0)[0]:
        for _ in range(20):
            exchange(name, other) if kind == "exchange" else put_over(name, other, kind)
            count += 1
    if os.path.islink(name):
        exchange(name, other)
    print(count, flush=True)


@pytest.fixture
def jail(tmp_path):
    for place in ("root", "outside"):
        for name in ("file.txt", "a/file.txt", "a/b/file.txt"):
            path = tmp_path / place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("honest" if place == "root" else "stolen")
            if place == "outside":
                (path.parent / "stolen.txt").write_text("stolen")
    return tmp_path


def snapshot(folder: Path) -> dict[str, tuple]:
    """All that is there: what it is, when it changed, what it holds."""
    seen = {}
    for path in (folder, *folder.rglob("*")):
        now = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(now.st_mode) else b""
        seen[str(path)] = (now.st_mode, now.st_ino, now.st_nlink, now.st_mtime_ns, now.st_ctime_ns, content)
    return seen


def under_swaps(jail: Path, level: str, work) -> int:
    """Do the work again and again while somebody swaps. Gives how often was swapped."""
    kind, name, target = LEVELS[level]
    other = jail / "outside" / target
    if kind == "exchange":
        other = jail / "waiting"
        other.symlink_to(jail / "outside" / target)
    root = Path(module.__file__).parents[1]
    swapper = subprocess.Popen(
        [sys.executable, __file__, kind, jail / name, other],
        cwd=jail,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert swapper.stdout.readline() == "begun\n"
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            work()
        said, _ = swapper.communicate(timeout=30)
    finally:
        swapper.kill()
        swapper.wait()
    return int(said)


def counted(seen: Counter, function, *arguments):
    """What it gives, or None where it was refused in one of our codes."""
    try:
        given = function(*arguments)
    except ToolFailure as failure:
        assert failure.error.code in PATH_CODES
        seen[failure.error.code] += 1
        return None
    seen["ok"] += 1
    return given


LEVELS = {
    "the root": ("exchange", "root", ""),
    "a folder": ("exchange", "root/a", "a"),
    "a folder in a folder": ("exchange", "root/a/b", "a/b"),
    "the file": ("exchange", "root/a/b/file.txt", "a/b/file.txt"),
    "the file, put over it": ("link", "root/a/b/file.txt", "a/b/file.txt"),
    "the file, by a pipe": ("pipe", "root/a/b/file.txt", "a/b/file.txt"),
}


@pytest.mark.parametrize("level", LEVELS)
def test_a_reader_reads_the_honest_file_or_none(jail, level):
    workspace, before, read, listed = Workspace(jail / "root"), snapshot(jail / "outside"), Counter(), Counter()

    def work():
        assert counted(read, workspace.read_text, "a/b/file.txt") in ("honest", None)
        names = counted(listed, workspace.list, "a/b")
        assert names in (["file.txt"], [], None)

    swaps = under_swaps(jail, level, work)
    assert workspace.read_text("a/b/file.txt") == "honest" and workspace.list("a") == ["b/", "file.txt"]
    assert snapshot(jail / "outside") == before
    assert swaps > 100 and read["ok"] > 20 and listed["ok"] > 20, (swaps, read, listed)
    refused = sum(read.values()) - read["ok"]
    assert refused == 0 if level == "the root" else refused > 20, (swaps, read, listed)


# A write may put its file in the place of a link, and then there is no link left to exchange.
@pytest.mark.parametrize("level", [level for level in LEVELS if level != "the file"])
def test_a_writer_writes_into_the_honest_folder_or_nowhere(jail, level):
    workspace, before, wrote = Workspace(jail / "root"), snapshot(jail / "outside"), Counter()

    def work():
        counted(wrote, workspace.write_text, "a/b/file.txt", "honest")
        counted(wrote, workspace.write_text, "a/b/new.txt", "honest")

    swaps = under_swaps(jail, level, work)
    assert snapshot(jail / "outside") == before
    assert workspace.read_text("a/b/file.txt") == workspace.read_text("a/b/new.txt") == "honest"
    assert not list(jail.rglob(".keel-*"))
    assert swaps > 100 and wrote["ok"] > 20, (swaps, wrote)


if __name__ == "__main__":
    swap_until_the_end(*sys.argv[1:])
