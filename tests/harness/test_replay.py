"""The proposals of a trace, put to another harness: what comes out differently, and where nothing can be said."""

import pytest

from keel import Harness, MemoryLedger, ToolRegistry, ToolRequest, Trace
from keel.replay import replay
from keel.trace import ARGUMENTS, read_trace

from .kit import AMIRA

OTHER = AMIRA.model_copy(update={"run_id": "another run"})


def small(values, context):
    return None if values["n"] < 10 else "Too many."


def shop(trace=None, rules=(small,)):
    """A fresh world: a read, and a write that a rule keeps small. What was done is kept in `did`."""
    registry, did = ToolRegistry(), []

    def look(password: str = "", note: str = "") -> str:
        return note

    def order(n: int) -> int:
        did.append(n)
        return len(did)

    registry.tool(look, read_only=True)
    registry.tool(order, permission="desk:write", needs_approval=False, rules=list(rules))
    harness = Harness(registry, ledger=MemoryLedger(), trace=trace)
    harness.did = did
    return harness


def order(n):
    return ToolRequest(name="order", arguments={"n": n})


def look(**arguments):
    return ToolRequest(name="look", arguments=arguments)


PROPOSALS = [look(note="a"), order(5), order(50), order("x"), ToolRequest(name="Pay!", arguments={}),
             ToolRequest(name="pay", arguments="{"), ToolRequest(name="order", arguments='{"n": 6}'),
             ToolRequest(name=None), ToolRequest(name="order", arguments={"n": 7}, problem="cut short")]  # fmt: skip


def kept(proposals=PROPOSALS, **options):
    trace = Trace(**({"content": True} | options))
    shop(trace).execute_many(proposals, AMIRA)
    return trace


def test_the_same_harness_answers_the_same(tmp_path):
    trace = kept()
    answered = replay(trace.events, shop(), AMIRA)
    assert len(answered) == len(PROPOSALS) and not [one for one in answered if one.differs]
    assert [one.name for one in answered] == [one.name for one in PROPOSALS]
    assert {one.before for one in answered} >= {"ok", "rule_violated", "unknown_tool", "invalid_arguments"}


def test_a_file_can_be_replayed_as_memory_can(tmp_path):
    kept(path=tmp_path / "t.jsonl").close()
    assert not any(one.differs for one in replay(read_trace(tmp_path / "t.jsonl"), shop(), AMIRA))


def test_without_a_rule_exactly_what_it_refused_comes_out_differently():
    harness = shop(rules=())
    answered = replay(kept().events, harness, AMIRA)
    assert [one[1:] for one in answered if one.differs] == [("order", "rule_violated", "ok")]
    assert harness.did == [5, 50, 6]


def test_a_trace_without_content_cannot_be_replayed_and_nothing_runs():
    harness = shop()
    with pytest.raises(ValueError, match="content=True"):
        replay(kept(content=False).events, harness, AMIRA)
    assert not harness.did


UNFIT = {"hidden": look(password="p"), "cut": look(note="x" * 70_000), "no JSON": look(note="\ud800")}


@pytest.mark.parametrize("request_", UNFIT.values(), ids=UNFIT)
def test_what_was_hidden_or_cut_is_not_replayed_and_nothing_else_runs(request_):
    harness = shop()
    with pytest.raises(ValueError, match="hidden or cut"):
        replay(kept([order(1)]).events + kept([order(2), request_]).events, harness, AMIRA)
    assert not harness.did


def test_damaged_content_is_said_to_be_damaged():
    events = [one._replace(more={**one.more, ARGUMENTS: "{"}) for one in kept([order(1)]).events]
    with pytest.raises(ValueError, match="damaged"):
        replay(events, shop(), AMIRA)


def turns_of(harness):
    """The turns that are put to a harness from now on."""
    turns, whole = [], harness.execute_many

    def execute_many(calls, context, **options):
        turns.append([one.arguments["n"] for one in calls])
        return whole(calls, context, **options)

    harness.execute_many = execute_many
    return turns


def test_what_was_sent_in_one_turn_is_put_in_one_turn():
    trace = Trace(content=True)
    harness = shop(trace)
    for numbers in ([1, 2], [3], [4, 5]):
        harness.execute_many([order(n) for n in numbers], AMIRA)
    other = shop()
    turns = turns_of(other)
    replay(trace.events, other, AMIRA)
    assert turns == [[1, 2], [3], [4, 5]] and other.did == [1, 2, 3, 4, 5]


def test_two_runs_in_one_trace_are_not_mixed_into_one_turn():
    trace = Trace(content=True)
    harness = shop(trace)
    first = [harness.read(order(n), AMIRA) for n in (1, 2)]
    second = [harness.read(order(n), OTHER) for n in (3, 4)]
    harness.execute_many(second, OTHER)
    harness.execute_many(first, AMIRA)
    other = shop()
    turns = turns_of(other)
    answered = replay(trace.events, other, AMIRA)
    assert sorted(turns) == [[1, 2], [3, 4]] and not any(one.differs for one in answered)


def test_a_call_that_was_never_answered_differs_from_one_that_is():
    trace = Trace(content=True)
    shop(trace).read(order(1), AMIRA)
    assert [one[2:] for one in replay(trace.events, shop(), AMIRA)] == [("no answer", "ok")]


def test_a_number_that_is_none_is_refused_again_as_what_it_was():
    answered = replay(kept([look(note=float("nan")), look(note=float("inf"))]).events, shop(), AMIRA)
    assert [(one.before, one.after) for one in answered] == [("invalid_arguments", "invalid_arguments")] * 2


def test_a_text_that_reads_like_no_number_stays_a_text():
    answered = replay(kept([look(note="NaN")]).events, shop(), AMIRA)
    assert [(one.before, one.after) for one in answered] == [("ok", "ok")]
