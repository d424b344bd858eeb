"""Does the process that holds a claim still live? The kernel knows, and no clock and no process id is asked.

Each process picks a number at random and locks the byte of that number in a file beside the ledger.
The kernel drops the lock when the process ends, however it ends, and at every boot. So a byte that
can be locked belongs to nobody who lives. Process ids are given out again, mean nothing in another
container, and clocks jump; a lock has none of these troubles, and works where SQLite's own locks do.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

# Windows' call for this takes a signed 32-bit position.
_BITS = 30 if sys.platform == "win32" else 62


class Seat:
    """This process at one file of owners. The file stays open, for closing it would drop the lock.

    Raises OSError if the lock cannot be had.
    """

    def __init__(self, descriptor: int):
        self.number = int.from_bytes(os.urandom(8), "big") >> (64 - _BITS)
        self.file = identity(descriptor)
        self._descriptor = descriptor
        self._ask = _hold(descriptor, self.number)

    @property
    def intact(self) -> bool:
        """Whether the file is still open here: other code may close what it did not open."""
        try:
            return identity(self._descriptor) == self.file
        except OSError:
            return False

    def lives(self, number: int) -> bool:
        """Whether the process of this number, another one, lives. In doubt it does."""
        if not self.intact:
            return True
        try:
            return not self._ask(self._descriptor, number)
        except OSError:
            return True

    def close(self) -> None:
        """Close the file, if other code has not done so."""
        if self.intact:
            os.close(self._descriptor)


_seats: dict[tuple[int, int], Seat] = {}
_lock = threading.Lock()


def seat_at(path: str) -> Seat:
    """The seat of this process at the file at `path`, under whatever name. A forked child gets its own.

    Raises OSError if the file cannot be opened or locked.
    """
    with _lock:
        with suppress(FileNotFoundError):
            known = _seats.get(identity(path))
            if known is not None:
                return known
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            seat = Seat(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        return _seats.setdefault(seat.file, seat)


def ours(number: int) -> bool:
    """Whether this is a number of this very process, in whatever file."""
    return any(seat.number == number for seat in list(_seats.values()))


def leave(seat: Seat) -> None:
    """Give this seat up, as the process's end would. The process goes on, and gets a new one when it needs it."""
    with _lock:
        _seats.pop(seat.file, None)
        seat.close()


def identity(file: str | int) -> tuple[int, int]:
    """What tells one file from another, by path or descriptor. Raises OSError."""
    found = os.stat(file)
    return found.st_dev, found.st_ino


def _stand_up() -> None:
    """In a forked child: the locks are its parent's, and must not last as long as the child."""
    global _lock
    _lock = threading.Lock()  # the old one may be held by a thread that is not here
    for seat in _seats.values():
        with suppress(OSError):
            seat.close()
    _seats.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_stand_up)


if sys.platform == "win32":
    import msvcrt

    def _hold(descriptor: int, number: int) -> Callable[[int, int], bool]:
        _move(descriptor, number, msvcrt.LK_NBLCK)
        return _free

    def _free(descriptor: int, number: int) -> bool:
        _move(descriptor, number, msvcrt.LK_NBLCK)
        _move(descriptor, number, msvcrt.LK_UNLCK)
        return True

    def _move(descriptor: int, number: int, how: int) -> None:
        with _lock_here:  # the position belongs to all threads
            os.lseek(descriptor, number, os.SEEK_SET)
            msvcrt.locking(descriptor, how, 1)

    _lock_here = threading.Lock()

else:
    import fcntl

    # A lock of the open file, where the system has it: the other kind is lost when any code of this
    # process closes the same file, a copy for a backup for one. Both kinds respect each other.
    _OFD = getattr(fcntl, "F_OFD_SETLK", None) if sys.platform == "linux" and sys.maxsize > 2**32 else None

    def _hold(descriptor: int, number: int) -> Callable[[int, int], bool]:
        """Lock the byte for good. Gives the function that asks whether a byte is free."""
        if _OFD is not None:
            try:
                _set_of_file(descriptor, number, fcntl.F_WRLCK)
                return lambda descriptor, number: _free(_set_of_file, descriptor, number)
            except OSError as error:
                if error.errno != errno.EINVAL:  # a system without this kind
                    raise
        _set_of_process(descriptor, number, fcntl.F_WRLCK)
        return lambda descriptor, number: _free(_set_of_process, descriptor, number)

    def _free(set_: Callable[[int, int, int], None], descriptor: int, number: int) -> bool:
        # Shared, so that two who ask at once do not take each other for the owner.
        set_(descriptor, number, fcntl.F_RDLCK)
        set_(descriptor, number, fcntl.F_UNLCK)
        return True

    def _set_of_file(descriptor: int, number: int, kind: int) -> None:
        fcntl.fcntl(descriptor, _OFD, struct.pack("hhqqi4x", kind, os.SEEK_SET, number, 1, 0))

    def _set_of_process(descriptor: int, number: int, kind: int) -> None:
        how = {fcntl.F_WRLCK: fcntl.LOCK_EX, fcntl.F_RDLCK: fcntl.LOCK_SH, fcntl.F_UNLCK: fcntl.LOCK_UN}[kind]
        fcntl.lockf(descriptor, how | fcntl.LOCK_NB if kind != fcntl.F_UNLCK else how, 1, number)
