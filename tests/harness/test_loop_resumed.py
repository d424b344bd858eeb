"""A run that was put aside, broken off or killed is taken up: nothing is lost, done twice, or given anew."""

import json
import os
from pathlib import Path

import pytest

from keel import ApprovalDesk, Happened, Harness, NotHappened, SqliteLedger, ToolRegistry
from keel import loop as loop_module
from keel.idempotency import LedgerUnavailable
from keel.lab.recordings import proposals_turn
from keel.loop import Agent, Budget, Run, Stop

from .killed_steps import killed_at as killed
from .kit import interrupted_at
from .test_loop import AMIRA, BOSS, CLOSED, CLOSED_NOW, DONE, Desk, Model, answers, check_run, look, order, sign

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork and no SIGKILL")
MIXED = proposals_turn(("look", {}), ("sign", {"what": "lease"}), ("look", "{"), ("order", {"what": "paper"}))


def by_history(*says):
    """A model that knows by the conversation where it is, as a model does: also after a pause."""

    class ByHistory(Model):
        def complete(self, messages, tools=()):
            self.says = [says[sum(one["role"] == "assistant" for one in messages)]]
            return super().complete(messages, tools)

    return ByHistory()


def reloaded(run):
    check_run(run)
    return Run.model_validate_json(run.model_dump_json())


# A person is asked


@pytest.mark.parametrize("again", [reloaded, lambda run: run], ids=["saved", "as it is"])
def test_what_waits_for_a_person_is_done_once_and_the_rest_is_not_done_again(again):
    desk = Desk()
    run = desk.run(MIXED)
    assert run.stopped is Stop.APPROVAL_PENDING and "sign" in run.why and desk.did == ["look desk", "order paper"]
    assert run.calls == 3 and not answers(run), "the model hears of all at once, in call order"
    desk.say()
    run = desk.agent(DONE).resume(again(run), AMIRA)
    assert run.stopped is Stop.ANSWERED and answers(run) == ["ok", "ok", "invalid_arguments", "ok"]
    assert desk.did == ["look desk", "order paper", "sign lease"] and run.calls == 3


def test_what_a_person_denies_is_answered_and_the_run_goes_on():
    desk = Desk()
    run = desk.run(MIXED)
    desk.say(yes=False)
    desk.agent(look(), DONE).resume(run, AMIRA)
    assert run.stopped is Stop.ANSWERED
    assert answers(run) == ["ok", "approval_denied", "invalid_arguments", "ok", "ok"]
    assert "sign lease" not in desk.did


def test_the_model_is_stuck_on_what_a_person_denied():
    desk = Desk()
    run = desk.run(sign())
    for _ in range(3):
        assert run.stopped is Stop.APPROVAL_PENDING
        desk.say(yes=False)
        desk.agent(sign()).resume(run, AMIRA)
    assert run.stopped is Stop.STUCK and not desk.did and run.turns == 3


def test_to_look_whether_a_person_has_answered_costs_nothing():
    desk = Desk()
    run = desk.run(sign(), calls=1, turns=2)
    for _ in range(9):
        run = desk.agent(calls=1, turns=2).resume(reloaded(run), AMIRA)
        assert (run.stopped, run.calls, run.turns, desk.model.asked) == (Stop.APPROVAL_PENDING, 1, 1, [])
    assert len(desk.approvals.pending()) == 1
    desk.say()
    desk.agent(DONE, calls=1, turns=2).resume(run, AMIRA)
    assert run.stopped is Stop.ANSWERED and desk.did == ["sign lease"] and run.calls == 1


def test_of_two_that_wait_each_has_its_own_yes():
    desk = Desk()
    run = desk.run(proposals_turn(("sign", {"what": "a"}), ("sign", {"what": "b"})))
    first, second = desk.approvals.pending()
    desk.approvals.approve(second.id, BOSS)
    desk.agent().resume(run, AMIRA)
    assert run.stopped is Stop.APPROVAL_PENDING and desk.did == ["sign b"]
    desk.approvals.approve(first.id, BOSS)
    run = desk.agent(DONE).resume(reloaded(run), AMIRA)
    assert run.stopped is Stop.ANSWERED and desk.did == ["sign b", "sign a"] and answers(run) == ["ok", "ok"]


def test_a_no_that_stands_no_more_is_asked_again():
    now, desk = [0.0], Desk()
    desk.approvals = ApprovalDesk(desk.ledger, stands_s=10, clock=lambda: now[0])
    desk.harness = Harness(desk.registry, ledger=desk.ledger, approvals=desk.approvals)
    run = desk.run(sign())
    desk.say(yes=False)
    now[0] = 11
    assert desk.agent().resume(run, AMIRA).stopped is Stop.APPROVAL_PENDING
    desk.say()
    desk.agent(DONE).resume(run, AMIRA)
    assert run.stopped is Stop.ANSWERED and desk.did == ["sign lease"] and answers(run) == ["ok"]


def test_a_tool_that_is_gone_meanwhile_is_answered():
    desk = Desk()
    run = desk.run(MIXED)
    desk.registry = ToolRegistry()
    desk.harness = Harness(desk.registry, ledger=desk.ledger, approvals=desk.approvals)
    desk.agent(DONE).resume(run, AMIRA)
    assert run.stopped is Stop.ANSWERED and answers(run)[:2] == ["ok", "unknown_tool"]


def test_what_waits_when_the_caller_gives_up_is_cancelled():
    desk = Desk()
    run = desk.run(sign())
    desk.say()
    agent = desk.agent()
    agent.cancel.set()
    agent.resume(run, AMIRA)
    assert (run.stopped, answers(run), desk.did) == (Stop.CANCELLED, ["cancelled"], [])


def test_a_run_is_taken_up_in_its_own_name_only():
    desk = Desk()
    run = desk.run(sign())
    desk.say()
    other = AMIRA.principal.model_copy(update={"id": "bo"})
    before = run.model_dump()
    for wrong in ({"run_id": "run-2"}, {"principal": other}):
        with pytest.raises(ValueError, match=r"began under another run_id|whose it is"):
            desk.agent(DONE).resume(run, AMIRA.model_copy(update=wrong))
    assert not desk.did and run.model_dump() == before


CONTENT = [
    "\x00\x1b\x7f\u2028\ufeff\uffff",
    "😀" * 99,
    "",
    '{"a":',
    10**399,
    -(10**399),
    5e-324,
    -0.0,
    None,
    True,
    [[{}]],
]


@pytest.mark.parametrize("content", CONTENT, ids=range(len(CONTENT)))
def test_any_content_survives_being_saved(content):
    desk = Desk()
    desk.registry.add_schema_tool(
        name="echo", description="-", input_schema={"type": "object"}, function=lambda given: given, read_only=True
    )
    run = desk.agent(proposals_turn(("echo", {"it": content}), ("sign", {"what": "x"}))).run("\ud83d\x00", AMIRA)
    assert run.stopped is Stop.APPROVAL_PENDING
    again = reloaded(run)
    assert again == run and again.turn[0].result.data == {"it": content} == again.turn[0].call.arguments
    desk.say()
    assert desk.agent(DONE).resume(again, AMIRA).stopped is Stop.ANSWERED


# Something breaks


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("no network"), SystemExit()], ids=repr)
def test_what_a_model_raises_passes_and_the_run_goes_on_later(error):
    desk, kept = Desk(), []
    with pytest.raises(type(error)):
        desk.run(look(), error, keep=lambda run: kept.append(run.model_dump_json()))
    run = Run.model_validate_json(kept[-1])
    assert (run.stopped, run.turns, run.calls) == (None, 2, 1)
    desk.agent(DONE).resume(run, AMIRA)
    assert (run.stopped, run.turns, desk.did) == (Stop.ANSWERED, 3, ["look desk"])


def test_a_keep_that_fails_lets_nothing_begin_and_loses_nothing():
    class Full:
        def __init__(self, at):
            self.left, self.last = at, None

        def __call__(self, run):
            self.left -= 1
            if self.left == 0:
                raise OSError("the disk is full")
            self.last = run.model_dump_json()

    model = by_history(look(), order(), DONE)
    for at in range(2, 12):
        desk, keep = Desk(), Full(at)
        try:
            run = desk.run(model, keep=keep)
        except OSError:
            run = Run.model_validate_json(keep.last)
            run = desk.agent(model).resume(run, AMIRA)
        assert run.stopped is Stop.ANSWERED and answers(run) == ["ok", "ok"], at
        assert desk.did.count("order paper") == 1 and run.calls == 2


def test_what_begins_was_kept_before():
    desk, kept = Desk(), []
    seen = []
    desk.ends = [lambda: seen.append(Run.model_validate_json(kept[-1]))] * 9
    desk.run(look(), MIXED, keep=lambda run: kept.append(run.model_dump_json()))
    assert [(run.calls, len(run.turn)) for run in seen] == [(1, 1), (4, 4), (4, 4)]
    desk = Desk(CLOSED_NOW, lambda: seen.append(Run.model_validate_json(kept[-1])))
    desk.run(look(), DONE, keep=lambda run: kept.append(run.model_dump_json()))
    assert seen[-1].calls == 2, "a retry too"


def broken_off(end, **options):
    """A run whose one call was interrupted, as it was kept."""
    desk, kept = Desk(KeyboardInterrupt()), []
    with pytest.raises(KeyboardInterrupt):
        desk.run(end, keep=lambda run: kept.append(run.model_dump_json()), **options)
    return desk, Run.model_validate_json(kept[-1])


def test_a_write_that_was_broken_off_is_not_run_again():
    desk, run = broken_off(order(), calls=1)
    desk.agent(DONE, calls=1).resume(run, AMIRA)
    assert answers(run) == ["outcome_unknown"] and desk.did == ["order paper"] and run.calls == 1


def test_a_read_that_was_broken_off_is_read_again_and_counts_once():
    desk, run = broken_off(look(), calls=1)
    desk.agent(DONE, calls=1).resume(run, AMIRA)
    assert answers(run) == ["ok"] and desk.did == ["look desk"] * 2 and run.calls == 1


@pytest.mark.parametrize(
    ("proposed", "said"), [(order(), "outcome_unknown"), (look(), "cancelled")], ids=["write", "read"]
)
def test_of_a_write_that_was_broken_off_nobody_says_that_nothing_ran(proposed, said):
    desk, run = broken_off(proposed)
    agent = desk.agent()
    agent.cancel.set()
    agent.resume(run, AMIRA)
    assert (run.stopped, answers(run), len(desk.did)) == (Stop.CANCELLED, [said], 1)


def test_nor_where_the_ledger_cannot_be_asked(monkeypatch):
    desk, run = broken_off(order())

    def unavailable(key):
        raise LedgerUnavailable("locked")

    monkeypatch.setattr(desk.ledger, "recall", unavailable)
    desk.agent(DONE).resume(run, AMIRA)
    assert answers(run) == ["outcome_unknown"] and len(desk.did) == 1


def test_an_interrupt_at_any_line_leaves_a_run_that_can_be_taken_up():
    line, hit = 0, True
    while hit:
        line += 1
        desk = Desk(None, CLOSED)
        run = Run(goal="Help.", run_id="run-1", messages=[{"role": "user", "content": "Help."}])
        agent = desk.agent(by_history(MIXED, look("b"), DONE), keep=lambda run: None)
        hit = interrupted_at(line, lambda agent=agent, run=run: agent.resume(run, AMIRA), loop_module)
        check_run(run)
        for _ in range(2):
            desk.say()
            run = desk.agent(by_history(MIXED, look("b"), DONE)).resume(reloaded(run), AMIRA)
        assert run.stopped is Stop.ANSWERED and run.turns in (3, 4) and run.calls == 4, line
        assert answers(run)[1:4:2] == ["ok", "closed"] or answers(run)[1:4:2] == ["ok", "ok"], line
        assert desk.did.count("sign lease") == 1 and desk.did.count("order paper") == 1, line
    assert line > 100


# Something is killed


class Office:
    """An agent of a process that may be killed at each of its steps. All that outlives it is in one folder."""

    def __init__(self, folder, at=lambda step: None, timeout_s=None):
        self.folder, self.at = Path(folder), at
        registry, write = ToolRegistry(), {"permission": "desk:write", "timeout_s": timeout_s}
        registry.tool(self.look, read_only=True, timeout_s=timeout_s)
        registry.tool(self.order, needs_approval=False, check_status=self.is_done("order"), **write)
        registry.tool(self.sign, check_status=self.is_done("sign"), **write)
        self.ledger = SqliteLedger(self.folder / "ledger.db")
        self.approvals = ApprovalDesk(self.ledger)
        self.harness = Harness(registry, ledger=self.ledger, approvals=self.approvals)
        self.model = by_history(MIXED, look("b"), DONE)

    def note(self, line):
        with open(self.folder / "world", "a") as file:
            file.write(f"{line}\n")

    def world(self):
        path = self.folder / "world"
        return path.read_text().splitlines() if path.exists() else []

    def is_done(self, name):
        return lambda values, context: Happened("done") if f"{name} {values['what']}" in self.world() else NotHappened()

    def body(self, line):
        self.at(f"before {line}")
        self.note(line)
        self.at(f"after {line}")
        return "done"

    def look(self, at: str = "desk") -> str:
        """Look."""
        return self.body(f"look {at}")

    def order(self, what: str) -> str:
        """Order."""
        return self.body(f"order {what}")

    def sign(self, what: str) -> str:
        """Sign."""
        return self.body(f"sign {what}")

    def complete(self, messages, tools=()):
        self.at("before the model")
        self.note("asked")
        turn = self.model.complete(messages, tools)
        self.at("after the model")
        return turn

    def keep(self, run):
        self.at("before it is kept")
        (self.folder / "new").write_text(run.model_dump_json())
        os.replace(self.folder / "new", self.folder / "run")
        self.at("after it is kept")

    def kept(self):
        path = self.folder / "run"
        return Run.model_validate_json(path.read_bytes()) if path.exists() else None

    def work(self):
        """What a service does that starts: settle what is open, and go on where it was."""
        self.harness.reconcile()
        agent, run = Agent(self, self.harness, Budget(turns=9, calls=4), keep=self.keep), self.kept()
        run = agent.run("Help.", AMIRA) if run is None else agent.resume(run, AMIRA)
        while run.stopped is Stop.APPROVAL_PENDING:
            for question in self.approvals.pending():
                self.approvals.approve(question.id, BOSS)
            run = agent.resume(run, AMIRA)
        return run


def killed_at(folder, number, timeout_s=None):
    """Let a child work, and kill it at the step of that number. Gives the steps that it came by."""
    return killed(lambda at: Office(folder, at, timeout_s).work(), number)


def check_taken_up(folder, kills):
    office = Office(folder)
    before = office.kept()
    run = office.work()
    check_run(run)
    world = office.world()
    assert run.stopped is Stop.ANSWERED and answers(run) == ["ok", "ok", "invalid_arguments", "ok", "ok"]
    assert world.count("order paper") == world.count("sign lease") == 1
    assert {"look desk", "look b"} <= set(world) and sum(one.startswith("look") for one in world) <= 2 + kills
    assert run.calls == 4 and world.count("asked") <= run.turns <= 3 + kills
    assert before is None or (before.turns <= run.turns and before.calls <= run.calls)
    office.ledger.close()


STEPS = 38  # of a whole run; the first test holds it


@forks
def test_a_run_that_nobody_kills_comes_by_every_step(tmp_path):
    steps = killed_at(tmp_path, None)
    assert len(steps) == STEPS and {"before the model", "after sign lease", "before order paper"} <= set(steps)
    check_taken_up(tmp_path, 0)


@forks
@pytest.mark.parametrize("number", [1, 3, 6, 10, 13, 15, 18, 22, 25, 35])
def test_a_run_that_is_killed_is_taken_up(tmp_path, number):
    assert len(killed_at(tmp_path, number)) == number
    check_taken_up(tmp_path, 1)


@forks
@pytest.mark.soak
@pytest.mark.parametrize("timeout_s", [None, 30.0], ids=["in the caller's thread", "in a worker"])
@pytest.mark.parametrize("number", range(1, STEPS + 1))
def test_a_run_that_is_killed_at_any_step_is_taken_up(tmp_path, number, timeout_s):
    killed_at(tmp_path, number, timeout_s)
    check_taken_up(tmp_path, 1)


@forks
@pytest.mark.soak
@pytest.mark.parametrize("number", range(1, STEPS + 1))
def test_a_run_that_is_killed_again_and_again_is_taken_up(tmp_path, number):
    for kill in range(3):
        killed_at(tmp_path, number if kill == 0 else (number * 7 + kill * 5) % 9 + 1)
    check_taken_up(tmp_path, 3)


@forks
def test_a_run_that_dies_with_every_turn_comes_to_an_end(tmp_path):
    while True:
        if "before the model" not in killed_at(tmp_path, 3):
            break
        assert Office(tmp_path).world().count("asked") <= 9
    run = Office(tmp_path).work()
    assert run.stopped is Stop.BUDGET_EXCEEDED and run.turns == 9


@forks
def test_another_process_goes_on_with_what_a_person_agreed_to(tmp_path):
    here = Desk(ledger=SqliteLedger(tmp_path / "ledger.db"))
    saved = here.run(MIXED).model_dump_json()
    here.say()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            there = Desk(ledger=SqliteLedger(tmp_path / "ledger.db"))
            runs = [there.agent(DONE).resume(Run.model_validate_json(saved), AMIRA) for _ in range(2)]
            os.write(writing, json.dumps([there.did, *[answers(run) for run in runs]]).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        did, *told = json.load(pipe)
    os.waitpid(child, 0)
    assert did == ["sign lease"] and told == [["ok", "ok", "invalid_arguments", "ok"]] * 2
    assert here.did == ["look desk", "order paper"]
