"""A workspace is one folder: nothing outside it is read, changed or listed, whatever the text of a path is."""

import contextlib
import copy
import errno
import gc
import os
import pickle
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keel import ToolFailure
from keel import workspace as module
from keel.workspace import PATH_CODES, Workspace

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


@pytest.fixture(params=WAYS, ids=["handles" if way else "no handles" for way in WAYS])
def way(request, monkeypatch):
    """With handles of folders, and without: as on Windows."""
    monkeypatch.setattr(module, "_HANDLES", request.param)
    return request.param


@pytest.fixture
def place(tmp_path, way, monkeypatch):
    place = Place(tmp_path)
    monkeypatch.chdir(tmp_path / "cwd")
    return place


@pytest.fixture
def workspace(place):
    return Workspace(place.root)


@linux
def test_handles_are_used_where_the_system_has_them(tmp_path):
    assert module._HANDLES and Workspace(tmp_path)._handle is not None


# ---- whatever the text of a path is

PIECES = [
    "..", ".", "", "...", "....", "~", "~root", "/", "//", "\\", "..\\", "\\\\server\\share", "C:", "c:\\",
    "C:ok.txt", "\0", "ok.txt\0.png", "\n", "\x1b[31m", "\x7f", "\u200b", "\u202e", "\ufeff", "\ud800",
    "\udc80", "．．", "․․", "‥", "…", "／", "＼", "..／outside", "℀", "%2e%2e", "%2f", "file:", "file:///x", "CON",
    "nul.txt", "com¹", "LPT9", "conin$", "ok.txt.", "ok.txt ", " ok.txt", "ok.txt::$DATA", "GIT~1",
    "SECRET~1.TXT", "x" * 255, "x" * 256, "é" * 128, "*", "?", "workspace", "workspace-evil", "Workspace",
    "outside", "cwd", "stolen.txt", "new.txt", "..data", ".env", ".git", "config", "secrets", "SECRETS",
    "ſecrets", "ｓecrets", "．env", "secrets\u034f", "\ufe0f", "\u3164", "key.txt", "|", *INSIDE, *LINKS, "sub",
    "deep", "日本", "x", "a.txt",
]  # fmt: skip
STEPS = st.one_of(st.sampled_from(PIECES), st.text(max_size=4), st.sampled_from([*LINKS, "sub", ".."]))
TEXTS = st.builds(
    lambda first, steps, glue: first + glue.join(steps),
    st.sampled_from(["", "", "", "./", "/", "//", "../", "sub/", "JAIL/", "ROOT/", "ROOT-evil/"]),
    st.lists(STEPS, min_size=1, max_size=5),
    st.sampled_from(["/", "/", "/", "//", "/./", "/../", "\\", ""]),
)


@pytest.fixture(scope="module", params=WAYS, ids=["handles" if way else "no handles" for way in WAYS])
def one_place(request, tmp_path_factory):
    """One for all the examples of a property."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_HANDLES", request.param)
        place = Place(tmp_path_factory.mktemp("jail"))
        patch.chdir(place.jail / "cwd")
        place.workspace = Workspace(place.root)
        yield place


@given(path=TEXTS)
@settings(max_examples=max(50, 400 // int(os.environ.get("KEEL_FEWER_EXAMPLES", "1"))))
@example(path="to_folder/stolen.txt")
@example(path="to_evil/stolen.txt")
@example(path="up/outside/stolen.txt")
@example(path="dangling")
@example(path="sub/deep/top/stolen.txt")
def test_no_text_of_a_path_leads_out(one_place, path):
    path = path.replace("ROOT", str(one_place.root)).replace("JAIL", str(one_place.jail))
    workspace, before = one_place.workspace, one_place.around()
    with contextlib.suppress(ToolFailure):
        assert workspace.read_text(path).startswith("IN")
    with contextlib.suppress(ToolFailure):
        listed = {name.rstrip("/") for name in workspace.list(path)}
        assert not listed & {"stolen.txt", "cwd", *CLOSED, *LINKS}
    inside = one_place.files()
    if code(workspace.write_text, path, "IN new") == "ok":
        assert workspace.read_text(path) == "IN new"
        now = one_place.files()
        changed = [name for name in now if now[name] != inside.get(name)]
        assert len(changed) == 1 and now.keys() >= inside.keys()
        Path(changed[0]).write_text(inside[changed[0]]) if changed[0] in inside else Path(changed[0]).unlink()
    assert one_place.around() == before


@posix
@pytest.mark.parametrize("link", LINKS)
def test_links_are_refused_wherever_they_lead(place, workspace, link):
    before = place.around()
    for path in (link, f"{link}/stolen.txt", f"{link}/ok.txt", f"{link}/sub/a.txt", f"./{link}//x"):
        assert code(workspace.read_text, path) == "path_outside_workspace"
        assert code(workspace.write_text, path, "x") == "path_outside_workspace"
        assert code(workspace.list, path) == "path_outside_workspace"
    assert (place.root / link).is_symlink() and place.around() == before
    assert link.split("/")[-1] not in [name.rstrip("/") for name in workspace.list(str(PurePosixPath(link).parent))]


@pytest.mark.parametrize(
    ("wanted", "path"),
    [
        *(
            ("path_outside_workspace", path)
            for path in ("..", "../x", "sub/../ok.txt", "/", "/etc/passwd", "//x", "/dev/zero")
        ),
        *(("path_invalid", path) for path in ("", ".", "sub/", "sub/.", "x" * 256, "a/" * 2049, "é" * 128, "\u3164")),
        *(
            ("path_invalid", path)
            for path in ("..\\x", "C:/x", "ok.txt\0", "\ud800", "．．/x", "․․", "x／y", "x.", "x ", "x:y")
        ),
        *(
            ("path_invalid", path)
            for path in ("con", "aux.h", "COM¹.txt", "con .txt", "CONIN$", "GIT~1", "SEA1B2~12.TX")
        ),
        *(
            ("file_not_found", path)
            for path in ("nowhere", "nowhere/x", "ok.txt/x", "é" * 127, "draft~.txt", "version~2.0.txt")
        ),
        ("not_a_file", "sub"),
    ],
    ids=ascii,
)
def test_each_refusal_has_its_code(workspace, wanted, path):
    assert code(workspace.read_text, path) == wanted


def test_honest_paths_are_taken(workspace):
    for name, text in INSIDE.items():
        assert workspace.read_text(name) == workspace.read_text(f"./{name.replace('/', '/./')}") == text
        assert workspace.write_text(name, f"{text}!") == len(f"{text}!".encode())
        assert workspace.read_text(name.replace("/", "//")) == f"{text}!"
    shown = ["%2e%2e", "-rf", "a b.txt", "café.txt", "ok.txt", "sub/", "~", "日本/"]
    assert workspace.list() == workspace.list("") == workspace.list("./") == shown
    assert workspace.list("sub") == workspace.list("sub/.") == ["a.txt", "deep/"]


# ---- only ToolFailure


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


@pytest.mark.parametrize("value", WRONG, ids=lambda value: type(value).__name__)
def test_what_is_no_text_is_refused(place, workspace, value):
    for call in (workspace.read_text, workspace.list, lambda path: workspace.write_text(path, "x")):
        assert code(call, value) == "path_invalid"
    if not isinstance(value, str):
        assert code(workspace.write_text, "ok.txt", value) == "not_text"
    assert workspace.write_text("ok.txt", Liar("honest")) == 6
    assert workspace.read_text("ok.txt") == "honest"


@posix
def test_a_root_that_is_gone_or_another_now(place, workspace):
    root, whole = place.root, [*workspace.list(), "a.txt"]
    place.root = root.rename(place.jail / "moved")
    assert code(workspace.read_text, "ok.txt") in ("ok", "file_not_found")
    root.symlink_to(place.jail / "outside")
    before = place.around()
    for call in (workspace.read_text, lambda path: workspace.write_text(path, "IN"), lambda _: workspace.list()):
        assert code(call, "ok.txt") == ("ok" if module._HANDLES else "path_outside_workspace")
        assert code(call, "a.txt") in ("ok", "file_not_found", "path_outside_workspace")
    assert (
        sorted(workspace.list()) == sorted(whole)
        if module._HANDLES
        else code(workspace.list) == "path_outside_workspace"
    )
    assert place.around() == before


@posix
def test_a_root_that_was_removed(tmp_path, way):
    root = tmp_path / "root"
    root.mkdir()
    workspace = Workspace(root)
    root.rmdir()
    assert code(workspace.read_text, "a") == code(workspace.write_text, "a", "x") == "file_not_found"
    assert code(workspace.list) in ("ok", "file_not_found") and not root.exists()


CALLS = ["open", "stat", "fstat", "lstat", "read", "write", "fsync", "fchmod", "replace", "scandir"]


@posix
@pytest.mark.parametrize("name", CALLS)
def test_whatever_the_system_refuses_is_told_in_our_codes(place, workspace, monkeypatch, name):
    """Each call of the system fails once, at each place where it is called, for each reason there is."""
    real, before, count = getattr(os, name), descriptors(), Counter()
    calls = [lambda: workspace.read_text("sub/a.txt"), lambda: workspace.list("sub")]
    calls += [lambda: workspace.write_text("sub/a.txt", "new"), lambda: workspace.write_text("sub/new.txt", "new")]
    for call in calls:
        for at in range(8):
            for number in (*list(errno.errorcode)[:: 1 if at == 0 else 9], None):
                put(place.root / "sub/a.txt", "old")
                (place.root / "sub/new.txt").unlink(missing_ok=True)
                left = [at]

                def broken(*arguments, left=left, number=number, **options):
                    left[0] -= 1
                    if left[0] == -1:
                        raise OSError(number, "in /etc") if number else OSError("no number")
                    return real(*arguments, **options)

                with monkeypatch.context() as patch:
                    patch.setattr(os, name, broken)
                    got = code(call)
                count[got] += 1
                assert (place.root / "sub/a.txt").read_text() in ("old", "new")
                if got != "ok":
                    assert not (place.root / "sub/new.txt").exists() or number == errno.ENOENT or name == "fsync"
                assert not leftovers(place.root / "sub")
    assert descriptors() == before
    assert count["ok"] and (len(count) > 2 or name in ("lstat", "fchmod") or count["file_unavailable"])


@posix
def test_files_that_may_not_be_read(place, workspace):
    (place.root / "ok.txt").chmod(0)
    (place.root / "sub/deep").chmod(0)
    if os.geteuid():
        assert code(workspace.read_text, "ok.txt") == code(workspace.list, "sub/deep") == "file_unavailable"
        return
    nobody = 65534
    os.seteuid(nobody)
    try:
        found = [
            code(workspace.read_text, "ok.txt"),
            code(workspace.list, "sub/deep"),
            code(workspace.write_text, "n", "x"),
        ]
    finally:
        os.seteuid(0)
    assert found == ["file_unavailable"] * 3


@posix
def test_a_file_that_may_only_be_read_is_not_replaced(place, workspace):
    (place.root / "ok.txt").chmod(0o444)
    assert code(workspace.write_text, "ok.txt", "x") == "file_unavailable"
    assert workspace.read_text("ok.txt") == "IN"


@posix
def test_a_full_disk_leaves_the_old_file_and_nothing_beside_it(place, workspace):
    import resource

    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, old[1]))
    try:
        found = [
            code(workspace.write_text, name, "x" * size) for name in ("ok.txt", "n") for size in (1001, 100_000, 10)
        ]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert found == ["file_unavailable", "file_unavailable", "ok"] * 2
    assert workspace.read_text("ok.txt") == workspace.read_text("n") == "x" * 10 and not leftovers(place.root)


@posix
def test_too_many_open_files(place, workspace):
    import resource

    old, before, found = resource.getrlimit(resource.RLIMIT_NOFILE), descriptors(), Counter()
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 60, old[1]))
    taken = []
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        for _ in range(6):
            for call in (
                lambda: workspace.read_text("sub/a.txt"),
                lambda: workspace.write_text("sub/a.txt", "IN"),
                workspace.list,
            ):
                found[code(call)] += 1
            os.close(taken.pop())
    finally:
        for one in taken:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, old)
    assert set(found) == {"ok", "file_unavailable"} and descriptors() == before and not leftovers(place.root / "sub")


@posix
def test_ten_thousand_calls_leave_no_descriptor_open(place, workspace):
    os.mkfifo(place.root / "pipe")
    (place.root / "binary").write_bytes(b"\xff")
    (place.root / "large").write_bytes(b"x" * 1_000_001)
    reads = [
        "ok.txt",
        "sub/a.txt",
        "sub/deep/b.txt",
        "to_file",
        "to_folder/x",
        "../x",
        "\0",
        "nowhere/x",
        "sub",
        "pipe",
    ]
    reads += ["binary", "large", ".env", None, "ok.txt/x"]
    before = descriptors()
    for _ in range(300):
        for path in reads:
            code(workspace.read_text, path)
            code(workspace.list, path)
    for _ in range(70):
        for path in reads:
            code(workspace.write_text, path, "IN")
    assert descriptors() == before
    for _ in range(200):
        assert code(Workspace(place.root).read_text, "ok.txt") == "ok"
        with pytest.raises(ValueError, match="root of the whole system"):
            Workspace("/")
    assert descriptors() == before


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


# ---- hidden and secret names

HIDDEN = [
    ".env",
    ".git",
    ".x",
    "..x",
    "secrets",
    "SECRETS",
    "Credentials",
    "pRiVaTe",
    "ſecrets",
    "ｓｅｃｒｅｔｓ",
    "．env",
    "․env",
]
HIDDEN += ["secrets\ufe0f", "s\u034fecrets", "\u3164.env", "𝐬ecrets", ".keel-0123456789abcdef.tmp"]


@pytest.mark.parametrize("name", HIDDEN, ids=ascii)
@pytest.mark.parametrize("where", ["", "sub/", "sub/deep/"])
def test_hidden_and_secret_names_are_closed_at_each_level(place, workspace, where, name):
    put(place.root / where / "as a folder" / name / "x", "CLOSED")
    put(place.root / where / "as a file" / name, "CLOSED")
    for path in (
        f"{where}as a folder/{name}/x",
        f"{where}as a folder/{name}",
        f"{where}as a file/{name}",
        f"{where}{name}",
    ):
        assert code(workspace.read_text, path) == "path_hidden"
        assert code(workspace.write_text, path, "x") == "path_hidden"
        assert code(workspace.list, path) == "path_hidden"
    assert workspace.list(f"{where}as a folder") == workspace.list(f"{where}as a file") == []


def test_names_that_only_look_like_secret_ones_are_open(place, workspace):
    for name in ("secrets.txt", "my secrets", "privately", "a.env", "e.g", "x..y"):
        workspace.write_text(name, "IN")
        assert workspace.read_text(name) == "IN" and name in workspace.list()


def test_which_names_are_secret_is_the_hosts_choice(place):
    workspace = Workspace(place.root, secret=["SUB", "CAFÉ.txt"])
    assert code(workspace.read_text, "sub/a.txt") == code(workspace.read_text, "café.txt") == "path_hidden"
    assert workspace.read_text("secrets/key.txt") == "CLOSED" and code(workspace.read_text, ".env") == "path_hidden"
    with pytest.raises(ValueError, match="as a list"):
        Workspace(place.root, secret="sub")


@linux
def test_what_is_listed_can_be_opened_and_what_cannot_is_not_listed(place, workspace):
    odd = [b"\xff", b"a\nb", b"a\\b", b"c:d", b"con", b"x.", b"y ", b" z", b"GIT~1", "\u200bq".encode(), "／".encode()]
    for name in odd:
        with open(os.path.join(os.fsencode(place.root), b"sub", name), "w"):
            pass
    assert workspace.list("sub") == ["a.txt", "deep/"]
    for name in workspace.list():
        assert code(workspace.list if name.endswith("/") else workspace.read_text, name) == "ok"
    for name in os.listdir(place.root / "sub"):
        assert (code(workspace.read_text, f"sub/{name}") == "ok") == (name == "a.txt")


# ---- roots


@posix
def test_a_root_may_be_reached_by_a_link_and_what_the_link_is_later_does_not_matter(place):
    (place.jail / "link").symlink_to("workspace")
    workspace = Workspace(place.jail / "link")
    (place.jail / "link").unlink()
    (place.jail / "link").symlink_to("outside")
    assert workspace.read_text("ok.txt") == "IN"


ROOTS = ["/", "//", "/./", "/etc/..", "/proc/self/root", "", "nowhere", "stolen.txt", "stolen.txt/", "\0", "x" * 5000]


@posix
@pytest.mark.parametrize("root", ROOTS, ids=lambda root: ascii(root)[:20])
def test_no_workspace_is_made_of_everything_or_nothing(place, root):
    for one in (root, os.fsencode(root)):
        with pytest.raises(ValueError):
            Workspace(one)


@posix
def test_nor_of_links_to_those(place):
    for target in ("/", "up_and_up", "nowhere", "loop"):
        (place.jail / "loop").unlink(missing_ok=True)
        (place.jail / "loop").symlink_to(target)
        with pytest.raises(ValueError):
            Workspace(place.jail / "loop")
    os.mkfifo(place.jail / "pipe")
    with pytest.raises(ValueError):
        Workspace(place.jail / "pipe")


def test_a_relative_root_stays_where_it_was(place, monkeypatch):
    monkeypatch.chdir(place.jail)
    workspaces = [Workspace("workspace"), Workspace(Path("workspace")), Workspace("./outside/../workspace")]
    workspaces += [Workspace(b"workspace")] if sys.platform != "win32" else []
    monkeypatch.chdir(place.jail / "cwd")
    for workspace in workspaces:
        assert workspace.read_text("ok.txt") == "IN" and workspace.list("sub") == ["a.txt", "deep/"]


@pytest.mark.parametrize("name", ["日本 é\u0301", ".hidden", "secrets", "a'\"b"])
def test_a_root_may_be_called_anything(place, name):
    put(place.jail / name / "ok.txt", "IN")
    workspace = Workspace(place.jail / name)
    assert workspace.read_text("ok.txt") == "IN" and workspace.write_text("n", "x") == 1
    assert workspace.list() == ["n", "ok.txt"]


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda make: make.__name__)
def test_a_workspace_is_not_copied(workspace, make):
    """A copy would hold the same number of a handle; once that is closed, the number is some other folder's."""
    with pytest.raises(TypeError):
        make(workspace)


# ---- several at once


def test_threads_do_not_disturb_each_other(place, workspace):
    for at in range(1000):
        put(place.root / f"many{at}", "IN")
    whole, wrong = workspace.list(), []

    def work(own):
        for at in range(30):
            if workspace.list() != whole:
                wrong.append("list")
            workspace.write_text(f"sub/{own}", f"{own} {at}")
            if workspace.read_text(f"sub/{own}") != f"{own} {at}":
                wrong.append("read")

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@posix
def test_a_forked_child_works_in_the_same_folder(place, workspace):
    for at in range(300):
        put(place.root / f"many{at}", "IN")
    whole = workspace.list()
    if not (child := os.fork()):
        with contextlib.suppress(BaseException):
            good = all(workspace.list() == whole for _ in range(100)) and workspace.write_text("sub/n", "child") == 5
            del workspace
            gc.collect()
            os._exit(0 if good else 1)
        os._exit(2)
    assert all(workspace.list() == whole for _ in range(100))
    assert os.waitpid(child, 0)[1] == 0
    assert workspace.read_text("sub/n") == "child"


@posix
def test_a_handle_is_closed_with_its_workspace(place):
    before = descriptors()
    workspaces = [Workspace(place.root) for _ in range(10)]
    assert descriptors() == before + (10 if module._HANDLES else 0)
    del workspaces
    assert descriptors() == before


# ---- what is said


def messages(workspace, path):
    for call in (workspace.read_text, workspace.list, lambda path: workspace.write_text(path, "x" * 2_000_000)):
        try:
            call(path)
        except ToolFailure as failure:
            yield failure.error.message


@posix
def test_messages_are_short_and_hold_no_place_of_ours(place, workspace):
    os.mkfifo(place.root / "pipe")
    (place.root / "binary").write_bytes(b"\xff")
    long = ["x" * 4096, "\x1b" * 200, "\x00" * 5000, "\U0001f600" * 300, "\ud800" * 255, "../" * 500, "y" * 254 + "/y"]
    count = 0
    for path in [
        *PIECES,
        *WRONG,
        *long,
        *LINKS,
        *CLOSED,
        "to_folder/x",
        "pipe",
        "binary",
        "sub",
        "ok.txt/x",
        "nowhere",
    ]:
        for message in messages(workspace, path):
            count += 1
            assert str(place.jail) not in message and "outside/" not in message and "/etc" not in message
            assert message.isprintable() and len(message) < 400 and len(message.split()) > 3
    assert count > 200


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("../x", "Leave out '..'"),
        ("/x", "leave out the first '/'"),
        ("a:b", "use plain names"),
        (".env", "use another"),
        ("sub/", "end with a file's name"),
        ("sub", "only those are read and written"),
        ("nowhere", "look at the spelling"),
        ("large", "at most 1000000 bytes"),
    ],
)
def test_messages_say_what_would_do(place, workspace, path, says):
    (place.root / "large").write_bytes(b"x" * 1_000_001)
    with pytest.raises(ToolFailure, match=says):
        workspace.read_text(path)


@posix
def test_a_system_whose_names_are_no_utf8(place):
    program = """
import sys
from keel import ToolFailure
from keel.workspace import Workspace
workspace = Workspace(sys.argv[1])
for call in (workspace.read_text, workspace.list, lambda path: workspace.write_text(path, "x")):
    try:
        call("caf\\u00e9.txt")
    except ToolFailure as failure:
        print(failure.error.code)
print(workspace.read_text("ok.txt"), len(workspace.list()))
"""
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program, place.root], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split()[:3] in (["path_invalid"] * 3, ["IN", "8"]) or "IN café" in done.stdout, done.stderr
    assert done.returncode == 0 and "IN" in done.stdout, done.stderr
