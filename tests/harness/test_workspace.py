"""A workspace is one folder: nothing outside it is read, changed or listed, whatever the text of a path is."""

import contextlib
import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keel import ToolFailure
from keel import workspace as module
from keel.workspace import Workspace

from .workspace_place import CLOSED, INSIDE, LINKS, ROOT, WAYS, WRONG, Place, code, linux, posix, put


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
