"""What the harness remembers of a write: its entry, the states it goes through, and who may change it.

A *claim* is written before the body runs and its *end* after. Whatever happens in between, a crash
too, leaves an entry that says how much is known. `Ledger` is the whole of what a store must do.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar

from .questions import MemoryQuestions, Questions

T = TypeVar("T")


class State(StrEnum):
    """How much is known of a write.

    RUNNING   claimed, and nothing heard since: while its owner lives it may still be running
    DONE      it happened, and the outcome is kept
    FAILED    it did not happen and will not: the tool's own refusal is kept
    FREE      it did not happen, and the key may be claimed anew
    UNKNOWN   it may have happened or not
    CONFLICT  settled one way, and then the body said the other: a person has to look
    """

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    FREE = "free"
    UNKNOWN = "unknown"
    CONFLICT = "conflict"


OPEN = (State.RUNNING, State.UNKNOWN)  # the body's own end still counts
UNSETTLED = (*OPEN, State.CONFLICT)  # there is something left to find out


class Entry(NamedTuple):
    """One write, as a ledger keeps it.

    `arguments` (JSON, as sent), `caller` (JSON: who, in which run) and `call_id` are there for
    people and for asking the world later. `token` is new for each claim. `outcome` is JSON with
    `data` or `error`. `returned` says that the body is over; `live`, filled in whenever an entry is
    read, that its owner may still be at work. `notes` are lines for people.
    """

    key: str
    digest: str
    tool: str
    version: str
    arguments: str
    caller: str
    call_id: str
    token: str
    state: State = State.RUNNING
    outcome: str | None = None
    returned: bool = False
    owner: int = 0
    notes: str = ""
    live: bool = False

    def noted(self, line: str) -> str:
        """The notes with one more line."""
        return f"{self.notes}{line}\n"


class LedgerUnavailable(Exception):
    """Raised by a ledger that cannot serve: its text says what is wrong and what would do. Nothing was written."""


class Ledger(Protocol):
    """A store of entries. Every method is atomic, for threads and, if it says so, for processes."""

    def recall(self, key: str) -> Entry | None:
        """The entry of this key, or None."""

    def claim(self, entry: Entry, also: Callable[[Questions], None] | None = None) -> Entry:
        """Put the entry in if its key is new or FREE, durably, before this returns.

        Gives the entry as it now stands: the claim was won if its token is the given one. If it
        was, `also` has run in the same transaction; what it raises undoes the claim.
        """

    def transact(self, do: Callable[[Questions], T], *, lasting: bool = False) -> T:
        """Do something with the questions that are kept here, in one transaction; `lasting`: on the disk after it."""

    def end(self, claim: Entry, state: State, outcome: str | None = None, *, returned: bool = True) -> None:
        """What the body came to, by `after_end`. Only the process that claimed may say so."""

    def settle(self, seen: Entry, state: State, outcome: str | None, note: str) -> bool:
        """Settle from outside, with a note. False if the entry is no longer the one that was seen."""

    def entries(self, *states: State) -> Iterator[Entry]:
        """The entries in one of these states, or all; in no promised order."""


def after_end(now: Entry, claim: Entry, state: State, outcome: str | None, returned: bool) -> Entry:
    """What an entry becomes when the body of `claim` came to `state`.

    While it is open, the body's word counts. If it has been settled meanwhile, the same verdict
    changes nothing, and the other one makes a CONFLICT: that keeps both for a person.
    """
    own = now.token == claim.token
    if own and now.state in OPEN:
        return now._replace(state=state, outcome=outcome, returned=returned or now.returned)
    now = now._replace(returned=returned or now.returned) if own else now
    if state is State.UNKNOWN or (not own and state is not State.DONE):
        return now  # nothing learned, or: that other attempt had no effect
    if own and now.state is not State.CONFLICT and (state is State.DONE) == (now.state is State.DONE):
        return now
    said = f"call {claim.call_id} ended late as {state}: {outcome or 'no outcome'}"
    return now._replace(state=State.CONFLICT, notes=now.noted(said))


_working: set[str] = set()  # tokens of this process whose body may still be running
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_working.clear)


def begun(token: str) -> None:
    """Note that the body of this claim may run now, in this process."""
    _working.add(token)


def over(token: str) -> None:
    """Note that the body of this claim is over, or never began."""
    _working.discard(token)


def working(token: str) -> bool:
    """Whether the body of this claim may still be running in this process."""
    return token in _working


class MemoryLedger:
    """A ledger that lives and dies with its process. For tests and for learning: a crash loses all of it."""

    def __init__(self):
        self._entries: dict[str, Entry] = {}
        self._questions = MemoryQuestions()
        self._lock = threading.Lock()

    def recall(self, key: str) -> Entry | None:
        with self._lock:  # or its body could end between the look at the entry and the one at the body
            entry = self._entries.get(key)
            return None if entry is None else self._seen(entry)

    def claim(self, entry: Entry, also: Callable[[Questions], None] | None = None) -> Entry:
        with self._lock:
            now = self._entries.get(entry.key)
            if now is not None and now.state is not State.FREE:
                return self._seen(now)
            if also is not None:
                also(self._questions)
            begun(entry.token)
            self._entries[entry.key] = entry._replace(owner=os.getpid(), notes=now.notes if now else "")
            return self._seen(self._entries[entry.key])

    def transact(self, do: Callable[[Questions], T], *, lasting: bool = False) -> T:
        with self._lock:
            return do(self._questions)

    def end(self, claim: Entry, state: State, outcome: str | None = None, *, returned: bool = True) -> None:
        if claim.owner != os.getpid():
            return  # a forked child: the claim is its parent's
        with self._lock:
            now = self._entries.get(claim.key)
            if now is not None:
                self._entries[claim.key] = after_end(now, claim, state, outcome, returned)
        if returned:
            over(claim.token)

    def settle(self, seen: Entry, state: State, outcome: str | None, note: str) -> bool:
        with self._lock:
            now = self._entries.get(seen.key)
            if now is None or self._seen(now) != seen:
                return False
            self._entries[seen.key] = now._replace(state=state, outcome=outcome, notes=now.noted(note))
            return True

    def entries(self, *states: State) -> Iterator[Entry]:
        with self._lock:
            return iter([self._seen(one) for one in self._entries.values() if not states or one.state in states])

    @staticmethod
    def _seen(entry: Entry) -> Entry:
        live = entry.state in UNSETTLED and entry.owner == os.getpid() and working(entry.token)
        return entry._replace(live=live)
