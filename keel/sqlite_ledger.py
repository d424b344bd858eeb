"""A ledger in one SQLite file: it outlives the process, serves many at once, and any program can read it."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from .ledger import UNSETTLED, Entry, LedgerUnavailable, State, T, after_end, begun, over, working
from .owners import Seat, identity, leave, ours, seat_at
from .questions import SCHEMA as QUESTIONS
from .questions import Questions, SqliteQuestions

APPLICATION_ID = 0x6B65656C  # "keel", so that another program's file is not taken for a ledger
SCHEMA_VERSION = 1

_SCHEMA = f"""
CREATE TABLE entries (
  key TEXT NOT NULL, digest TEXT NOT NULL, tool TEXT NOT NULL, version TEXT NOT NULL, arguments TEXT NOT NULL,
  caller TEXT NOT NULL, call_id TEXT NOT NULL, token TEXT NOT NULL, state TEXT NOT NULL, outcome TEXT,
  returned INTEGER NOT NULL, owner INTEGER NOT NULL, notes TEXT NOT NULL, claimed_at TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX by_key ON entries (key);
CREATE INDEX unsettled ON entries (state) WHERE state IN ('running', 'unknown', 'conflict');
{QUESTIONS};
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""
_FIELDS = "key, digest, tool, version, arguments, caller, call_id, token, state, outcome, returned, owner, notes"
_RECALL = f"SELECT {_FIELDS} FROM entries WHERE key = ?"
# The time is for people and decides nothing: a clock may jump.
_CLAIM = f"""
INSERT INTO entries ({_FIELDS}, claimed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, 0, ?, '', datetime('now'))
ON CONFLICT (key) DO UPDATE SET
  digest = excluded.digest, tool = excluded.tool, version = excluded.version, arguments = excluded.arguments,
  caller = excluded.caller, call_id = excluded.call_id, token = excluded.token, state = excluded.state,
  outcome = NULL, returned = 0, owner = excluded.owner, claimed_at = excluded.claimed_at
WHERE entries.state = 'free'
"""
_END = """
UPDATE entries SET state = ?, outcome = ?, returned = max(returned, ?)
WHERE key = ? AND token = ? AND state IN ('running', 'unknown')
"""
_PUT = "UPDATE entries SET state = ?, outcome = ?, returned = ?, notes = ? WHERE key = ?"
_SETTLE = """
UPDATE entries SET state = ?, outcome = ?, notes = ?
WHERE key = ? AND token = ? AND state = ? AND returned = ? AND notes = ?
"""
_STATES = {state.value: state for state in State}


class SqliteLedger:
    """A ledger in the file at `path`, which is made if it is not there; its folder must be.

    A claim is on the disk before its body runs (`synchronous=EXTRA`, and F_FULLFSYNC on macOS). An
    end is written without waiting for the disk: if the machine loses it, the entry reads as
    unknown, which is the safe side. WAL mode where the file system has it. Beside the file stands
    `<path>-owners`, in which each process holds a lock for as long as it lives: while any runs, it
    must not be removed, no more than the file itself.

    Nothing is opened before the first use. Every method raises LedgerUnavailable if the file
    cannot serve; `patience_s` is how long to wait while another process writes.
    """

    def __init__(self, path: str | os.PathLike[str], *, patience_s: float = 5.0):
        self.path = os.path.realpath(os.fsdecode(path))  # one file, one name: the others stand beside it
        self.patience_s = patience_s
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._seat: Seat | None = None
        self._files: list[tuple[int, int]] = []
        self._wal = self._waits = False
        _ledgers.add(self)

    def close(self) -> None:
        """Let go of the file. The next use opens it again; claims stay as they are."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def recall(self, key: str) -> Entry | None:
        return self._with_db(self._recall, key)

    def claim(self, entry: Entry, also: Callable[[Questions], None] | None = None) -> Entry:
        return self._with_db(self._claim, entry, also)

    def transact(self, do: Callable[[Questions], T], *, lasting: bool = False) -> T:
        return self._with_db(self._transact, do, lasting)

    def end(self, claim: Entry, state: State, outcome: str | None = None, *, returned: bool = True) -> None:
        try:
            self._with_db(self._end, claim, state, outcome, returned)
        finally:
            if returned:
                over(claim.token)

    def settle(self, seen: Entry, state: State, outcome: str | None, note: str) -> bool:
        return self._with_db(self._settle, seen, state, outcome, note)

    def entries(self, *states: State) -> Iterator[Entry]:
        return iter(self._with_db(self._entries, states or tuple(State)))

    def leave(self) -> None:
        """Let all claims of this process in this file read as those of a dead one. For drills and tests."""
        with self._lock:
            self._close()
            if self._seat is not None:
                leave(self._seat)

    def _recall(self, db: sqlite3.Connection, key: str) -> Entry | None:
        row = db.execute(_RECALL, (key,)).fetchone()
        found = row and self._entry(row)
        while found and found.state in UNSETTLED and not found.live:
            # Between the two looks its owner may have ended it and gone: what a dead one wrote last counts.
            row, before = db.execute(_RECALL, (key,)).fetchone(), row
            if row == before:
                break
            found = row and self._entry(row)
        return found

    def _transact(self, db: sqlite3.Connection, do: Callable[[Questions], T], lasting: bool) -> T:
        if lasting:
            self._prepare_to_last(db)
        with _Transaction(db):
            return do(SqliteQuestions(db))

    def _claim(self, db: sqlite3.Connection, entry: Entry, also: Callable[[Questions], None] | None = None) -> Entry:
        self._prepare_to_last(db)
        entry = entry._replace(owner=self._seat.number, live=True)
        kept = (entry.key, entry.digest, entry.tool, entry.version, entry.arguments, entry.caller, entry.call_id)
        begun(entry.token)
        values = (*kept, entry.token, entry.state, entry.owner)
        try:
            if also is None:
                won = db.execute(_CLAIM, values).rowcount
            else:
                with _Transaction(db):
                    won = db.execute(_CLAIM, values).rowcount
                    if won:
                        also(SqliteQuestions(db))
        except BaseException:
            over(entry.token)
            raise
        if won:
            return entry
        over(entry.token)
        found = self._recall(db, entry.key)
        if found is None:
            raise LedgerUnavailable("another program removes entries from it")
        return found

    def _prepare_to_last(self, db: sqlite3.Connection) -> None:
        """See that what is written next can be found by everyone, and is on the disk when it is said to be."""
        if not self._seat.intact or self._identities() != self._files:
            raise LedgerUnavailable("a file of it was removed or replaced while in use; start the program anew")
        if not self._waits:
            db.execute("PRAGMA synchronous = EXTRA")
            self._waits = True

    def _end(self, db: sqlite3.Connection, claim: Entry, state: State, outcome: str | None, returned: bool) -> None:
        if claim.owner != self._seat.number:
            return  # a forked child: the claim is its parent's
        if self._wal:
            self._waits = False
            db.execute("PRAGMA synchronous = NORMAL")
        if not db.execute(_END, (state, outcome, returned, claim.key, claim.token)).rowcount:
            self._end_late(db, claim, state, outcome, returned)

    def _end_late(self, db: sqlite3.Connection, claim: Entry, *end: Any) -> None:
        with _Transaction(db):
            now = self._recall(db, claim.key)
            then = now and after_end(now, claim, *end)
            if then != now:
                db.execute(_PUT, (then.state, then.outcome, then.returned, then.notes, then.key))

    def _settle(self, db: sqlite3.Connection, seen: Entry, state: State, outcome: str | None, note: str) -> bool:
        self._prepare_to_last(db)
        same = (seen.key, seen.token, seen.state, seen.returned, seen.notes)
        return db.execute(_SETTLE, (state, outcome, seen.noted(note), *same)).rowcount == 1

    def _entries(self, db: sqlite3.Connection, states: tuple[State, ...]) -> list[Entry]:
        marks = ", ".join(f"'{State(state)}'" for state in states)  # written out, for the partial index to be used
        return list(map(self._entry, db.execute(f"SELECT {_FIELDS} FROM entries WHERE state IN ({marks})")))

    def _entry(self, row: tuple) -> Entry:
        *same, state, outcome, returned, owner, notes = row
        entry = Entry(*same, _STATES[state], outcome, returned == 1, owner, notes)
        return entry._replace(live=self._lives(entry)) if entry.state in UNSETTLED else entry

    def _lives(self, entry: Entry) -> bool:
        return working(entry.token) if ours(entry.owner) else self._seat.lives(entry.owner)

    def _with_db(self, do: Callable[..., Any], *arguments: Any) -> Any:
        """Do something with the open file, alone. Raises LedgerUnavailable for whatever goes wrong with it."""
        with self._lock:
            try:
                if self._db is None:
                    self._open()
                if self._db.in_transaction:  # an interrupt left it: nothing may be written into it
                    self._db.rollback()
                return do(self._db, *arguments)
            except (sqlite3.Error, OSError, KeyError, UnicodeError) as error:
                raise LedgerUnavailable(_why(error)) from error

    def _open(self) -> None:
        db = sqlite3.connect(self.path, self.patience_s, isolation_level=None, check_same_thread=False)
        try:
            _prepare(db, time.monotonic() + self.patience_s)
            self._wal = db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
            self._seat = seat_at(f"{self.path}-owners")
            self._files = self._identities()
        except BaseException:
            db.close()
            raise
        self._db, self._waits = db, False

    def _identities(self) -> list[tuple[int, int]]:
        try:
            return [identity(self.path + end) for end in ("", "-owners", "-wal")[: 2 + self._wal]]
        except FileNotFoundError:
            return []


_ledgers: weakref.WeakSet[SqliteLedger] = weakref.WeakSet()
_still: list[SqliteLedger] = []


def _before_fork() -> None:
    """Close what is open. SQLite's notes on its locks, inherited, would make a child believe that it holds some."""
    for ledger in list(_ledgers):
        ledger._lock.acquire()
        _still.append(ledger)
        with suppress(sqlite3.Error):
            ledger._close()


def _after_fork() -> None:
    while _still:
        _still.pop()._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


class _Transaction:
    """`with _Transaction(db):` commits, or rolls back if anything is raised."""

    def __init__(self, db: sqlite3.Connection):
        self.db = db

    def __enter__(self) -> None:
        self.db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if kind is None:
                self.db.execute("COMMIT")
        finally:
            if self.db.in_transaction:  # raised, or the commit failed; some errors have rolled back by themselves
                self.db.execute("ROLLBACK")


def _prepare(db: sqlite3.Connection, give_up: float) -> None:
    """Make the tables if the file is new, and choose how it is written."""
    while True:  # several processes may start at once, and changing the mode does not wait for the others
        try:
            known = db.execute("PRAGMA application_id").fetchone()[0]
            if known != APPLICATION_ID:
                _refuse_foreign(db)  # before anything in it is changed
                db.execute("PRAGMA page_size = 1024")  # an entry is small, and a claim waits for whole pages
                db.execute("PRAGMA journal_mode = WAL")
                with _Transaction(db):
                    _make_tables(db)
            break
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                raise
            time.sleep(0.005)
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise LedgerUnavailable(
            f"its file is of version {version}, newer than this program, which knows {SCHEMA_VERSION}"
        )
    db.execute("PRAGMA wal_autocheckpoint = 4000")
    db.execute("PRAGMA fullfsync = 1")  # macOS alone has it: there a plain fsync does not reach the disk


def _refuse_foreign(db: sqlite3.Connection) -> None:
    version = db.execute("PRAGMA user_version").fetchone()[0]
    tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    known = db.execute("PRAGMA application_id").fetchone()[0]  # last: another process may be making the tables
    if known != APPLICATION_ID and (known or version or tables):
        raise LedgerUnavailable("its file is a database, but no ledger")


def _make_tables(db: sqlite3.Connection) -> None:
    _refuse_foreign(db)
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:  # else another process was faster
        for statement in _SCHEMA.split(";"):
            db.execute(statement)


_REASONS = {
    "SQLITE_BUSY": "its file is locked by another program; try again",
    "SQLITE_LOCKED": "its file is locked; try again",
    "SQLITE_FULL": "the disk is full",
    "SQLITE_READONLY": "its file or folder cannot be written",
    "SQLITE_CANTOPEN": "its file cannot be opened or made; is the folder there, and may it be written?",
    "SQLITE_PERM": "its file may not be used",
    "SQLITE_CORRUPT": "its file is damaged; restore it, and settle by hand what was open",
    "SQLITE_NOTADB": "its file is no database",
    "SQLITE_IOERR": "the disk failed",
}


def _why(error: Exception) -> str:
    """What is wrong, without a path: the text may reach a model."""
    name = "_".join((getattr(error, "sqlite_errorname", None) or "").split("_")[:2])
    if isinstance(error, OSError):
        return f"its file cannot be used: {error.strerror or type(error).__name__}"
    return _REASONS.get(name, f"its file cannot be used ({name or type(error).__name__})")
