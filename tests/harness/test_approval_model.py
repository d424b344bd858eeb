"""Whatever happens in whatever order: no effect without a matching, unexpired, unused yes, and no yes that is lost."""

import json
import os
import random
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from keel import ExecutionContext, Harness, MemoryLedger, Principal, SqliteLedger, ToolFailure
from keel.approval import ApprovalDesk

from .kit import call, code, registry_of
from .test_approval import Clock
from .test_approval_once import forks

TTL, STANDS, MOST = 10.0, 20.0, 3
OLGA = Principal(id="olga", permissions=["approvals:decide"])
ASKERS = {one: Principal(id=one, permissions=["desk:write", "approvals:decide"]) for one in ("amira", "bo")}
FOUR_EYES = {"1": False, "2": True}  # by the tool's version


class Asked(NamedTuple):
    """One call, by all that an approval is bound to. `amount` None: left to its default, which is 1."""

    who: str
    key: str
    amount: int
    version: str


@dataclass
class Known:
    """What must be true of one question."""

    id: str
    asked: Asked
    expires_at: float
    standing: str = "pending"
    decided_at: float = 0.0

    def at(self, now: float) -> str:
        return "expired" if self.standing in ("pending", "approved") and now >= self.expires_at else self.standing

    def stands(self, now: float) -> bool:
        since = {"denied": self.decided_at, "expired": self.expires_at}.get(self.at(now))
        return self.at(now) != "used" and (since is None or now < since + STANDS)


def tool_registry(version, body):
    def write(context: ExecutionContext, key: str, amount: int = 1) -> None:
        body(Asked(context.principal.id, key, amount, version))

    return registry_of(
        write,
        read_only=False,
        permission="desk:write",
        version=version,
        four_eyes=FOUR_EYES[version],
        errors=["sold_out"],
        idempotency_key=lambda values, context: values["key"],
        timeout_s=None,
    )


ANY = {
    "who": st.sampled_from(list(ASKERS)),
    "key": st.sampled_from(["a", "b"]),
    "amount": st.sampled_from([1, 1, 2, None]),
    "version": st.sampled_from(["1", "1", "2"]),
    "which": st.sampled_from([0, 1]),
}


class Approved(RuleBasedStateMachine):
    """Two desks on one ledger, two versions of one tool, two who ask, and the model beside them."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.clock, self.known, self.done = Clock(), [], {}
        self.effects: list[Asked] = []
        self.sold_out = False
        self.shared = MemoryLedger()
        self.desks, self.harnesses = [None] * 2, {}
        for which in (0, 1):
            self.start(which)

    def start(self, which):
        ledger = self.ledger()
        desk = ApprovalDesk(ledger, ttl_s=TTL, stands_s=STANDS, max_pending=MOST, clock=self.clock)
        self.desks[which] = desk
        for version in FOUR_EYES:
            registry = tool_registry(version, self.body)
            self.harnesses[which, version] = Harness(registry, ledger=ledger, approvals=desk)

    def body(self, asked):
        self.effects.append(asked)
        if self.sold_out:
            raise ToolFailure("sold_out", "There are none left.", retryable=True)

    def latest(self, asked) -> Known | None:
        return next((one for one in reversed(self.known) if one.asked == asked), None)

    def waiting(self) -> list[Known]:
        return [one for one in self.known if one.at(self.clock.now) == "pending"]

    @rule(**ANY, frees=st.booleans())
    def call(self, who, key, amount, version, which, frees):
        now, asked = self.clock.now, Asked(who, key, amount or 1, version)
        found, settled = self.latest(asked), self.done.get((who, key))
        self.sold_out, before = frees, len(self.effects)
        arguments = {"key": key} | ({} if amount is None else {"amount": amount})
        context = ExecutionContext(principal=ASKERS[who])
        said = code(self.harnesses[which, version].execute(call(arguments), context))
        ran = self.effects[before:]
        if settled is not None:
            assert (said, ran) == ("ok" if settled == asked.amount else "idempotency_conflict", [])
        elif found is None or not found.stands(now):
            assert ran == []
            self.check_asked(said, asked)
        elif found.at(now) == "approved":
            assert (said, ran) == ("sold_out" if frees else "ok", [asked])
            found.standing = "used"
            if not frees:
                self.done[who, key] = asked.amount
        else:
            assert (said, ran) == ("approval_required" if found.at(now) == "pending" else "approval_denied", [])

    def check_asked(self, said, asked):
        if len(self.waiting()) >= MOST:
            assert said == "unavailable"
            return
        assert said == "approval_required"
        for one in self.known:
            if one.standing == "pending":
                one.standing = one.at(self.clock.now)  # a new question writes down which have expired
        new = {one.id for one in self.desks[0].pending()} - {one.id for one in self.known}
        self.known.append(Known(new.pop(), asked, self.clock.now + TTL))
        assert not new

    @precondition(lambda self: self.known)
    @rule(
        at=st.integers(0, 9),
        by=st.sampled_from([OLGA, OLGA, *ASKERS.values(), Principal(id="olga")]),
        yes=st.sampled_from([True, True, False]),
        which=ANY["which"],
    )
    def decide(self, at, by, yes, which):
        one, now = self.known[-1 - at % len(self.known)], self.clock.now
        decide = self.desks[which].approve if yes else self.desks[which].deny
        if not by.permissions or (FOUR_EYES[one.asked.version] and by.id == one.asked.who):
            with pytest.raises(PermissionError):
                decide(one.id, by)
        elif one.at(now) != "pending" and (yes or one.at(now) != "approved"):
            with pytest.raises(ValueError):
                decide(one.id, by)
        else:
            decide(one.id, by)
            one.standing, one.decided_at = "approved" if yes else "denied", now

    @rule(by=st.sampled_from([0.5, TTL - 0.5, TTL, STANDS, -0.5, -TTL, -STANDS]))
    def step_the_clock(self, by):
        self.clock.now += by

    @rule(which=ANY["which"])
    def expire(self, which):
        over = [one for one in self.known if one.standing != one.at(self.clock.now)]
        assert self.desks[which].expire() == len(over)
        for one in over:
            one.standing = "expired"

    @rule(which=ANY["which"])
    def restart(self, which):
        getattr(self.desks[which].ledger, "close", lambda: None)()
        self.start(which)

    @invariant()
    def every_effect_has_a_used_yes_of_its_own(self):
        used = Counter(one.asked for one in self.known if one.standing == "used")
        assert Counter(self.effects) == used

    @invariant()
    def the_desks_are_as_the_model_says(self):
        for desk in self.desks:
            assert [(one.id, one.standing) for one in desk.history()] == [
                (one.id, one.at(self.clock.now)) for one in self.known
            ]
            assert [one.id for one in desk.pending()] == [one.id for one in self.waiting()]

    def teardown(self):
        for desk in self.desks:
            getattr(desk.ledger, "close", lambda: None)()
        self.folder.cleanup()


class ApprovedInMemory(Approved):
    def ledger(self):
        return self.shared


class ApprovedInAFile(Approved):
    def ledger(self):
        return SqliteLedger(Path(self.folder.name) / "ledger.db")


@pytest.mark.parametrize(("machine", "examples"), [(ApprovedInMemory, 150), (ApprovedInAFile, 40)])
def test_the_desk_is_as_its_model(machine, examples):
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=30))


# Two processes on one desk

TURNS = 200


class Worker:
    """Asks, decides and steps a clock of its own, in any order; also between a look at the desk and the claim."""

    def __init__(self, folder, seed):
        self.folder, self.chance, self.clock = folder, random.Random(seed), Clock()
        ledger = SqliteLedger(folder / "ledger.db")
        claim = ledger.claim

        def late_claim(entry, also=None):
            if self.chance.random() < 0.5:
                self.turn()
            return claim(entry, also)

        ledger.claim = late_claim
        self.desk = ApprovalDesk(ledger, ttl_s=TTL, stands_s=1.0, clock=self.clock)
        self.harnesses = [
            Harness(tool_registry(version, self.body), ledger=ledger, approvals=self.desk) for version in FOUR_EYES
        ]

    def body(self, asked):
        file = os.open(self.folder / "effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{' '.join(map(str, asked))}\n".encode())
        os.close(file)
        raise ToolFailure("sold_out", "There are none left.", retryable=True)  # so that it may be tried for ever

    def turn(self):
        chance = self.chance
        self.clock.now += chance.choice([0, 0, 0, 0.1, 3, -3])
        if chance.random() < 0.6:
            sent = call({"key": chance.choice("ab"), "amount": chance.choice([1, 1, 2])})
            context = ExecutionContext(principal=chance.choice([*ASKERS.values()]))
            return chance.choice(self.harnesses).execute(sent, context)
        waiting = self.desk.pending()
        for one in chance.sample(waiting, min(2, len(waiting))):
            try:
                (self.desk.approve if chance.random() < 0.8 else self.desk.deny)(
                    one.id, chance.choice([OLGA, *ASKERS.values()])
                )
            except (ValueError, PermissionError):
                continue  # the other process was faster, or it is one's own
        return None


def as_effect(question):
    sent = json.loads(question.arguments)
    return f"{question.binding.principal} {sent['key']} {sent['amount']} {question.binding.version}"


@forks
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("seed", [1, 2])
def test_two_processes_at_one_desk_make_no_effect_without_a_yes(tmp_path, seed):
    children = []
    for number in (0, 1):
        children.append(os.fork())
        if not children[-1]:
            try:
                worker = Worker(tmp_path, seed * 10 + number)
                for _ in range(TURNS):
                    worker.turn()
                os._exit(0)
            finally:
                os._exit(1)
    assert [os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in children] == [0, 0]
    history = ApprovalDesk(SqliteLedger(tmp_path / "ledger.db")).history()
    used = [one for one in history if one.standing == "used"]
    effects = (tmp_path / "effects").read_text().splitlines()
    assert Counter(effects) == Counter(map(as_effect, used))
    assert all(one.decided_by and one.decided_at < one.expires_at for one in used) and len(used) > 20
    assert not any(one.four_eyes and one.decided_by == one.binding.principal for one in history)
