"""Whatever happens in whatever order: each write happens as often as a small model says, and no more."""

import os
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from keel import Happened, Harness, MemoryLedger, NotHappened, SqliteLedger, ToolFailure, ToolRegistry
from keel.ledger import State

from .kit import AMIRA, call, code

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")

KEYS = st.sampled_from(["a", "b", "c"])
AMOUNTS = st.sampled_from([1, 2])
WHICH = st.sampled_from([0, 1])


ENDS = {
    "works": State.DONE,
    "refuses": State.FAILED,
    "refuses for now": State.FREE,
    "breaks": State.UNKNOWN,
    "works and breaks": State.UNKNOWN,
}
MODES = st.sampled_from(list(ENDS))


@dataclass
class Known:
    """What must be true of one key."""

    state: State = State.FREE
    amount: int = 0
    effects: int = 0
    hanging: bool = False  # a body that timed out has not ended yet
    lied: bool = False  # a person settled it against the facts


class Once(RuleBasedStateMachine):
    """Two harnesses on one ledger, bodies that do as they are told, and the model beside them."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.world = Path(self.folder.name) / "world.txt"
        self.world.touch()
        self.known: dict[str, Known] = {}
        self.runs, self.mode = 0, "works"
        self.gates: dict[str, tuple[threading.Event, list[str]]] = {}
        self.heard = threading.Event()
        self.harnesses = [Harness(self.tools(), ledger=ledger) for ledger in self.ledgers()]
        for ledger in {id(one.ledger): one.ledger for one in self.harnesses}.values():
            self.listen(ledger)

    def listen(self, ledger):
        end = ledger.end

        def and_tell(*arguments, **options):
            end(*arguments, **options)
            self.heard.set()

        ledger.end = and_tell

    def tools(self) -> ToolRegistry:
        registry = ToolRegistry()
        registry.tool(
            self.body,
            name="tool",
            permission="desk:write",
            needs_approval=False,
            errors=["sold_out"],
            idempotency_key=lambda arguments, context: arguments["key"],
            check_status=lambda arguments, context: Happened() if self.seen(arguments["key"]) else NotHappened,
        )
        return registry

    def body(self, key: str, amount: int) -> None:
        self.runs += 1
        self.act(key, self.mode)

    def act(self, key, mode):
        if mode == "hangs":
            gate, then = self.gates[key]
            gate.wait()
            return self.act(key, then[0])
        if mode in ("works", "works and breaks", "works and dies"):
            with self.world.open("a") as world:
                world.write(key)
        if mode.endswith("dies"):
            os._exit(0)
        if mode.startswith("refuses"):
            raise ToolFailure("sold_out", "There are none left.", retryable=mode == "refuses for now")
        if mode.endswith("breaks"):
            raise OSError("the line is dead")

    def seen(self, key) -> int:
        return self.world.read_text().count(key)

    def of(self, key) -> Known:
        return self.known.setdefault(key, Known())

    def expected(self, known: Known, amount: int) -> str | None:
        """What an execute must answer without running anything; None if it runs."""
        if known.state is State.FREE:
            return None
        if known.amount != amount:
            return "idempotency_conflict"
        return {State.DONE: "ok", State.FAILED: "sold_out"}.get(known.state, "outcome_unknown")

    def execute(self, key, amount, which, mode, context=AMIRA):
        self.mode = mode
        return code(self.harnesses[which].execute(call({"key": key, "amount": amount}), context))

    @rule(
        key=KEYS, amount=AMOUNTS, which=WHICH, mode=st.sampled_from(["works", "refuses", "refuses for now", "breaks"])
    )
    def try_it(self, key, amount, which, mode):
        self.run_or_not(key, amount, which, mode)

    @rule(key=KEYS, amount=AMOUNTS, which=WHICH)
    def break_after_the_effect(self, key, amount, which):
        self.run_or_not(key, amount, which, "works and breaks")

    def run_or_not(self, key, amount, which, mode):
        known, before = self.of(key), self.runs
        said = self.execute(key, amount, which, mode)
        expected = self.expected(known, amount)
        if expected is not None:
            assert (said, self.runs) == (expected, before)
            return
        assert self.runs == before + 1
        known.amount = amount
        known.state = ENDS[mode]
        known.effects += mode.startswith("works")
        assert said == {State.DONE: "ok", State.UNKNOWN: "outcome_unknown"}.get(known.state, "sold_out")

    @rule(key=KEYS, amount=AMOUNTS, which=WHICH)
    def time_out(self, key, amount, which):
        known, before = self.of(key), self.runs
        if known.state is not State.FREE or known.hanging:
            return
        self.gates[key] = (threading.Event(), [])
        said, limit_s = "budget_exceeded", 0.03
        while said == "budget_exceeded":  # a machine so slow that it had not begun: nothing ran
            assert self.runs == before
            deadline = time.monotonic() + limit_s
            said = self.execute(key, amount, which, "hangs", AMIRA.model_copy(update={"deadline": deadline}))
            limit_s *= 2
        assert said == "outcome_unknown"
        known.state, known.amount, known.hanging = State.UNKNOWN, amount, True

    @rule(key=KEYS, mode=MODES)
    def end_late(self, key, mode):
        known = self.of(key)
        if not known.hanging:
            return
        gate, then = self.gates.pop(key)
        self.heard.clear()
        then.append(mode)
        gate.set()
        assert self.heard.wait(30)
        known.hanging = False
        known.effects += mode.startswith("works")
        late = ENDS[mode]
        if known.state is State.UNKNOWN:
            known.state = late
        elif late is not State.UNKNOWN and (late is State.DONE) != (known.state is State.DONE):
            known.state = State.CONFLICT

    @rule(key=KEYS, which=WHICH, happened=st.booleans())
    def settle_by_hand(self, key, which, happened):
        known, harness = self.of(key), self.harnesses[which]
        if key not in self.entries():
            return
        answer = Happened() if happened else NotHappened()
        if known.state not in (State.UNKNOWN, State.CONFLICT) or (known.hanging and not happened):
            with pytest.raises(ValueError):
                harness.settle(self.entries()[key].key, answer, "I looked")
            return
        assert harness.settle(self.entries()[key].key, answer, "I looked")
        known.state = State.DONE if happened else State.FREE
        known.lied |= not happened and known.effects > 0

    @rule(which=WHICH)
    def reconcile(self, which):
        self.harnesses[which].reconcile()
        for known in self.known.values():
            if known.state is State.UNKNOWN and known.effects:
                known.state = State.DONE
            elif known.state is State.UNKNOWN and not known.hanging:
                known.state = State.FREE

    def entries(self):
        found = self.harnesses[0].ledger.entries()
        return {entry.arguments.split('"key":"')[1][0]: entry for entry in found}

    @invariant()
    def the_world_and_the_ledger_are_as_the_model_says(self):
        entries = self.entries()
        for key, known in self.known.items():
            assert self.seen(key) == known.effects
            assert known.effects <= 1 or known.lied
            state = entries[key].state if key in entries else State.FREE
            assert (State.UNKNOWN if state is State.RUNNING else state) is known.state  # running, and its owner dead

    def teardown(self):
        for gate, then in self.gates.values():
            then.append("refuses")
            gate.set()
        for harness in self.harnesses:
            while harness.pool.abandoned:
                time.sleep(0.001)
            getattr(harness.ledger, "close", lambda: None)()
        self.folder.cleanup()


class OnceInMemory(Once):
    def ledgers(self):
        return [MemoryLedger()] * 2


class OnceInAFile(Once):
    def ledgers(self):
        return [SqliteLedger(Path(self.folder.name) / "ledger.db") for _ in range(2)]

    @precondition(lambda self: hasattr(os, "fork"))
    @rule(key=KEYS, amount=AMOUNTS, which=WHICH, mode=st.sampled_from(["dies", "works and dies"]))
    def crash(self, key, amount, which, mode):
        child = os.fork()
        if not child:
            try:
                self.execute(key, amount, which, mode)
            finally:
                os._exit(1)
        died = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        known = self.of(key)
        assert died == (known.state is State.FREE)
        if died:
            known.state, known.amount = State.UNKNOWN, amount
            known.effects += mode.startswith("works")


@pytest.mark.parametrize(("machine", "examples"), [(OnceInMemory, 60), (OnceInAFile, 30)])
def test_the_ledger_is_as_its_model(machine, examples):
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=30))
