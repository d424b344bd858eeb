"""A post at which somebody's own `page_on_call` is used: a world, its pager, a real harness, a person to ask.

The checks of chapter 14 and the attack set both stand here, so that they judge by the same world.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from keel.approval import ApprovalDesk
from keel.contracts import ExecutionContext, Principal, ToolCall, ToolResult
from keel.harness import Harness
from keel.idempotency import MemoryLedger, SqliteLedger
from keel.registry import ToolRegistry

from .gauntlet import code_of
from .pager import Pager
from .standing import break_off
from .world import World, seeded_mint

AddPage = Callable[[ToolRegistry, World, Pager], Any]

TOOL = "page_on_call"
WORDS = "login returns 502"
REWORDED = "nobody can log in since midnight"
_OTHERS = ("incidents:read", "data:read", "tickets:write", "files:read", "files:write")
# Who asks: their teams. The stranger may do everything but wake people.
PEOPLE = {
    "amira": ("identity",),
    "ben": ("identity",),
    "dora": ("payments",),
    "fay": ("finance",),
    "carl": ("catalog",),
    "nora": ("identity", "payments"),
    "stranger": ("identity",),
}
# Where the pager can break, by the words of the checks.
BREAKS = {
    "the request is lost": "pager",
    "the answer is lost": "pager:answer",
    "the request is late": "pager:late",
    "the pager cannot be asked": "pager:look",
}


class Post:
    """One post. `ask` gives the code of the answer, and `heard` keeps all answers whole."""

    def __init__(self, add_page: AddPage, *, on_disk: bool = False):
        self.add_page, self.on_disk = add_page, on_disk
        self.world = World()
        self.pager = Pager(self.world)
        self.heard: list[ToolResult] = []
        self.last: tuple[ToolCall, ExecutionContext]  # what `again` repeats
        self.mint = seeded_mint()
        self.ledger = self._ledger()
        self._dead: list[tuple[SqliteLedger, threading.Thread]] = []
        self._open(ToolRegistry())

    def close(self) -> None:
        """Let go of what stands still here, and of the files."""
        self.world.release()
        for ledger, thread in self._dead:
            thread.join(5)
            ledger.leave()
        if self.on_disk:
            self.ledger.leave()

    def _ledger(self) -> MemoryLedger | SqliteLedger:
        return SqliteLedger(self.world.folder / "ledger.db") if self.on_disk else MemoryLedger()

    def _open(self, registry: ToolRegistry) -> None:
        self.add_page(registry, self.world, self.pager)
        self.desk = ApprovalDesk(self.ledger)
        self.harness = Harness(registry, ledger=self.ledger, approvals=self.desk, mint=self.mint)

    def deploy(self) -> None:
        """The same post with the next version of the tool."""
        self._open(_NextVersion())

    def die(self) -> None:
        """Go on in another process, on the same files: this one is dead."""
        self.ledger.leave()
        self.ledger = self._ledger()
        self._open(ToolRegistry())

    def call(self, incident_id: Any, message: str = WORDS, **more: Any) -> ToolCall:
        """A call under an id of its own."""
        arguments = {"incident_id": incident_id, "message": message, **more}
        return ToolCall(call_id=self.mint(), name=TOOL, arguments=arguments)

    def ask(self, incident_id: Any, message: str = WORDS, who: str = "amira", run: str = "run-1", **more: Any) -> str:
        """Let somebody's model ask for a page: a new call, whatever was asked for before."""
        self.last = self.call(incident_id, message, **more), context_of(who, run)
        return self.again()

    def ask_long(self, characters: int) -> str:
        """Ask with a message of so many characters. Whether a contract or a rule refuses it is all the same."""
        code = self.ask("INC-001", "x" * characters)
        return "refused" if code in ("invalid_arguments", "rule_violated") else code

    def again(self) -> str:
        """The last call once more, under the same id: as a host does when a person has answered."""
        self.heard.append(self.harness.execute(*self.last))
        return code_of(self.heard[-1])

    def yes(self) -> int:
        """Agree to all that waits. Gives how many there were."""
        waiting = self.desk.pending()
        for one in waiting:
            self.desk.approve(one.id, _person(one.permission))
        return len(waiting)

    def no(self) -> int:
        """Deny all that waits."""
        waiting = self.desk.pending()
        for one in waiting:
            self.desk.deny(one.id, _person(one.permission))
        return len(waiting)

    def page(self, *asked: Any, **more: Any) -> str:
        """Ask, agree to whatever waits then, and let the same call go on."""
        self.ask(*asked, **more)
        self.yes()
        return self.again()

    def breaks(self, how: str) -> None:
        """From here on the pager breaks in this way."""
        self.world.faults[BREAKS[how]] = break_off

    def works(self) -> None:
        """From here on it works, and what is on its way stays there."""
        self.world.faults.clear()

    def reconcile(self) -> list[str]:
        """Ask the world. Gives how each entry stands that was looked at."""
        return [str(one.after) for one in self.harness.reconcile()]

    def arrive(self) -> None:
        """What was on its way arrives."""
        self.pager.arrive()

    def at_once(self, calls: list[ToolCall], context: ExecutionContext) -> None:
        """Execute these calls in as many threads, all at once."""
        together = threading.Barrier(len(calls))

        def execute(call: ToolCall) -> None:
            together.wait()
            self.heard.append(self.harness.execute(call, context))

        threads = [threading.Thread(target=execute, args=(one,), daemon=True) for one in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def stand_still(self, incident_id: str) -> bool:
        """Ask for a page in a process that stops where the page is out and nobody knows. Whether it came to that."""

        def execute() -> None:
            with suppress(BaseException):  # that process will be dead: nobody hears what comes of it
                self.harness.execute(*self.last)
            self.world.stopped.set()  # at the latest

        self.ask(incident_id)
        self.yes()
        self.world.faults["pager:answer"] = lambda arguments: self.world.stop()
        thread = threading.Thread(target=execute, daemon=True)
        self._dead.append((self.ledger, thread))
        thread.start()
        self.world.stopped.wait(30)
        self.works()
        return bool(self.pager.sent)

    @property
    def pages(self) -> list[str]:
        """The incidents that somebody was woken for."""
        return [page.incident_id for page in self.pager.sent]


def context_of(who: str, run: str = "run-1") -> ExecutionContext:
    """Somebody in a run of theirs."""
    permissions = _OTHERS if who == "stranger" else (*_OTHERS, "pages:send")
    return ExecutionContext(principal=Principal(id=who, permissions=permissions, teams=PEOPLE[who]), run_id=run)


def _person(permission: str) -> Principal:
    return Principal(id="carla", permissions=[permission])


class _NextVersion(ToolRegistry):
    """A registry for whose tools a new version has come out."""

    def _add(self, *, version: str = "1.0", **options: Any) -> None:
        super()._add(version=f"{version}-next", **options)
