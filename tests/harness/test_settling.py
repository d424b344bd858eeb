"""Who says what became of a write of which nobody knows: the world, or a person. And nobody else."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from keel import CannotTell, Happened, Harness, NotHappened, SqliteLedger, ToolFailure, ToolRegistry
from keel.ledger import State

from .kit import AMIRA, call, code


class Desk:
    """One write that loses its answer, and a world that can be asked about it."""

    def __init__(self, ledger, **options):
        self.asked, self.answer, self.ran = [], CannotTell(), 0
        self.body_does = lambda: self.lose_the_answer()
        self.options = {"permission": "desk:write", "needs_approval": False, "timeout_s": 5.0} | options
        self.options.setdefault("check_status", self.check)
        registry = ToolRegistry()
        registry.tool(self.body, name="tool", errors=["sold_out"], **self.options)
        self.harness = Harness(registry, ledger=ledger)

    def body(self, what: str = "paper") -> str:
        self.ran += 1
        return self.body_does()

    @staticmethod
    def lose_the_answer():
        raise ConnectionResetError

    def check(self, arguments, context):
        self.asked.append((arguments, context))
        return self.answer() if hasattr(self.answer, "__code__") else self.answer

    def execute(self):
        return self.harness.execute(call({"what": "paper"}), AMIRA)

    def entry(self):
        (entry,) = self.harness.ledger.entries()
        return entry

    def settle(self, answer, reason="I looked"):
        return self.harness.settle(self.entry().key, answer, reason)

    def reconcile(self):
        (settled,) = self.harness.reconcile()
        assert self.entry().state is settled.after
        return settled


@pytest.fixture
def desk(ledger):
    desk = Desk(ledger)
    assert code(desk.execute()) == "outcome_unknown" and desk.entry().state is State.UNKNOWN
    return desk


def test_what_happened_is_kept_and_replayed(desk):
    desk.answer = Happened("order 7")
    settled = desk.reconcile()
    assert (settled.before, settled.after) == (State.UNKNOWN, State.DONE)
    assert desk.execute().data == "order 7" and desk.ran == 1
    assert desk.harness.reconcile() == [] and len(desk.asked) == 1


@pytest.mark.parametrize("answer", [NotHappened(), NotHappened])
def test_what_did_not_happen_may_be_done_now(desk, answer):
    desk.answer = answer
    assert desk.reconcile().after is State.FREE and desk.ran == 1
    desk.body_does = lambda: "order 8"
    assert desk.execute().data == "order 8" and desk.ran == 2
    assert desk.execute().data == "order 8" and desk.ran == 2


def test_the_check_is_asked_with_what_the_body_was_given(desk):
    desk.reconcile()
    ((arguments, context),) = desk.asked
    assert arguments == {"what": "paper"} and context.call_id == "c-1" and context.run_id == AMIRA.run_id
    assert context.principal == AMIRA.principal and context.idempotency_key == desk.entry().key
    desk.harness.reconcile({"shop": "the host's client"})
    assert desk.asked[1][1].extra == {"shop": "the host's client"}


def breaks():
    raise ValueError("secret")


def ends_the_program():
    raise SystemExit


def asks_the_harness():
    raise ToolFailure("sold_out", "There are none left.")


TELLS_NOTHING = [
    (CannotTell("no such page"), "no such page"), (CannotTell, "cannot tell"), (CannotTell(), "cannot tell"),
    (CannotTell("half \ud800"), "half ?"), (CannotTell(7), "cannot tell"), (None, "no answer"), (True, "no answer"),
    (False, "no answer"), ("happened", "no answer"), (str, "no answer"), (State.DONE, "no answer"),
    (breaks, "broke (ValueError)"), (ends_the_program, "broke (SystemExit)"), (asks_the_harness, "broke (ToolFailure)"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "why"), TELLS_NOTHING, ids=range(len(TELLS_NOTHING)))
def test_an_answer_that_tells_nothing_settles_nothing(desk, answer, why):
    desk.answer = answer
    settled = desk.reconcile()
    assert settled.after is State.UNKNOWN and why in settled.why and "secret" not in settled.why
    assert code(desk.execute()) == "outcome_unknown" and desk.ran == 1


@pytest.mark.parametrize("timeout_s", [0.02, None])
def test_a_check_that_hangs_tells_nothing(ledger, timeout_s, monkeypatch):
    monkeypatch.setattr("keel.settling.DEFAULT_TIMEOUT_S", 0.02)
    desk, go = Desk(ledger, timeout_s=timeout_s), threading.Event()
    desk.execute()
    desk.answer = lambda: go.wait() and Happened("too late")
    settled = desk.reconcile()
    assert settled.after is State.UNKNOWN and "too long" in settled.why
    go.set()


def test_data_that_breaks_the_contract_has_happened_all_the_same(desk):
    desk.answer = Happened({"not": "a text"})
    assert desk.reconcile().after is State.DONE
    assert code(desk.execute()) == "invalid_output" and desk.ran == 1


@pytest.mark.parametrize("answer", [Happened, Happened()])
def test_that_it_happened_can_be_said_without_data(ledger, answer):
    desk = Desk(ledger)
    desk.execute()
    desk.answer = answer
    assert desk.reconcile().after is State.DONE and desk.execute().error.code == "invalid_output" and desk.ran == 1


def test_without_a_check_only_a_person_can_tell(ledger):
    desk = Desk(ledger, check_status=None)
    desk.execute()
    assert desk.reconcile().why == "the tool has no check_status"
    assert desk.settle(Happened("order 7")) and desk.execute().data == "order 7"


def test_a_tool_that_is_gone_leaves_its_entry_to_a_person(desk):
    later = Harness(ToolRegistry(), ledger=desk.harness.ledger)
    (settled,) = later.reconcile()
    assert settled.after is State.UNKNOWN and "no such tool" in settled.why
    assert later.settle(desk.entry().key, Happened("order 7"), "it is in the shop's list")
    assert desk.execute().data == "order 7" and desk.ran == 1


def test_arguments_that_the_tool_no_longer_takes_tell_nothing(desk):
    registry = ToolRegistry()

    def body(what: int) -> str:
        raise AssertionError

    registry.tool(body, name="tool", **desk.options)
    (settled,) = Harness(registry, ledger=desk.harness.ledger).reconcile()
    assert settled.after is State.UNKNOWN and "what" in settled.why and not desk.asked


@pytest.mark.parametrize("part", ["caller", "arguments"])
@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "7"])
def test_an_entry_that_cannot_be_read_stops_no_other(tmp_path, part, text):
    ledger = SqliteLedger(tmp_path / "ledger.db")
    desk = Desk(ledger)
    desk.execute()
    desk.harness.execute(call({"what": "ink"}).model_copy(update={"call_id": "c-2"}), AMIRA)
    ledger._db.execute(f"UPDATE entries SET {part} = ? WHERE call_id = 'c-1'", (text,))
    desk.answer = Happened("order 7")
    after = {settled.entry.call_id: settled.after for settled in desk.harness.reconcile()}
    readable = part == "arguments" and text == "{}"  # they have a default
    assert after == {"c-1": State.DONE if readable else State.UNKNOWN, "c-2": State.DONE}


# While the body still runs


@pytest.fixture
def late(ledger):
    """A desk whose body has outlived its time, and how to let it end as a function says."""
    desk, go, heard = Desk(ledger), threading.Event(), threading.Event()
    end, comes = ledger.end, []

    def and_tell(*arguments, **options):
        end(*arguments, **options)
        heard.set()

    desk.body_does = lambda: go.wait() and comes[0]()
    said, limit_s = "budget_exceeded", 0.03
    while said == "budget_exceeded":  # a machine so slow that it had not begun: nothing ran
        context = AMIRA.model_copy(update={"deadline": time.monotonic() + limit_s})
        said, limit_s = code(desk.harness.execute(call({"what": "paper"}), context)), limit_s * 2
    assert said == "outcome_unknown"
    ledger.end = and_tell

    def let_it_end(result):
        comes.append(result)
        go.set()
        assert heard.wait(30)

    yield desk, let_it_end
    comes.append(lambda: "end of the test")
    go.set()


def refused():
    raise ToolFailure("sold_out", "There are none left.")


def test_what_has_not_happened_yet_may_still_happen(late):
    desk, let_it_end = late
    desk.answer = NotHappened()
    assert "still be running" in desk.reconcile().why
    with pytest.raises(ValueError, match="still be running"):
        desk.settle(NotHappened())
    assert code(desk.execute()) == "outcome_unknown" and desk.ran == 1
    let_it_end(lambda: "order 7")
    assert desk.execute().data == "order 7" and desk.ran == 1


def test_once_the_body_has_returned_without_an_answer_the_key_can_be_freed(late):
    desk, let_it_end = late
    desk.answer = NotHappened()
    let_it_end(Desk.lose_the_answer)
    assert desk.reconcile().after is State.FREE


@pytest.mark.parametrize("by", ["hand", "the world"])
def test_a_completion_that_agrees_changes_nothing(late, by):
    desk, let_it_end = late
    desk.answer = Happened("as the world has it")
    assert desk.settle(desk.answer) if by == "hand" else desk.reconcile()
    let_it_end(lambda: "order 7")
    assert desk.entry().state is State.DONE and desk.execute().data == "as the world has it"


def test_a_completion_that_says_the_other_thing_is_a_conflict_until_a_person_decides(late):
    desk, let_it_end = late
    assert desk.settle(Happened("order 7"), "the shop says so")
    let_it_end(refused)
    entry = desk.entry()
    assert entry.state is State.CONFLICT and "the shop says so" in entry.notes and "none left" in entry.notes
    desk.answer = Happened("order 7")
    assert "a person" in desk.reconcile().why and not desk.asked
    assert code(desk.execute()) == "outcome_unknown" and desk.ran == 1
    assert desk.settle(NotHappened(), "rung them up") and desk.entry().notes.endswith("settled by hand: rung them up\n")
    desk.body_does = lambda: "order 8"
    assert desk.execute().data == "order 8"


# By hand


@pytest.mark.parametrize("reason", ["", " ", "\n\t"])
def test_a_person_has_to_say_how_they_know(desk, reason):
    with pytest.raises(ValueError, match="how you know"):
        desk.settle(Happened("x"), reason)
    assert desk.entry().state is State.UNKNOWN


@pytest.mark.parametrize("answer", [CannotTell(), None, "happened", True])
def test_a_person_says_yes_or_no(desk, answer):
    with pytest.raises(ValueError, match=r"Happened\(data\) or NotHappened"):
        desk.settle(answer)
    assert desk.entry().state is State.UNKNOWN


@pytest.mark.parametrize("answer", [Happened("order 7"), NotHappened()])
def test_what_is_settled_stays_settled(desk, answer):
    assert desk.settle(Happened("order 7"))
    with pytest.raises(ValueError, match="settled already"):
        desk.settle(answer)


def test_only_what_is_there_can_be_settled(desk):
    with pytest.raises(KeyError):
        desk.harness.settle("another", Happened(), "I looked")
    with pytest.raises(KeyError):
        Harness(desk.harness.registry).settle(desk.entry().key, Happened(), "I looked")
    assert Harness(desk.harness.registry).reconcile() == []


def test_the_reason_is_kept(desk):
    assert desk.settle(Happened("order 7"), "rung up the shop \ud800")
    assert desk.entry().notes == "settled by hand: rung up the shop ?\n"


# Races


def test_two_who_reconcile_at_once_settle_it_once(ledger):
    for n in range(20):
        together, answers = threading.Barrier(2), iter([Happened("order 7"), NotHappened()])

        def meet(together=together, answers=answers):
            together.wait(10)
            return next(answers)

        desk = Desk(ledger)
        one_call = call({"what": "paper"}).model_copy(update={"call_id": f"c-{n}"})
        desk.harness.execute(one_call, AMIRA)
        desk.answer = meet
        with ThreadPoolExecutor(2) as pool:
            both = [one for (one,) in pool.map(lambda _, desk=desk: desk.harness.reconcile(), range(2))]
        (after,) = {one.after for one in both} - {State.UNKNOWN}
        assert sorted(one.after is after for one in both) == [False, True]
        (entry,) = [entry for entry in ledger.entries() if entry.call_id == f"c-{n}"]
        assert entry.state is after and entry.notes.count("\n") == 1


def test_an_entry_that_changes_while_the_world_is_asked_is_left_alone(desk):
    def and_meanwhile():
        desk.settle(NotHappened(), "a person was faster")
        desk.body_does = lambda: "order 8"
        assert desk.execute().ok
        return NotHappened()

    desk.answer = and_meanwhile
    (settled,) = desk.harness.reconcile()
    assert settled.after is State.UNKNOWN and desk.entry().state is State.DONE
    assert desk.execute().data == "order 8" and desk.ran == 2
