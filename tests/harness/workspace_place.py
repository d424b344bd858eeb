"""A workspace, and around it everything that a path may try to reach; what the tests of it share."""

import gc
import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from keel import ToolFailure
from keel import workspace as module
from keel.workspace import PATH_CODES

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such thing")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
WAYS = [False] if sys.platform == "win32" else [True, False]
ROOT = Path(module.__file__).parents[1]

INSIDE = {"ok.txt": "IN", "sub/a.txt": "IN a", "sub/deep/b.txt": "IN b", "café.txt": "IN café", "a b.txt": "IN a b"}
INSIDE |= {"日本/x": "IN x", "-rf": "IN -rf", "~": "IN ~", "%2e%2e": "IN %"}
CLOSED = [".env", ".git/config", "secrets/key.txt", "sub/Secrets/key.txt", "sub/.ssh/id", "credentials", "sub/private"]
# They lead to what these tests made themselves, so that a workspace that is broken does no harm here.
LINKS = {
    "to_folder": "../outside", "to_file": "../outside/stolen.txt", "to_absolute": "JAIL/outside", "to_top": "JAIL",
    "to_proc": "/proc/self/rootJAIL", "to_cwd": "/proc/self/cwd", "to_zero": "/dev/zero",
    "to_evil": "../workspace-evil",
    "up": "..", "here": ".", "in_folder": "sub", "in_file": "ok.txt", "in_absolute": "JAIL/workspace/sub",
    "dangling": "../outside/new.txt", "dangling_in": "new.txt", "loop": "loop", "loop_a": "loop_b", "loop_b": "loop_a",
    "chain": "to_folder", "chain_file": "to_file", "through": "sub/up/outside", "sub/up": "..",
    "sub/to_folder": "../../outside", "sub/to_file": "../../outside/stolen.txt", "sub/deep/top": "JAIL/outside",
}  # fmt: skip


class Place:
    """A folder to work in, and around it everything that a path may try to reach."""

    def __init__(self, jail: Path):
        self.jail = jail
        self.root = jail / "workspace"
        for name, text in INSIDE.items():
            put(self.root / name, text)
        for name in CLOSED:
            put(self.root / name, "CLOSED")
        for folder in ("outside", "outside/sub", "workspace-evil", "Workspace", "cwd", "cwd/sub", "cwd/workspace"):
            for name in ("stolen.txt", "ok.txt", "a.txt"):
                put(jail / folder / name, "OUTSIDE")
        if sys.platform != "win32":
            for name, target in LINKS.items():
                (self.root / name).symlink_to(target.replace("JAIL", str(jail)))

    def files(self) -> dict[str, str]:
        """What the files in the root hold, links left alone."""
        found = (Path(folder, name) for folder, _, files in os.walk(self.root) for name in files)
        return {str(path): path.read_text() for path in found if path.is_file() and not path.is_symlink()}

    def around(self) -> dict[str, tuple]:
        """All that is not in the root: names, what they are, content, and when it last changed."""
        seen = {}
        for folder, inner, files in os.walk(self.jail):
            inner[:] = [name for name in inner if Path(folder, name) != self.root]
            for path in (Path(folder, name) for name in [*inner, *files, "."]):
                now = path.lstat()
                content = path.read_bytes() if stat.S_ISREG(now.st_mode) else b""
                if os.path.normpath(path) != str(self.jail):  # in it stands the root itself
                    seen[str(path)] = (now.st_mode, now.st_ino, now.st_size, now.st_mtime_ns, content)
        return seen


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def code(function, *arguments) -> str:
    """`ok`, or the code that it was refused with. Whatever else is raised comes through."""
    try:
        function(*arguments)
    except ToolFailure as failure:
        assert failure.error.code in PATH_CODES
        return failure.error.code
    return "ok"


def in_time(function, *arguments):
    """What the function gives, if it does so within ten seconds; whoever hangs is left behind."""
    given = []
    thread = threading.Thread(target=lambda: given.append(function(*arguments)), daemon=True)
    thread.start()
    thread.join(10)
    assert given, "it hangs"
    return given[0]


def leftovers(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith(".keel-")]


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/dev/fd"))


class Liar(str):
    """Text that answers what a check wants to hear."""

    def startswith(self, *_):
        return False

    def endswith(self, *_):
        raise RuntimeError

    def split(self, *_):
        return ["ok.txt"]

    def encode(self, *_):
        return b"x" * 10_000_000

    def __len__(self):
        return 1


class Disguised:
    @property
    def __class__(self):
        return str


WRONG = [b"ok.txt", 1, None, True, 1.5, ["ok.txt"], {}, object(), Path("ok.txt"), Liar("/etc/passwd"), Disguised(), str]
