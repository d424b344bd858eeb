"""Once: a person's yes is used up by the one call that it was for, whoever comes with it and whatever is killed."""

import os
import signal
import threading

import pytest

from keel import ApprovalDesk, Harness, Principal, ToolCall, ToolFailure, ToolRegistry
from keel.idempotency import LedgerUnavailable, MemoryLedger, SqliteLedger, State

from .kit import AMIRA
from .test_approval import FileOffice, Office
from .test_workers import only, raising

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork and no SIGKILL")


def looking_together(kind):
    """A ledger on which two threads must both have looked at the desk before either claims."""

    class Together(kind):
        meeting = threading.Barrier(2, timeout=10)

        def claim(self, entry, also=None):
            self.meeting.wait()
            return super().claim(entry, also)

    return Together


@pytest.mark.parametrize("kind", [MemoryLedger, SqliteLedger], ids=["memory", "sqlite"])
@pytest.mark.parametrize("frees", [False, True], ids=["settles", "frees its key"])
def test_two_threads_redeem_one_approval_once(kind, frees, tmp_path):
    """Where the first leaves the key free, the second still has no approval of its own."""
    together = looking_together(kind)(*([tmp_path / "ledger.db"] if kind is SqliteLedger else []))
    closed = raising(ToolFailure("closed", "-", retryable=True))
    office = Office(together, closed if frees else None, errors=["closed"])
    office.ask(n=1)
    office.approve()
    heard = []
    threads = [threading.Thread(target=lambda: heard.append(office.ask(n=1))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first = "closed" if frees else "ok"
    assert sorted(heard) in (sorted([first, second]) for second in ("in_progress", "approval_required"))
    assert office.effects == [1] and office.standings() == ["used"]


def in_child(do):
    """Run it in a process of its own, which ends with it. Gives the process id."""
    child = os.fork()
    if not child:
        try:
            do()
        finally:
            os._exit(1)
    return child


@forks
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_two_processes_redeem_one_approval_once(tmp_path):
    for turn in range(8):
        folder = tmp_path / str(turn)
        folder.mkdir()
        office = FileOffice(folder)
        office.ask(n=1)
        office.approve()
        reading, writing = os.pipe()

        def redeem(folder=folder, reading=reading, writing=writing):
            os.close(writing)
            mine = FileOffice(folder)
            os.read(reading, 1)  # until the parent closes it, for both at once
            os._exit(0 if mine.ask(n=1) in ("ok", "in_progress") else 2)

        children = [in_child(redeem) for _ in range(2)]
        os.close(reading)
        os.close(writing)
        assert [os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in children] == [0, 0]
        assert office.done() == 1 and office.standings() == ["used"] and office.ask(n=1) == "ok"


def die():
    os.kill(os.getpid(), signal.SIGKILL)


class KilledAfterClaim(SqliteLedger):
    def claim(self, entry, also=None):
        super().claim(entry, also)
        die()


class KilledBeforeCommit(SqliteLedger):
    def claim(self, entry, also=None):
        def use_and_die(questions):
            also(questions)
            die()

        return super().claim(entry, use_and_die)


def killed(folder, kind):
    office = FileOffice(folder)
    office.ask(n=1)
    office.approve()
    child = in_child(lambda: FileOffice(folder, kind).ask(n=1))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    return office


@forks
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_killed_between_the_claim_and_the_effect_nobody_knows_and_the_approval_is_used(tmp_path):
    office = killed(tmp_path, KilledAfterClaim)
    assert [office.ask(n=1) for _ in range(2)] == ["outcome_unknown"] * 2
    assert office.standings() == ["used"] and office.done() == 0


@forks
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_killed_before_the_claim_is_kept_the_approval_is_still_there(tmp_path):
    office = killed(tmp_path, KilledBeforeCommit)
    assert office.standings() == ["approved"] and office.done() == 0 and not list(office.ledger.entries())
    assert office.ask(n=1) == "ok" and office.done() == 1


def test_one_that_looked_before_another_used_it_up_has_nothing_left(ledger):
    """The other one ran between this one's look at the desk and its claim, and left the key free."""
    office = Office(ledger, raising(ToolFailure("closed", "-", retryable=True)), errors=["closed"])
    office.ask(n=1)
    office.approve()
    claim, faster = ledger.claim, [lambda: office.ask(n=1)]

    def late_claim(entry, also=None):
        if faster:
            assert faster.pop()() == "closed"
        return claim(entry, also)

    ledger.claim = late_claim
    assert office.ask(n=1) == "approval_required"
    assert office.effects == [1] and office.standings() == ["used"] and only(ledger).state is State.FREE


def test_a_claim_that_fails_uses_nothing_up(ledger):
    office = Office(ledger)
    office.ask(n=1)
    office.approve()
    claim = ledger.claim

    def broken_claim(entry, also=None):
        raise LedgerUnavailable("the disk is full")

    ledger.claim = broken_claim
    assert office.ask(n=1) == "unavailable" and office.standings() == ["approved"]
    ledger.claim = claim
    assert office.ask(n=1) == "ok" and office.effects == [1]


def test_after_a_refusal_for_now_the_next_try_asks_again(ledger):
    ends = iter([raising(ToolFailure("closed", "-", retryable=True)), lambda: 7])
    office = Office(ledger, lambda: next(ends)(), errors=["closed"])
    office.ask(n=1)
    office.approve()
    assert office.ask(n=1) == "closed" and only(ledger).state is State.FREE
    assert office.ask(n=1) == "approval_required" and office.effects == [1]
    office.approve()
    assert [office.ask(n=1) for _ in range(2)] == ["ok"] * 2 and office.effects == [1, 1]
    assert office.standings() == ["used", "used"]


def test_a_rule_that_changes_what_a_person_agreed_to_runs_nothing():
    made = []

    def more(values, context):
        values["n"] = 99

    def pay(n: int) -> None:
        made.append(n)

    registry, ledger = ToolRegistry(), MemoryLedger()
    registry.tool(pay, permission="desk:write", rules=[more])
    desk = ApprovalDesk(ledger)
    harness, call = (
        Harness(registry, ledger=ledger, approvals=desk),
        ToolCall(call_id="c-1", name="pay", arguments={"n": 1}),
    )
    assert harness.execute(call, AMIRA).error.code == "approval_required"
    desk.approve(desk.pending()[0].id, Principal(id="carla", permissions=["approvals:decide"]))
    assert harness.execute(call, AMIRA).error.code == "internal_error"
    assert made == []


def test_a_read_that_needs_a_yes_runs_once_for_each():
    seen = []

    def peek(n: int) -> int:
        seen.append(n)
        return n

    registry, ledger = ToolRegistry(), MemoryLedger()
    registry.tool(peek, read_only=True, needs_approval=True)
    desk = ApprovalDesk(ledger)
    harness = Harness(registry, ledger=ledger, approvals=desk)
    call = ToolCall(call_id="c-1", name="peek", arguments={"n": 1})
    assert harness.execute(call, AMIRA).error.code == "approval_required"
    desk.approve(desk.pending()[0].id, Principal(id="carla", permissions=["approvals:decide"]))
    assert harness.execute(call, AMIRA).data == 1
    assert harness.execute(call, AMIRA).error.code == "approval_required"
    assert seen == [1] and not list(ledger.entries())
