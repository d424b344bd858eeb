"""Does the process that holds a claim still live? The kernel knows, and no clock and no process id is asked.

Each process picks a number at random and locks the byte of that number in a file beside the ledger.
The kernel drops the lock when the process ends, however it ends, and at every boot. So a byte that
can be locked belongs to nobody who lives. Process ids are given out again, mean nothing in another
container, and clocks jump; a lock has none of these troubles, and works where SQLite's own locks do.
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
from dataclasses import dataclass

# Windows' call for this takes a signed 32-bit position.
_BITS = 30 if sys.platform == "win32" else 62


@dataclass(frozen=True)
class _Seat:
    """This process at one file: the open file is never closed, for closing it would drop the lock."""

    process: int
    descriptor: int
    number: int


_seats: dict[str, _Seat] = {}
_lock = threading.Lock()


def this_owner(path: str) -> int:
    """The number under which this process holds claims in the file at `path`. A forked child gets its own.

    Raises OSError if the file cannot be opened or locked.
    """
    return _seat(path).number


def lives(path: str, number: int) -> bool:
    """Whether the process of this number lives. Raises OSError if the file cannot be opened."""
    seat = _seat(path)
    if number == seat.number:
        return True  # asking would give our own lock away
    try:
        _hold(seat.descriptor, number, shared=True)
    except OSError:
        return True
    _let_go(seat.descriptor, number)
    return False


def leave(path: str) -> None:
    """Give this process's number up, as its end would: whatever it holds there reads as abandoned.

    For drills and tests. The process itself goes on, and gets a new number when it next needs one.
    """
    with _lock:
        seat = _seats.pop(path, None)
    if seat is not None:
        os.close(seat.descriptor)


def _seat(path: str) -> _Seat:
    global _lock
    seat = _seats.get(path)
    if seat is not None and seat.process == os.getpid():
        return seat
    if seat is not None:
        _lock = threading.Lock()  # a forked child: the old lock may be held by a thread that is not here
    with _lock:
        seat = _seats.get(path)
        if seat is None or seat.process != os.getpid():
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                number = secrets.randbits(_BITS)
                _hold(descriptor, number, shared=False)
            except OSError:
                os.close(descriptor)
                raise
            seat = _seats[path] = _Seat(os.getpid(), descriptor, number)
        return seat


if sys.platform == "win32":
    import msvcrt

    def _hold(descriptor: int, number: int, *, shared: bool) -> None:
        os.lseek(descriptor, number, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _let_go(descriptor: int, number: int) -> None:
        os.lseek(descriptor, number, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _hold(descriptor: int, number: int, *, shared: bool) -> None:
        # Shared for those who only ask, so that two who ask at once do not take each other for the owner.
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.lockf(descriptor, kind | fcntl.LOCK_NB, 1, number)

    def _let_go(descriptor: int, number: int) -> None:
        fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, number)
