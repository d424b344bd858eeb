"""Bodies that stand still until somebody lets them go, and ledgers that tell when such a body has ended.

Nothing here waits for a time to pass: whoever must know that something has come about waits for just that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from keel.contracts import ToolResult
from keel.ledger import MemoryLedger
from keel.sqlite_ledger import SqliteLedger

_BROKEN_S = 30.0  # longer than anything here takes: a kernel must not stand still with a body that is lost


def break_off(arguments: dict[str, Any]) -> None:
    """What a body does whose connection breaks."""
    raise ConnectionResetError("connection reset by peer")


class _Telling:
    """A ledger that tells when an end was written."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.told = threading.Event()

    def end(self, *arguments: Any, **more: Any) -> None:
        try:
            super().end(*arguments, **more)
        finally:
            self.told.set()


class TellingMemory(_Telling, MemoryLedger):
    """A MemoryLedger that tells."""


class TellingFile(_Telling, SqliteLedger):
    """A SqliteLedger that tells."""


class StandingBody:
    """A body that stands still until it is let go. One whose process is dead then ends, and does nothing more."""

    def __init__(self, ledger: TellingMemory | TellingFile):
        self.ledger = ledger
        self.dead = False
        self.result: ToolResult | None = None  # of a call that was sent aside
        self._stands, self._go = threading.Event(), threading.Event()
        self._answered: threading.Event | None = None

    @property
    def let_go(self) -> bool:
        """Whether it went on, to its own end or to that of its process."""
        return self._go.is_set()

    def stand(self, arguments: dict[str, Any]) -> None:
        """What the world has it do."""
        self._stands.set()
        self._go.wait()
        if self.dead:
            raise SystemExit

    def send_aside(self, send: Callable[[], ToolResult]) -> None:
        """Send the call as another process would, and come back when its body stands still."""
        self._answered = threading.Event()

        def wait() -> None:
            try:
                self.result = send()
            finally:
                self._answered.set()
                self._stands.set()  # in case that it never came to its body

        threading.Thread(target=wait, name="keel-drill", daemon=True).start()
        self._stands.wait(_BROKEN_S)

    def go(self) -> None:
        """Let it go on, and come back when its ledger has been told."""
        self.ledger.told.clear()
        self._go.set()
        (self._answered or self.ledger.told).wait(_BROKEN_S)
