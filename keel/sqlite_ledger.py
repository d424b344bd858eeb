"""A ledger in one SQLite file: it outlives the process, serves many at once, and any program can read it."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from . import owners
from .ledger import UNSETTLED, Entry, LedgerUnavailable, State, after_end, begun, over, working

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

    A claim is on the disk before its body runs (`synchronous=FULL`, and F_FULLFSYNC on macOS). An
    end is written without waiting for the disk: if the machine loses it, the entry reads as
    unknown, which is the safe side. WAL mode where the file system has it. Beside the file stands
    `<path>-owners`, in which each process holds a lock for as long as it lives.

    Nothing is opened before the first use. Every method raises LedgerUnavailable if the file
    cannot serve; `patience_s` is how long to wait while another process writes.
    """

    def __init__(self, path: str | os.PathLike[str], *, patience_s: float = 5.0):
        self.path = os.path.abspath(path)
        self.patience_s = patience_s
        self._owners = f"{self.path}-owners"
        self._start_anew()

    def _start_anew(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._wal = False

    def recall(self, key: str) -> Entry | None:
        return self._with_db(self._recall, key)

    def claim(self, entry: Entry) -> Entry:
        return self._with_db(self._claim, entry)

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
        """Let all claims of this process in this file read as those of a dead one: see `keel.owners.leave`."""
        owners.leave(self._owners)

    def _recall(self, db: sqlite3.Connection, key: str) -> Entry | None:
        row = db.execute(_RECALL, (key,)).fetchone()
        return None if row is None else self._entry(row)

    def _claim(self, db: sqlite3.Connection, entry: Entry) -> Entry:
        if _identity(self.path) != self._file:
            raise LedgerUnavailable("its file was removed or replaced while in use; start the program anew")
        entry = entry._replace(owner=owners.this_owner(self._owners), live=True)
        kept = (entry.key, entry.digest, entry.tool, entry.version, entry.arguments, entry.caller, entry.call_id)
        begun(entry.token)
        try:
            won = db.execute(_CLAIM, (*kept, entry.token, entry.state, entry.owner)).rowcount
        except BaseException:
            over(entry.token)
            raise
        if won:
            return entry
        over(entry.token)
        return self._recall(db, entry.key) or entry

    def _end(self, db: sqlite3.Connection, claim: Entry, state: State, outcome: str | None, returned: bool) -> None:
        if claim.owner != owners.this_owner(self._owners):
            return  # a forked child: the claim is its parent's
        if self._wal:
            db.execute("PRAGMA synchronous = NORMAL")
        try:
            if not db.execute(_END, (state, outcome, returned, claim.key, claim.token)).rowcount:
                self._end_late(db, claim, state, outcome, returned)
        finally:
            if self._wal:
                db.execute("PRAGMA synchronous = FULL")

    def _end_late(self, db: sqlite3.Connection, claim: Entry, *end: Any) -> None:
        with _Transaction(db):
            now = self._recall(db, claim.key)
            then = now and after_end(now, claim, *end)
            if then != now:
                db.execute(_PUT, (then.state, then.outcome, then.returned, then.notes, then.key))

    def _settle(self, db: sqlite3.Connection, seen: Entry, state: State, outcome: str | None, note: str) -> bool:
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
        if entry.owner == owners.this_owner(self._owners):
            return working(entry.token)
        return owners.lives(self._owners, entry.owner)

    def _with_db(self, do: Callable[..., Any], *arguments: Any) -> Any:
        """Do something with the open file, alone. Raises LedgerUnavailable for whatever goes wrong with it."""
        if self._process != os.getpid():
            # Closed in a forked child, a connection would meddle with its parent's files: it is only left alone.
            _left_alone.append(self._db)
            self._start_anew()
        with self._lock:
            try:
                if self._db is None:
                    self._open()
                return do(self._db, *arguments)
            except (sqlite3.Error, OSError, KeyError) as error:
                raise LedgerUnavailable(_why(error)) from error

    def _open(self) -> None:
        db = sqlite3.connect(self.path, self.patience_s, isolation_level=None, check_same_thread=False)
        try:
            _prepare(db, time.monotonic() + self.patience_s)
            self._wal = db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
            owners.this_owner(self._owners)
        except BaseException:
            db.close()
            raise
        self._db, self._file = db, _identity(self.path)


_left_alone: list[Any] = []


class _Transaction:
    """`with _Transaction(db):` commits, or rolls back if anything is raised."""

    def __init__(self, db: sqlite3.Connection):
        self.db = db

    def __enter__(self) -> None:
        self.db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.db.execute("COMMIT" if kind is None else "ROLLBACK")


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


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
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA fullfsync = 1")  # macOS alone has it: there a plain fsync does not reach the disk


def _refuse_foreign(db: sqlite3.Connection) -> None:
    ours = db.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
    if not ours and db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
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
        return f"its file cannot be used: {error.strerror}"
    return _REASONS.get(name, f"its file cannot be used ({name or type(error).__name__})")
