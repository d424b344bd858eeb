"""Whatever goes wrong in a workspace has one of its codes, for many at once too."""

import contextlib
import errno
import gc
import os
import threading
from collections import Counter

import pytest

from keel import workspace as module
from keel.workspace import Workspace

from .workspace_place import WRONG, Liar, code, descriptors, leftovers, posix, put

# ---- only ToolFailure


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
