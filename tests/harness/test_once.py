"""Once: one action, one effect, whatever is lost and however often it is asked for again."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keel import ExecutionContext, Harness, Principal, ToolCall, ToolFailure
from keel.idempotency import LedgerUnavailable, MemoryLedger, SqliteLedger, State
from keel.settling import Happened, NotHappened

from .kit import AMIRA, STRANGER, code, label, registry_of
from .test_workers import WRITE, ask, hanging, only, raising, until

BO = ExecutionContext(principal=Principal(id="bo", permissions=["desk:write"]))


def writing(ledger, end=None, **options):
    """A world that counts effects, and a harness whose one write makes one and then ends as `end` does."""
    effects = []

    def write(n: int = 0) -> int:
        effects.append(n)
        return end() if end else len(effects)

    return effects, Harness(registry_of(write, **(WRITE | options)), ledger=ledger)


def one_key(values, context):
    return "order-1"


def timed_out_inside():
    try:
        raise TimeoutError("the socket")
    except TimeoutError as error:
        raise ToolFailure("desk_slow", "The desk did not answer.", retryable=True) from error


BROKEN = {
    "raises": raising(ConnectionError("lost")),
    "wraps a timeout": timed_out_inside,
    "exits": raising(SystemExit(0)),
    "says it was not permitted": raising(ToolFailure("permission_denied", "-")),
    "says it may be tried again": raising(ToolFailure("tool_failed", "-", retryable=True)),
    "says nothing ran": raising(ToolFailure("unavailable", "Nothing ran.", retryable=True)),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("timeout_s", [None, 30], ids=label)
def test_a_write_that_breaks_after_its_effect_is_not_run_again(ledger, name, timeout_s):
    effects, harness = writing(ledger, BROKEN[name], timeout_s=timeout_s)
    for _ in range(3):
        result = ask(harness)
        assert code(result) == "outcome_unknown" and not result.error.retryable
    assert effects == [0] and (only(ledger).state, only(ledger).live) == (State.UNKNOWN, False)


def test_nonsense_has_happened_and_is_replayed_as_it_was(ledger):
    effects, harness = writing(ledger, lambda: "no number")
    first, second = ask(harness), ask(harness)
    assert code(first) == "invalid_output" and first == second and effects == [0]
    assert only(ledger).state is State.DONE


def test_a_rule_that_the_first_effect_breaks_is_not_asked_of_the_retry(ledger):
    effects = []

    def only_one(values, context):
        return "There is a ticket already." if effects else None

    def write(n: int = 0) -> int:
        effects.append(n)
        return 7

    harness = Harness(registry_of(write, rules=[only_one], **WRITE), ledger=ledger)
    assert [ask(harness).data for _ in range(3)] == [7, 7, 7] and effects == [0]
    assert code(ask(harness, call_id="another")) == "rule_violated" and effects == [0]


def test_a_final_refusal_is_what_the_key_replays(ledger):
    refusal = ToolFailure("no_such_desk", "There is no such desk.")
    effects, harness = writing(ledger, raising(refusal), errors=["no_such_desk"])
    assert [ask(harness).error for _ in range(3)] == [refusal.error] * 3
    assert effects == [0] and only(ledger).state is State.FAILED


def test_a_refusal_for_now_frees_the_key(ledger):
    ends = iter([raising(ToolFailure("desk_closed", "Closed.", retryable=True)), lambda: 7])
    effects, harness = writing(ledger, lambda: next(ends)(), errors=["desk_closed"])
    assert code(ask(harness)) == "desk_closed" and only(ledger).state is State.FREE
    assert ask(harness).data == 7 and effects == [0, 0] and ask(harness).data == 7 and effects == [0, 0]


def test_after_a_free_key_other_arguments_are_an_action_of_their_own(ledger):
    ends = iter([raising(ToolFailure("desk_closed", "Closed.", retryable=True)), lambda: 7])
    effects, harness = writing(ledger, lambda: next(ends)(), errors=["desk_closed"], idempotency_key=one_key)
    assert code(ask(harness, n=1)) == "desk_closed"
    assert ask(harness, n=2).data == 7 and code(ask(harness, n=1)) == "idempotency_conflict" and effects == [1, 2]


STATES = {
    "done": (None, {}),
    "failed": (raising(ToolFailure("refused", "-")), {"errors": ["refused"]}),
    "unknown": (raising(OSError()), {}),
}


@pytest.mark.parametrize("state", STATES)
def test_the_same_key_with_other_arguments_is_refused(ledger, state):
    end, options = STATES[state]
    effects, harness = writing(ledger, end, idempotency_key=one_key, **options)
    ask(harness, n=1)
    assert only(ledger).state == state
    for n in (2, 0, 10**300):
        result = ask(harness, n=n)
        assert code(result) == "idempotency_conflict" and not result.error.retryable
    assert effects == [1]


def test_a_default_that_is_sent_is_the_same_as_one_that_is_left_out(ledger):
    effects, harness = writing(ledger, idempotency_key=one_key)
    assert ask(harness).data == ask(harness, n=0).data == 1 and effects == [0]


def test_without_a_key_function_run_and_call_name_the_action(ledger):
    _, harness = writing(ledger)
    again = AMIRA.model_copy(update={"run_id": "another run"})
    assert [ask(harness, call_id=one, context=run).data for run in (AMIRA, again) for one in ("a", "b")] == [1, 2, 3, 4]
    assert [ask(harness, call_id=one, context=run).data for run in (AMIRA, again) for one in ("a", "b")] == [1, 2, 3, 4]


def test_a_run_that_is_named_like_a_key_is_no_key(ledger):
    """The parts of a key are told apart, whatever they contain."""
    effects = []

    def write() -> int:
        effects.append(1)
        return len(effects)

    run = AMIRA.model_copy(update={"run_id": 'order-1", "c-1'})
    other = AMIRA.model_copy(update={"run_id": "order-1"})
    harness = Harness(registry_of(write, **WRITE), ledger=ledger)
    assert ask(harness, context=run, call_id="c").data == 1
    assert ask(harness, context=other, call_id='c-1", "c').data == 2
    keyed = Harness(registry_of(write, idempotency_key=lambda values, context: "order-1", **WRITE), ledger=ledger)
    assert ask(keyed, context=other).data == 3


def test_a_key_belongs_to_one_tool_and_one_principal(ledger):
    effects, harness = writing(ledger, idempotency_key=one_key)
    assert ask(harness).data == 1 and ask(harness, context=BO).data == 2
    registry = registry_of(lambda: effects.append(1), idempotency_key=one_key, **WRITE)
    registry.tool(lambda: effects.append(2), name="other", idempotency_key=one_key, **WRITE)
    assert ask(Harness(registry, ledger=ledger), "other").ok and effects == [0, 0, 2]


def test_unless_the_action_is_shared(ledger):
    effects, harness = writing(ledger, idempotency_key=one_key, shared=True)
    assert ask(harness).data == ask(harness, context=BO).data == 1 and effects == [0]
    assert code(ask(harness, context=STRANGER)) == "permission_denied"


def breaks(values, context):
    raise ToolFailure("desk_closed", "secret", retryable=True)


BAD_KEYS = [breaks, *(lambda values, context, bad=bad: bad for bad in ("", 7, b"k", "\ud800", ["k"], True, 1.5))]


@pytest.mark.parametrize("bad", BAD_KEYS, ids=range(len(BAD_KEYS)))
def test_a_key_that_is_no_text_runs_nothing(ledger, bad):
    effects, harness = writing(ledger, idempotency_key=bad, errors=["desk_closed"])
    result = ask(harness)
    assert code(result) == "internal_error" and not effects and not list(ledger.entries())
    assert "secret" not in result.error.message


@pytest.mark.parametrize("good", ["k", " ", "k\x00", "😀", '"', "x" * 100_000, "null"], ids=range(7))
def test_any_text_is_a_key(ledger, good):
    effects, harness = writing(ledger, idempotency_key=lambda values, context: good)
    assert ask(harness, call_id="a").data == ask(harness, call_id="b").data == 1 and effects == [0]
    others = lambda values, context: good + "\x00"  # noqa: E731
    effects, harness = writing(ledger, idempotency_key=others)
    assert ask(harness).data == 1 and effects == [0]


def test_no_business_key_means_run_and_call(ledger):
    effects, harness = writing(ledger, idempotency_key=lambda values, context: None)
    assert [ask(harness, call_id=one).data for one in ("a", "b", "a")] == [1, 2, 1] and effects == [0, 0]


@pytest.mark.parametrize("options", [{}, {"idempotency_key": one_key}], ids=["default", "business"])
def test_the_body_sees_the_key_it_runs_under(ledger, options):
    seen, ends = [], iter([raising(ToolFailure("desk_closed", "-", retryable=True)), lambda: 7, lambda: 8])

    def write(context: ExecutionContext) -> int:
        seen.append((context.idempotency_key, context.call_id))
        return next(ends)()

    harness = Harness(registry_of(write, errors=["desk_closed"], **WRITE, **options), ledger=ledger)
    run = AMIRA.model_copy(update={"run_id": "r"})
    assert code(ask(harness, context=run)) == "desk_closed" and ask(harness, context=run).data == 7
    assert seen[0] == seen[1] == (only(ledger).key, "c-1")
    assert ask(harness, context=BO.model_copy(update={"run_id": "r"})).data == 8
    assert seen[2][0] and seen[2][0] != seen[1][0]


def test_a_read_has_no_key_and_leaves_no_entry(ledger):
    def look(context: ExecutionContext) -> Any:
        return context.idempotency_key

    context = AMIRA.model_copy(update={"idempotency_key": "from somewhere else"})
    result = ask(Harness(registry_of(look, idempotency_key=one_key), ledger=ledger), context=context)
    assert result.ok and result.data is None and not list(ledger.entries())


def test_a_replay_carries_the_callers_id_and_the_version_that_ran(ledger):
    effects, harness = writing(ledger, version="1.0", idempotency_key=one_key)
    assert ask(harness, call_id="first").tool_version == "1.0"
    _, newer = writing(ledger, version="2.0", idempotency_key=one_key)
    result = ask(newer, call_id="second")
    assert (result.call_id, result.tool_version, result.data) == ("second", "1.0", 1) and effects == [0]


def test_what_is_settled_is_replayed_without_asking_a_person_again(ledger):
    _, harness = writing(ledger, idempotency_key=one_key)
    assert ask(harness).data == 1
    effects, careful = writing(ledger, idempotency_key=one_key, needs_approval=True)
    assert ask(careful).data == 1
    assert code(ask(careful, n=1)) == "idempotency_conflict"
    assert code(ask(careful, context=BO)) == "approval_required"
    assert not effects and len(list(ledger.entries())) == 1


def test_of_what_is_open_nobody_is_asked_either(ledger):
    _, harness = writing(ledger, raising(OSError()), idempotency_key=one_key)
    ask(harness)
    _, careful = writing(ledger, idempotency_key=one_key, needs_approval=True)
    assert code(ask(careful)) == "outcome_unknown"


def test_who_may_not_call_it_learns_nothing_of_what_was_done(ledger):
    _, harness = writing(ledger, idempotency_key=one_key, shared=True)
    assert ask(harness).ok
    assert code(ask(harness, context=STRANGER)) == "permission_denied"
    assert code(ask(harness, n="one")) == "invalid_arguments"
    _, closed = writing(ledger, idempotency_key=one_key, shared=True, policies=[lambda tool, values, context: False])
    assert code(ask(closed)) == "permission_denied"


def test_a_body_that_calls_itself_under_its_own_key_is_told_that_it_runs(ledger):
    seen = []

    def write() -> int:
        seen.append(ask(harness))
        return 7

    harness = Harness(registry_of(write, idempotency_key=one_key, **WRITE), ledger=ledger)
    assert ask(harness).data == 7 and [code(result) for result in seen] == ["in_progress"]
    assert seen[0].error.retryable


def test_the_callers_interrupt_passes_and_leaves_the_ledger_truthful(ledger):
    effects, harness = writing(ledger, raising(KeyboardInterrupt()), timeout_s=None)
    with pytest.raises(KeyboardInterrupt):
        ask(harness)
    assert (only(ledger).state, only(ledger).live) == (State.UNKNOWN, False)
    assert code(ask(harness)) == "outcome_unknown" and effects == [0]


@pytest.mark.parametrize("refuses", [ToolFailure("refused", "-"), OSError()], ids=["declared", "breaks"])
def test_an_interrupt_while_a_failure_is_written_down_leaves_no_claim_that_seems_to_live(ledger, refuses, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    effects, harness = writing(ledger, raising(refuses), errors=["refused"], timeout_s=None)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("keel.harness.release", interrupt)
        ask(harness)
    assert (only(ledger).state, only(ledger).live) == (State.UNKNOWN, False)
    assert code(ask(harness)) == "outcome_unknown" and effects == [0]


def test_an_interrupt_before_the_claim_leaves_nothing(ledger):
    effects, harness = writing(ledger, rules=[lambda values, context: raising(KeyboardInterrupt())()])
    with pytest.raises(KeyboardInterrupt):
        ask(harness)
    assert not effects and not list(ledger.entries())


def test_what_it_comes_to_in_the_end_is_learnt(ledger, gate):
    ran, harness = hanging(ledger, gate, lambda: 7)
    assert code(ask(harness)) == "outcome_unknown"
    gate.set()
    until(lambda: only(ledger).state is State.DONE)
    assert (ask(harness).data, ran) == (7, [1])
    until(lambda: harness.pool.abandoned == 0)


def test_nonsense_in_the_end_has_happened_too(ledger, gate):
    ran, harness = hanging(ledger, gate, lambda: "no number")
    ask(harness)
    gate.set()
    until(lambda: only(ledger).state is State.DONE)
    assert (code(ask(harness)), ran) == ("invalid_output", [1])


def test_a_promise_in_the_end_frees_the_key(ledger, gate):
    closed = ToolFailure("desk_closed", "-", retryable=True)
    ran, harness = hanging(ledger, gate, raising(closed), errors=["desk_closed"])
    assert code(ask(harness)) == "outcome_unknown"
    gate.set()
    until(lambda: only(ledger).state is State.FREE)
    assert (ask(harness).data, ran) == (100, [1, 1])


def test_a_final_refusal_in_the_end_is_what_the_key_replays(ledger, gate):
    ran, harness = hanging(ledger, gate, raising(ToolFailure("no_such_desk", "-")), errors=["no_such_desk"])
    ask(harness)
    gate.set()
    until(lambda: only(ledger).state is State.FAILED)
    assert (code(ask(harness)), ran) == ("no_such_desk", [1])


def test_a_crash_in_the_end_tells_only_that_it_is_over(ledger, gate):
    ran, harness = hanging(ledger, gate, raising(OSError("lost")), check_status=lambda values, context: NotHappened())
    ask(harness)
    [looked] = harness.reconcile()
    assert (looked.after, only(ledger).state) == (State.UNKNOWN, State.UNKNOWN)  # it may still happen
    gate.set()
    until(lambda: not only(ledger).live)
    assert (code(ask(harness)), ran) == ("outcome_unknown", [1])
    [looked] = harness.reconcile()
    assert looked.after is State.FREE and ask(harness).data == 100 and ran == [1, 1]


def test_an_end_that_says_otherwise_than_a_person_did_is_kept_for_a_person(ledger, gate):
    closed = ToolFailure("desk_closed", "-", retryable=True)
    ran, harness = hanging(ledger, gate, raising(closed), errors=["desk_closed"])
    ask(harness)
    assert harness.settle(only(ledger).key, Happened(7), "seen at the desk")
    gate.set()
    until(lambda: only(ledger).state is State.CONFLICT)
    assert code(ask(harness)) == "outcome_unknown" and ran == [1]
    assert "seen at the desk" in only(ledger).notes and "ended late" in only(ledger).notes


def test_an_end_that_says_what_a_person_said_changes_nothing(ledger, gate):
    _, harness = hanging(ledger, gate, lambda: 7)
    ask(harness)
    assert harness.settle(only(ledger).key, Happened(8), "seen")
    gate.set()
    until(lambda: harness.pool.abandoned == 0)
    assert only(ledger).state is State.DONE and ask(harness).data == 8


class Failing(MemoryLedger):
    """A ledger that cannot serve at one of its steps."""

    def __init__(self, step):
        super().__init__()
        self.step = step

    def __getattribute__(self, name):
        if name == object.__getattribute__(self, "step"):
            raise LedgerUnavailable("the disk is full")
        return super().__getattribute__(name)


@pytest.mark.parametrize("step", ["recall", "claim"])
def test_where_the_ledger_cannot_serve_nothing_runs(step):
    ledger = Failing(step)
    effects, harness = writing(ledger)
    result = ask(harness)
    assert code(result) == "unavailable" and result.error.retryable and not effects
    assert "the disk is full" in result.error.message
    ledger.step = None
    assert ask(harness).data == 1


def test_where_it_cannot_keep_the_end_the_caller_still_gets_it():
    ledger = Failing("end")
    effects, harness = writing(ledger)
    assert ask(harness).data == 1
    ledger.step = None
    assert code(ask(harness)) in ("in_progress", "outcome_unknown") and effects == [0]


def test_what_the_ledger_keeps_of_it_can_be_read(ledger):
    _, harness = writing(ledger)
    ask(harness, n=3)
    entry = only(ledger)
    assert json.loads(entry.arguments) == {"n": 3} and json.loads(entry.outcome) == {"data": 1}
    caller = json.loads(entry.caller)
    assert (caller["principal"], caller["run_id"]) == ("amira", AMIRA.run_id)
    assert (entry.tool, entry.version, entry.call_id) == ("tool", "1.0", "c-1")


ENDS = {
    "done": lambda: 7,
    "broken": raising(OSError()),
    "interrupted": raising(KeyboardInterrupt()),
    "nonsense": lambda: "no number",
    "refused": raising(ToolFailure("refused", "-")),
    "closed": raising(ToolFailure("desk_closed", "-", retryable=True)),
}
STEPS = st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.sampled_from([*ENDS, "settle"]), st.booleans())


@pytest.mark.parametrize("make", [MemoryLedger, None], ids=["memory", "sqlite"])
@settings(max_examples=60)
@given(steps=st.lists(STEPS, max_size=14))
def test_a_key_has_one_effect_unless_it_was_freed(make, steps, tmp_path_factory):
    """Whatever is asked for in which order: what may run is what was never run, or was freed since."""
    ledger = make() if make else SqliteLedger(tmp_path_factory.mktemp("once") / "ledger.db")
    ends: list[str] = []
    began = {"a": 0, "b": 0}
    may = {"a": 1, "b": 1}

    def write(key: str, n: int) -> int:
        began[key] += 1
        return ENDS[ends[-1]]()

    options = WRITE | {"timeout_s": None, "errors": ["refused", "desk_closed"]}
    check = {"check_status": lambda values, context: NotHappened()}
    options |= {"idempotency_key": lambda values, context: values["key"]}
    registry = registry_of(write, **options, **check)
    harness = Harness(registry, ledger=ledger)
    for number, (key, n, end, fresh) in enumerate(steps):
        # A new harness over the same ledger knows as much as the old one.
        if fresh:
            harness = Harness(registry, ledger=ledger)
        if end == "settle":
            for looked in harness.reconcile():
                may[json.loads(looked.entry.key)[2]] += looked.after is State.FREE
            continue
        ends.append(end)
        before = dict(began)
        try:
            result = harness.execute(
                ToolCall(call_id=f"c-{number}", name="tool", arguments={"key": key, "n": n}), AMIRA
            )
        except KeyboardInterrupt:
            assert end == "interrupted"
        else:
            assert result.call_id == f"c-{number}"
            may[key] += began != before and code(result) == "desk_closed"
        assert all(began[one] <= may[one] for one in began), (key, n, end)
    assert {json.loads(entry.key)[2] for entry in ledger.entries()} == {key for key in began if began[key]}
