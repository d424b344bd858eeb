"""Approval: a person's yes is for one call, as it stands, and for one time."""

import json
import sqlite3
from typing import Any

import pytest

from keel import ExecutionContext, Harness, Principal, ToolCall, ToolFailure
from keel.approval import ApprovalDesk, Standing
from keel.idempotency import LedgerUnavailable, MemoryLedger, SqliteLedger

from .kit import AMIRA, STRANGER, code, registry_of
from .test_workers import ask, raising

OLGA = Principal(id="olga", permissions=["approvals:decide"])
BO = ExecutionContext(principal=Principal(id="bo", permissions=["desk:write"]))
CAREFUL = {"read_only": False, "permission": "desk:write", "timeout_s": None}
TTL, STANDS = 60.0, 600.0


class Clock:
    """Seconds since 1970, as the test says."""

    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        return self.now


class Office:
    """A desk over a ledger, a harness with one write that counts its effects, and Olga, who decides."""

    def __init__(self, ledger, end=None, desk=None, **options):
        self.ledger, self.clock, self.effects = ledger, Clock(), []
        self.desk = ApprovalDesk(ledger, **{"ttl_s": TTL, "stands_s": STANDS, "clock": self.clock} | (desk or {}))

        def write(n: int = 0) -> int:
            self.effects.append(n)
            return end() if end else len(self.effects)

        self.harness = Harness(registry_of(write, **(CAREFUL | options)), ledger=ledger, approvals=self.desk)

    def ask(self, context=AMIRA, call_id="c-1", **arguments):
        return code(ask(self.harness, context=context, call_id=call_id, **arguments))

    def approve(self, by=OLGA, reason=""):
        [question] = self.desk.pending()
        return self.desk.approve(question.id, by, reason)

    def standings(self):
        return [one.standing for one in self.desk.history()]


class FileOffice(Office):
    """An office whose effects are lines in a file, so that other processes can have one like it."""

    def __init__(self, folder, kind=SqliteLedger, **options):
        self.world = folder / "world.txt"
        super().__init__(kind(folder / "ledger.db"), self.act, **options)

    def act(self):
        with self.world.open("a") as world:
            world.write("done\n")
        return 7

    def done(self):
        return self.world.read_text().count("done") if self.world.exists() else 0


def one_key(values, context):
    return "order-1"


def test_what_a_person_agreed_to_runs_once_and_is_then_replayed_without_asking(ledger):
    office = Office(ledger)
    assert [office.ask(n=1) for _ in range(3)] == ["approval_required"] * 3 and not office.effects
    office.approve()
    assert not office.effects
    assert [office.ask(n=1) for _ in range(3)] == ["ok"] * 3
    assert office.effects == [1] and office.standings() == ["used"]


# What an approval is for


def another(office, ledger, what, options):
    """A call that differs in one thing from Amira's call c-1 with n=1."""
    run = AMIRA.model_copy(update={"run_id": "another run"})
    if what == "version":
        office = Office(ledger, version="1.1", **options)
    calls = {
        "arguments": lambda: office.ask(n=2),
        "the default": lambda: office.ask(),
        "call": lambda: office.ask(n=1, call_id="c-2"),
        "run": lambda: office.ask(run, n=1),
        "principal": lambda: office.ask(BO, n=1),
        "version": lambda: office.ask(n=1),
    }
    return office, calls[what]()


OTHERS = [(one, {}) for one in ("arguments", "the default", "call", "run", "principal", "version")]
OTHERS += [(one, {"idempotency_key": one_key}) for one in ("arguments", "the default", "principal", "version")]
OTHERS += [(one, {"idempotency_key": one_key, "shared": True}) for one in ("arguments", "principal", "version")]


@pytest.mark.parametrize(("what", "options"), OTHERS, ids=[f"{one}-{len(options)}" for one, options in OTHERS])
def test_approve_one_and_send_another(ledger, what, options):
    office = Office(ledger, **options)
    office.ask(n=1)
    first = office.approve()
    other, said = another(office, ledger, what, options)
    assert said == "approval_required" and not other.effects
    [second] = office.desk.pending()
    assert second.id != first.id and second.binding != first.binding
    assert another(office, ledger, what, options)[1] == "approval_required"
    assert office.ask(n=1) == "ok" and office.effects == [1]
    assert office.standings() == ["used", "pending"]


def test_an_approval_for_one_tool_is_none_for_another(ledger):
    """Also where both name the same action."""
    office = Office(ledger, idempotency_key=one_key)
    office.ask(n=1)
    office.approve()
    ran = []

    def other(n: int = 0) -> None:
        ran.append(n)

    office.harness.registry.tool(other, idempotency_key=one_key, **CAREFUL)
    assert code(ask(office.harness, "other", n=1)) == "approval_required" and not ran
    assert [one.binding.tool for one in office.desk.history()] == ["tool", "other"]
    assert office.ask(n=1) == "ok" and office.effects == [1] and not ran


def test_calls_that_are_spelled_otherwise_and_mean_the_same_are_one(ledger):
    def write(amount: float = 1.0, note: dict[str, Any] | None = None) -> str:
        return "done"

    spellings = [{}, {"amount": 1}, {"amount": 1.0, "note": None}, {"note": None, "amount": 1.0}]
    desk = ApprovalDesk(ledger)
    harness = Harness(registry_of(write, **CAREFUL), ledger=ledger, approvals=desk)
    assert {code(ask(harness, **one)) for one in spellings} == {"approval_required"}
    [question] = desk.pending()
    assert question.arguments == '{"amount":1,"note":null}'
    desk.approve(question.id, OLGA)
    assert {code(ask(harness, **one)) for one in reversed(spellings)} == {"ok"}
    assert len(desk.history()) == 1


ALIKE = [(2**53, 2**53 + 1), (1, True), (1, "1"), (None, ""), ("é", "e\u0301"), ("a", "\u0430"), ("a", "a\u200b")]
ALIKE += [([1, 2], [2, 1]), ({"a": 1}, {"A": 1}), ({"a": None}, {}), (0.1, 0.1 + 1e-17 + 2e-17), ("a", "a\x00")]


@pytest.mark.parametrize(("one", "other"), ALIKE, ids=range(len(ALIKE)))
def test_what_only_looks_the_same_is_another_call(ledger, one, other):
    ran, desk = [], ApprovalDesk(ledger)

    def write(value: Any) -> None:
        ran.append(value)

    harness = Harness(registry_of(write, idempotency_key=one_key, **CAREFUL), ledger=ledger, approvals=desk)
    ask(harness, value=one)
    desk.approve(desk.pending()[0].id, OLGA)
    assert code(ask(harness, value=other)) == "approval_required" and not ran
    assert code(ask(harness, value=one)) == "ok" and ran == [one]


# Who is asked, and about what


def policy_of(answer):
    return [lambda tool, values, context: answer]


TROUBLES = {
    "permission_denied": {"context": STRANGER},
    "invalid_arguments": {"n": "one"},
    "rule_violated": {"rules": [lambda values, context: "No."]},
}
BROKEN = {
    "a policy": {"policies": [raising(OSError())]},
    "a rule": {"rules": [raising(OSError())]},
    "a key": {"idempotency_key": raising(OSError())},
}


@pytest.mark.parametrize("expected", TROUBLES)
def test_nobody_is_asked_about_a_call_that_would_not_run_anyway(ledger, expected):
    trouble = dict(TROUBLES[expected])
    sent = {"context": trouble.pop("context", AMIRA), "n": trouble.pop("n", 1)}
    office = Office(ledger, **trouble)
    assert office.ask(**sent) == expected and not office.desk.history()


def test_nor_where_a_policy_says_no(ledger):
    office = Office(ledger, policies=policy_of(1))
    assert office.ask(n=1) == "permission_denied" and not office.desk.history()


@pytest.mark.parametrize("what", BROKEN)
def test_nor_where_a_judge_broke(ledger, what):
    office = Office(ledger, **BROKEN[what])
    assert office.ask(n=1) == "internal_error" and not office.desk.history() and not office.effects


ENDS = {
    "ok": None,
    "refused": raising(ToolFailure("refused", "-")),
    "outcome_unknown": raising(OSError()),
}


@pytest.mark.parametrize("end", ENDS)
def test_nobody_is_asked_about_what_is_settled_or_open(ledger, end):
    unasked = Office(ledger, ENDS[end], needs_approval=False, idempotency_key=one_key, errors=["refused"])
    assert unasked.ask(n=1) == end
    office = Office(ledger, idempotency_key=one_key)
    assert office.ask(n=1) == end and office.ask(n=2) == "idempotency_conflict"
    assert not office.desk.history() and not office.effects


def test_nor_about_what_runs_now(ledger):
    heard = []
    office = Office(ledger, lambda: heard.append(office.ask(n=1)), idempotency_key=one_key)
    office.ask(n=1)
    office.approve()
    office.ask(n=1)
    assert heard == ["in_progress"] and office.effects == [1] and office.standings() == ["used"]


def test_nor_about_what_was_settled_a_moment_ago(ledger):
    """Another try of the same call ran between this one's look at the ledger and its look at the desk."""
    office = Office(ledger)
    office.ask(n=1)
    office.approve()
    recall, faster = ledger.recall, [lambda: office.ask(n=1)]

    def slow_recall(key):
        found = recall(key)
        if faster:
            assert faster.pop()() == "ok"
        return found

    ledger.recall = slow_recall
    assert office.ask(n=1) == "in_progress" and office.standings() == ["used"]
    assert office.ask(n=1) == "ok" and office.effects == [1]


def test_a_write_that_may_run_unasked_and_a_read_ask_nobody(ledger):
    office = Office(ledger, needs_approval=False)
    assert office.ask(n=1) == "ok" and not office.desk.history()
    office = Office(ledger, read_only=True, permission=None)
    assert office.ask(n=1) == "ok" and not office.desk.history()


def test_without_a_desk_nobody_can_agree(ledger):
    office = Office(ledger)
    for kept in (ledger, None):
        harness = Harness(office.harness.registry, ledger=kept)
        assert code(ask(harness, n=1)) == "approval_required"
    assert not office.desk.history() and not office.effects


def test_a_desk_shares_its_harnesss_ledger_or_there_is_no_harness(tmp_path):
    registry, path = registry_of(lambda: None, **CAREFUL), tmp_path / "ledger.db"
    with pytest.raises(ValueError, match="ledger"):
        ApprovalDesk(None)
    for own, other in ((MemoryLedger(), None), (MemoryLedger(), MemoryLedger()), (SqliteLedger(path), MemoryLedger())):
        with pytest.raises(ValueError, match="ledger"):
            Harness(registry, ledger=other, approvals=ApprovalDesk(own))


def test_equal_calls_are_one_question_and_are_counted(ledger):
    office = Office(ledger, idempotency_key=one_key)
    for call_id in ("c-1", "c-1", "c-2", "c-3"):
        assert office.ask(n=1, call_id=call_id) == "approval_required"
    [question] = office.desk.pending()
    assert question.times == 3 and question.call_id == "c-1" and question.arguments == '{"n":1}'
    assert question.asked_at == 1000 and question.expires_at == 1000 + TTL and question.run_id == AMIRA.run_id


def test_only_so_many_questions_wait(ledger):
    office = Office(ledger, desk={"max_pending": 2})
    assert [office.ask(n=n) for n in (1, 2)] == ["approval_required"] * 2
    result = ask(office.harness, n=3)
    assert code(result) == "unavailable" and result.error.retryable
    assert office.ask(n=1) == "approval_required", "what waits already takes no second place"
    assert len(office.desk.history()) == 2 and not office.effects
    office.desk.deny(office.desk.pending()[0].id, OLGA)
    assert office.ask(n=3) == "approval_required" and office.ask(n=4) == "unavailable"


def test_what_has_expired_takes_no_place_and_what_is_approved_neither(ledger):
    office = Office(ledger, desk={"max_pending": 1})
    office.ask(n=1)
    office.approve()
    assert office.ask(n=2) == "approval_required" and office.ask(n=3) == "unavailable"
    office.clock.now += TTL
    assert office.ask(n=3) == "approval_required" and office.ask(n=4) == "unavailable"
    assert office.standings() == ["expired", "expired", "pending"]


def test_an_id_that_is_minted_twice_joins_no_two_questions(ledger):
    office = Office(ledger, desk={"mint": lambda: "q"})
    office.ask(n=1)
    office.approve()
    assert office.ask(n=2) == "internal_error" and office.standings() == ["approved"]
    assert office.ask(n=1) == "ok" and office.effects == [1]


# What a person is shown


def test_what_is_shown_is_the_whole_call_and_nothing_in_it_can_hide(ledger):
    def write(text: str) -> None: ...

    desk = ApprovalDesk(ledger)
    harness = Harness(registry_of(write, **CAREFUL), ledger=ledger, approvals=desk)
    hidden = 'a\u202eb\u2066\u200b\ufeff\x7f\x9b\r\n\x1b[2K\u2028\xa0\u3164\ufe0f\U000e0041"\\u0041é世😀' + "z" * 5000
    ask(harness, text=hidden)
    [question] = desk.pending()
    assert question.shown.isprintable() and "é世😀" in question.shown and "z" * 5000 in question.shown
    assert not set("\u202e\u3164\ufe0f\xa0") & set(question.shown) and "\\u202e" in question.shown
    assert json.loads(question.shown) == {"text": hidden}


# When the file cannot serve

DAMAGE = {
    "a standing nobody knows": "UPDATE questions SET standing = 'blessed'",
    "no table": "DROP TABLE questions",
    "another table": "DROP TABLE questions; CREATE TABLE questions (id TEXT)",
    "a text that is none": "UPDATE questions SET arguments = CAST(x'ff' AS TEXT)",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_of_damaged_questions_nothing_runs(tmp_path, damage):
    office = FileOffice(tmp_path)
    office.ask(n=1)
    office.approve()
    office.ledger.close()
    db = sqlite3.connect(tmp_path / "ledger.db")
    db.executescript(DAMAGE[damage])
    db.close()
    assert office.ask(n=1) == "unavailable" and office.done() == 0
    assert not list(office.ledger.entries())


def test_while_the_file_is_locked_nothing_runs_and_nobody_decides(tmp_path):
    office = FileOffice(tmp_path, lambda path: SqliteLedger(path, patience_s=0.01))
    office.ask(n=1)
    question = office.approve()
    office.ask(n=2)
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert office.ask(n=1) == office.ask(n=2) == office.ask(n=3) == "unavailable"
    with pytest.raises(LedgerUnavailable, match="locked"):
        office.desk.deny(question.id, OLGA)
    other.execute("ROLLBACK")
    other.close()
    assert office.done() == 0 and office.standings() == ["approved", "pending"]
    assert office.ask(n=1) == "ok" and office.done() == 1


def test_a_turn_asks_for_each_of_its_writes_and_runs_what_was_agreed(ledger):
    office = Office(ledger)
    turn = [ToolCall(call_id=f"c-{n}", name="tool", arguments={"n": n}) for n in (1, 2, 3)]
    assert {code(one) for one in office.harness.execute_many(turn, AMIRA)} == {"approval_required"}
    office.desk.approve(next(one.id for one in office.desk.pending() if one.arguments == '{"n":2}'), OLGA)
    answers = office.harness.execute_many([*turn, turn[1]], AMIRA)
    assert [code(one) for one in answers] == ["approval_required", "ok", "approval_required", "ok"]
    assert office.effects == [2] and Standing.USED in office.standings()
