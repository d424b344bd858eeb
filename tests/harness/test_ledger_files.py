"""The ledger's file in bad company: forks, other names, other programs, and disks that will not do."""

import contextlib
import json
import multiprocessing
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys

import pytest

from keel import Harness, SqliteLedger
from keel.ledger import UNSETTLED, Entry, LedgerUnavailable, State
from keel.sqlite_ledger import SCHEMA_VERSION

from .kit import AMIRA, call, code, registry_of

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork"),
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
]


def entry(key="key", token="token"):
    return Entry(key, "digest", "tool", "1.0", "{}", '{"principal": "amira"}', "c-1", token)


def in_child(function):
    """What the function gives in a forked child, which then ends as a process that returns does."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, json.dumps(function()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    assert text, "the child broke"
    return json.loads(text)


def lives_for_others(path, key="key"):
    """Whether another process, one with nothing inherited, takes the claim for a living one's."""
    program = f"from keel import SqliteLedger; print(SqliteLedger({str(path)!r}).recall({key!r}).live)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip() == "True"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


# Forks


def test_a_forked_child_neither_ends_nor_inherits_its_parents_claim(path):
    ledger = SqliteLedger(path)
    claim = ledger.claim(entry())

    def child():
        ledger.end(claim, State.DONE, "{}")
        mine = ledger.claim(entry("another", "its own"))
        return [ledger.recall("key").state, ledger.recall("key").live, mine.owner, mine.live]

    state, live, owner, own_live = in_child(child)
    assert (state, live, own_live) == ("running", True, True) and owner != claim.owner
    assert ledger.recall("key").live and not ledger.recall("another").live
    assert lives_for_others(path)
    ledger.end(claim, State.DONE, "{}")
    assert ledger.recall("key").state is State.DONE
    assert ledger.claim(entry("after", "the child")).owner == claim.owner


def test_a_child_that_lives_on_does_not_keep_its_parents_claim_alive(path):
    reading, writing = os.pipe()
    waiting, going = os.pipe()
    child = os.fork()
    if not child:  # a parent of its own, which ends before its child
        SqliteLedger(path).claim(entry())
        if os.fork():
            os._exit(0)
        os.close(going)
        os.write(writing, b".")
        os.read(waiting, 1)  # to the end of the test
        os._exit(0)
    os.waitpid(child, 0)
    os.read(reading, 1)
    assert not SqliteLedger(path).recall("key").live
    for pipe in (reading, writing, waiting, going):
        os.close(pipe)


def test_what_forked_workers_claim_is_seen_by_all_whoever_comes_and_goes(path):
    """SQLite's notes on its locks, inherited, would let the next program to leave take the worker's log away."""
    ledger = SqliteLedger(path)
    ledger.claim(entry())

    def worker():
        ledger.recall("key")
        subprocess.run([sys.executable, "-c", passer_by], check=True)
        return ledger.claim(entry("worker", "w")).token

    passer_by = f"import sqlite3; db = sqlite3.connect({str(path)!r}); db.execute('SELECT * FROM entries').fetchall()"
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(writing)
        os.read(reading, 1)  # until its parent has let go of the file
        try:
            if worker() == "w":
                os._exit(0)
        finally:
            os._exit(1)
    ledger.close()
    os.close(reading)
    os.close(writing)
    assert os.waitpid(child, 0)[1] == 0
    assert SqliteLedger(path).recall("worker").token == "w"


def claim_in_another(path, pipe):
    claim = SqliteLedger(path).claim(entry("another", "its own"))
    pipe.send((claim.owner, SqliteLedger(path).recall("key").live))


def test_a_spawned_process_has_its_own_number(path):
    claim = SqliteLedger(path).claim(entry())
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=claim_in_another, args=(path, there))
    process.start()
    owner, live = here.recv()
    process.join()
    assert owner != claim.owner and live
    assert not SqliteLedger(path).recall("another").live


# One file, many names


def other_names(path):
    (path.parent / "link.db").symlink_to(path)
    (path.parent / "folder").symlink_to(path.parent)
    return [
        path,
        str(path),
        os.fsencode(path),
        os.path.relpath(path),
        path.parent / "link.db",
        path.parent / "folder" / path.name,
    ]


@pytest.mark.parametrize("which", range(6), ids=["same", "text", "bytes", "relative", "link", "through a link"])
def test_under_whatever_name_it_is_one_ledger_and_one_owner(path, which, monkeypatch):
    first = SqliteLedger(path)
    claim = first.claim(entry())
    second = SqliteLedger(other_names(path)[which])
    monkeypatch.chdir("/")
    assert second.recall("key").live and second.claim(entry(token="two")).token == "token"
    mine = second.claim(entry("another", "its own"))
    assert mine.owner == claim.owner and first.recall("another").live
    assert lives_for_others(path) and lives_for_others(path, "another")
    assert not list(path.parent.glob("link.db-*"))
    second.end(claim, State.DONE, "{}")
    assert first.recall("key").state is State.DONE


def test_a_copy_made_by_the_same_process_drops_no_lock(path):
    """A backup opens the files and closes them; a lock of the plain kind would be gone with that."""
    if sys.platform != "linux":
        pytest.skip("only Linux has the lock that stands this")
    ledger = SqliteLedger(path)
    ledger.claim(entry())
    shutil.copy(f"{path}-owners", path.parent / "backup")
    assert lives_for_others(path)


def test_a_closed_ledger_opens_again_and_its_claims_still_stand(path):
    ledger = SqliteLedger(path)
    claim = ledger.claim(entry())
    ledger.close()
    ledger.close()
    assert ledger.recall("key").live and lives_for_others(path)
    assert ledger.claim(entry("another", "two")).owner == claim.owner


# Disks that will not do: nothing runs, and what is wrong is said


WRITE = {"read_only": False, "needs_approval": False, "permission": "desk:write", "timeout_s": None}


class Body:
    def __init__(self):
        self.ran = 0

    def __call__(self) -> str:
        self.ran += 1
        return "done"


def try_one(path, body=None, ledger=None):
    """One write through a whole harness, with what is said of it. Raises AssertionError if anything ran."""
    body = body or Body()
    harness = Harness(registry_of(body, **WRITE), ledger=ledger or SqliteLedger(path, patience_s=0.05))
    result = harness.execute(call(), AMIRA)
    assert code(result) == "unavailable" and not body.ran, result
    assert result.error.retryable and "Nothing ran." in result.error.message
    assert "/" not in result.error.message and "ledger.db" not in result.error.message
    return result.error.message


def made(path, entries=1):
    ledger = SqliteLedger(path)
    for n in range(entries):
        ledger.end(ledger.claim(entry(f"key {n}", f"token {n}")), State.DONE, '{"data": "' + "x" * 200 + '"}')
    ledger.close()
    return path


def contents(folder):
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}


def test_without_its_folder(tmp_path):
    assert "cannot be opened" in try_one(tmp_path / "missing" / "ledger.db")
    assert "cannot be opened" in try_one(tmp_path)


def some_bytes(path):
    path.write_bytes(random.Random(1).randbytes(8192))
    return "is no database"


def text(path):
    path.write_text("what had to be done:\n" * 100)
    return "is no database"


def sql(path, *statements):
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


def another_programs(path):
    sql(path, "CREATE TABLE entries (key TEXT)", "INSERT INTO entries VALUES ('theirs')")
    return "no ledger"


def another_programs_in_wal(path):
    sql(path, "PRAGMA journal_mode = WAL", "CREATE TABLE notes (text TEXT)")
    return "no ledger"


def another_programs_without_tables(path):
    sql(path, "PRAGMA application_id = 7")
    return "no ledger"


def newer(path):
    sql(made(path), f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    return "newer than this program"


def damaged_header(path):
    with open(made(path), "r+b") as file:
        file.write(random.Random(2).randbytes(100))
    return "is no database"


def damaged_pages(path):
    size = os.path.getsize(made(path, 60))
    with open(path, "r+b") as file:
        file.seek(1024)
        file.write(random.Random(3).randbytes(size - 1024))
    return "is damaged"


def cut_short(path):
    os.truncate(made(path, 60), 3000)
    return "is damaged"


SPOILT = [
    some_bytes, text, another_programs, another_programs_in_wal, another_programs_without_tables,
    newer, damaged_header, damaged_pages, cut_short,
]  # fmt: skip


@pytest.mark.parametrize("spoil", SPOILT, ids=lambda spoil: spoil.__name__)
def test_a_file_that_is_no_ledger_of_ours_is_left_as_it_is(path, spoil):
    said = spoil(path)
    before = contents(path.parent)
    assert said in try_one(path)
    assert contents(path.parent) | before == contents(path.parent)
    if "database" in said or "newer" in said:
        assert contents(path.parent) == before


@pytest.mark.parametrize("how", ["a ledger", "a new file"])
def test_a_file_that_another_program_locks(path, how):
    if how == "a ledger":
        made(path)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "locked by another program" in try_one(path)
        other.execute("ROLLBACK")
        ledger = SqliteLedger(path)
        assert ledger.claim(entry("later", "later")).token == "later"


@pytest.mark.parametrize("end", ["", "-owners", "-wal"])
@pytest.mark.parametrize("replace", [False, True], ids=["removed", "replaced"])
def test_a_file_that_is_taken_away_while_in_use(path, end, replace):
    ledger = SqliteLedger(path)
    claim = ledger.claim(entry())
    shutil.copy(f"{path}{end}", path.parent / "backup")
    os.unlink(f"{path}{end}")
    if replace:
        (path.parent / "backup").rename(f"{path}{end}")
    assert "removed or replaced" in try_one(path, ledger=ledger)
    with pytest.raises(LedgerUnavailable):
        ledger.settle(claim, State.FREE, None, "not to be lost in a file that nobody finds")


def test_a_descriptor_that_other_code_closes(path):
    ledger = SqliteLedger(path)
    ledger.claim(entry())
    os.close(ledger._seat._descriptor)
    assert "removed or replaced" in try_one(path, ledger=ledger)
    assert ledger.recall("key").live


@contextlib.contextmanager
def unwritable(path):
    """The path made unwritable, for the superuser too where that can be done."""
    if os.geteuid():
        mode = path.stat().st_mode
        path.chmod(0o500)
        undo = lambda: path.chmod(mode)  # noqa: E731
    else:
        chattr = shutil.which("chattr")
        if not chattr or subprocess.run([chattr, "+i", path], capture_output=True).returncode:
            pytest.skip("the superuser can write everywhere here")
        undo = lambda: subprocess.run([chattr, "-i", path], check=True)  # noqa: E731
    try:
        yield
    finally:
        undo()


def test_a_folder_that_cannot_be_written(path):
    with unwritable(path.parent):
        assert "may it be written?" in try_one(path)
    made(path)
    os.unlink(f"{path}-owners")
    with unwritable(path.parent):
        assert "written" in try_one(path)
    assert code_of_a_good_one(path) == "ok"


def test_a_file_that_cannot_be_written(path):
    with unwritable(made(path)):
        assert "written" in try_one(path)
    assert code_of_a_good_one(path) == "ok"


def code_of_a_good_one(path, body=None):
    return code(Harness(registry_of(body or Body(), **WRITE), ledger=SqliteLedger(path)).execute(call(), AMIRA))


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a file system of 256 KiB of its own."""
    folder, mount = tmp_path / "disk", shutil.which("mount")
    folder.mkdir()
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if sys.platform != "linux" or not mount or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no file system may be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder):
    with open(folder / "filler", "wb", buffering=0) as file:
        for size in (4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)


def test_a_full_disk(small_disk):
    fill(small_disk)
    assert "full" in try_one(small_disk / "ledger.db") or "disk" in try_one(small_disk / "ledger.db")
    (small_disk / "filler").unlink()
    made(small_disk / "ledger.db")
    ledger = SqliteLedger(small_disk / "ledger.db")
    assert ledger.recall("key 0").state is State.DONE
    fill(small_disk)
    for _ in range(100):  # what has been set aside already may hold a few more
        try:
            ledger.claim(entry("more", "more"))
            ledger.end(ledger.recall("more"), State.FREE)
        except LedgerUnavailable:
            break
    assert "the disk is full" in try_one(None, ledger=ledger)
    (small_disk / "filler").unlink()
    assert code_of_a_good_one(small_disk / "ledger.db") == "ok"


def test_a_disk_that_is_full_just_when_the_end_is_written(small_disk):
    path = small_disk / "ledger.db"

    class Filler(Body):
        def __call__(self) -> str:
            fill(small_disk)
            return "x" * 100_000 if super().__call__() else ""

    body = Filler()
    assert code_of_a_good_one(path, body) == "ok"
    result = SqliteLedger(path).entries()
    assert [(one.state, one.live) for one in result] == [(State.RUNNING, False)]
    (small_disk / "filler").unlink()
    assert code_of_a_good_one(path, body) == "outcome_unknown" and body.ran == 1


def test_a_process_that_may_write_no_more(path):
    made(path)

    def child():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
        return try_one(path)

    assert "disk" in in_child(child)
    assert code_of_a_good_one(path) == "ok"


# Other programs, and much to find

READER = """
import sqlite3, sys
db = sqlite3.connect("file:" + sys.argv[1] + "?mode=ro", uri=True, isolation_level=None)
for line in sys.stdin:
    line = line.strip()
    print(db.execute(line).fetchall(), flush=True)
"""


def test_another_program_reads_while_it_is_written(path):
    ledger = SqliteLedger(path)
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:

        def ask(statement):
            reader.stdin.write(statement + "\n")
            reader.stdin.flush()
            return reader.stdout.readline().strip()

        for n in range(50):
            ledger.claim(entry(f"key {n}", f"token {n}"))
        assert ask("BEGIN") == "[]"
        assert ask("SELECT count(*) FROM entries") == "[(50,)]"
        for n in range(50, 100):
            ledger.end(ledger.claim(entry(f"key {n}", f"token {n}")), State.DONE, "{}")
        assert ask("SELECT count(*) FROM entries") == "[(50,)]"
        assert ask("COMMIT") == "[]"
        assert ask("SELECT count(*), sum(state = 'done') FROM entries") == "[(100, 50)]"
        assert ask("PRAGMA integrity_check") == "[('ok',)]"


def test_among_very_many_entries_both_questions_use_an_index(path):
    made(path)
    columns = "key, digest, tool, version, arguments, caller, call_id, token, state, returned, owner, notes, claimed_at"
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)"
    filler = "printf('k%d', i), 'd', 't', '1', '{}', '{}', 'c', printf('t%d', i), 'done', 1, 7, '', ''"
    sql(path, f"INSERT INTO entries ({columns}) {numbers} SELECT {filler} FROM n")
    ledger, said = SqliteLedger(path), []
    claim = ledger.claim(entry("open", "open"))
    ledger._db.set_trace_callback(said.append)
    assert ledger.recall("k77777").token == "t77777"
    assert [one.key for one in ledger.entries(*UNSETTLED)] == ["open"]
    ledger._db.set_trace_callback(None)
    plans = [ledger._db.execute(f"EXPLAIN QUERY PLAN {one}").fetchall() for one in said]
    assert "USING INDEX by_key" in str(plans[0]) and "USING INDEX unsettled" in str(plans[1]), plans
    ledger.end(claim, State.DONE)
