"""A trace: one event for each stage of each call, which says what happened, keeps secrets out, and breaks nothing."""

import itertools
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keel import (
    ApprovalDesk,
    ExecutionContext,
    Happened,
    Harness,
    MemoryLedger,
    Principal,
    ToolFailure,
    ToolRegistry,
    ToolRequest,
    Trace,
)
from keel import trace as trace_module
from keel.adapters import ModelFailure
from keel.approval import PERMISSION
from keel.idempotency import LedgerUnavailable
from keel.lab.recordings import proposals_turn
from keel.loop import Agent, Budget
from keel.models import ScriptedModel
from keel.trace import calls_of

from .kit import AMIRA, STRANGER, call, code, interrupted_at
from .test_workers import only, raising, until

MARK = "zebra-4711"
BOSS = Principal(id="boss", permissions=[PERMISSION])
READ = ["lookup", "permission", "validate", "policies", "rules", "run", "output", "answer"]
BEFORE = ["lookup", "permission", "validate", "policies", "recall", "rules"]
WRITE = [*BEFORE, "claim", "run", "output", "complete", "answer"]


def world(ledger=None, trace=None, end=None, **options):
    """A harness with a read `look`, a write `order` and a write `sign` that a person must agree to."""
    ledger = MemoryLedger() if ledger is None else ledger
    registry, write = ToolRegistry(), {"permission": "desk:write", "timeout_s": None, **options}

    def ended(text):
        return text if end is None else end()

    def look(text: str = "") -> str:
        return ended(text)

    def order(text: str = "") -> str:
        return ended(text)

    def sign(text: str = "") -> str:
        return ended(text)

    registry.tool(look, read_only=True, permission="desk:read", timeout_s=None)
    registry.tool(order, needs_approval=False, **write)
    registry.tool(sign, **write)
    return Harness(registry, ledger=ledger, approvals=ApprovalDesk(ledger), trace=trace)


def stages(events):
    return [event.stage for event in events]


def passed(events):
    """The stages of a call, each with how it ended where that was not "ok"."""
    return [event.stage if event.outcome == "ok" else (event.stage, event.outcome) for event in events]


def ask(harness, name, context=AMIRA, text="hello"):
    return harness.execute(call({"text": text}, name), context)


def traced(harness, name, context=AMIRA, text="hello"):
    """What one call adds to the trace."""
    before = len(harness.trace.events)
    ask(harness, name, context, text)
    return harness.trace.events[before:]


# One event a stage


def test_a_read_and_a_write_leave_one_event_for_each_stage_in_order(ledger):
    harness = world(ledger, Trace())
    assert passed(traced(harness, "look")) == READ
    assert passed(traced(harness, "order")) == WRITE


def test_a_write_that_is_asked_for_again_is_replayed_and_the_event_names_the_first_call(ledger):
    harness = world(ledger, Trace())
    ask(harness, "order")
    events = traced(harness, "order")
    assert passed(events) == [*BEFORE[:4], ("recall", "replayed"), "answer"]
    assert events[-2].more == {"keel.replayed.call.id": "c-1"}


def test_a_write_that_needs_approval_stops_there_and_passes_once_a_person_agreed(ledger):
    harness = world(ledger, Trace())
    events = traced(harness, "sign")
    assert passed(events) == [*BEFORE, ("approve", "approval_required"), ("answer", "approval_required")]
    (question,) = harness.approvals.pending()
    harness.approvals.approve(question.id, BOSS)
    assert passed(traced(harness, "sign")) == [*BEFORE, "approve", *WRITE[6:]]


def refusing(**options):
    return lambda trace: world(None, trace, **options)


def no(values, context):
    return "No."


REFUSED = {
    "unknown": (refusing(), "nothing", AMIRA, "x", "lookup", "unknown_tool"),
    "not permitted": (refusing(), "order", STRANGER, "x", "permission", "permission_denied"),
    "bad arguments": (refusing(), "order", AMIRA, 7, "validate", "invalid_arguments"),
    "rule": (refusing(rules=[no]), "order", AMIRA, "x", "rules", "rule_violated"),
    "body": (refusing(end=raising(OSError("x"))), "order", AMIRA, "x", "run", "outcome_unknown"),
    "read's body": (refusing(end=raising(OSError("x"))), "look", AMIRA, "x", "run", "tool_failed"),
    "output": (refusing(end=lambda: 7), "order", AMIRA, "x", "output", "invalid_output"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_call_ends_at_the_stage_that_refused_it(name):
    make, tool, context, text, stage, error = REFUSED[name]
    *before, last, answer = traced(make(Trace()), tool, context, text)
    assert (last.stage, last.outcome, last.failed) == (stage, error, True)
    assert (answer.stage, answer.outcome) == ("answer", error)
    assert all(event.outcome == "ok" for event in before)


def test_a_claim_that_the_ledger_cannot_write_down_is_where_the_call_stopped():
    harness = world(trace=Trace())
    locked = raising(LedgerUnavailable("locked"))
    harness.ledger.claim = lambda entry, also=None: locked()
    assert passed(traced(harness, "order"))[-2:] == [("claim", "unavailable"), ("answer", "unavailable")]


@pytest.mark.parametrize("tool", ["look", "order"])
@pytest.mark.parametrize("end", [None, raising(OSError("x"))], ids=["ok", "breaks"])
def test_all_events_of_a_call_carry_its_id_its_run_and_its_tool(tool, end):
    events = traced(world(trace=Trace(), end=end), tool)
    assert {(one.call_id, one.run_id, one.tool) for one in events} == {("c-1", AMIRA.run_id, tool)}


def test_the_answer_says_who_asked_and_which_version_answered():
    harness = world(trace=Trace(), version="3.1.0")
    answer = traced(harness, "order")[-1].attributes()
    assert (answer["user.id"], answer["keel.tool.version"]) == ("amira", "3.1.0")


@pytest.mark.parametrize("to_file", [False, True], ids=["memory", "file"])
def test_times_and_durations_are_those_of_the_clock(to_file, tmp_path):
    ticks = itertools.count(1000, 10)
    trace = Trace(tmp_path / "t.jsonl" if to_file else None, clock=lambda: next(ticks))
    *line, answer = traced(world(trace=trace), "look")
    assert [one.duration_ns for one in line] == [10] * 7
    assert all(earlier.time_ns < later.time_ns for earlier, later in itertools.pairwise([*line, answer]))
    assert answer.duration_ns == answer.time_ns - 1000


def test_a_clock_that_is_set_back_makes_no_negative_duration():
    ticks = itertools.count(10_000, -10)
    assert all(one.duration_ns == 0 for one in traced(world(trace=Trace(clock=lambda: next(ticks))), "order"))


def test_the_names_are_those_of_the_conventions(tmp_path):
    trace = Trace(tmp_path / "t.jsonl", content=True, texts=True)
    harness = world(trace=trace, end=raising(OSError("x")))
    harness.handle(ToolRequest(name="look", arguments={"text": "x"}), AMIRA)
    trace.note("model", "ok", "r")
    trace.note("start", "ok", "r")
    lines = [json.loads(line) for line in trace.path.read_text().splitlines()]
    assert {name for line in lines for name in line} == {
        "time_unix_nano", "duration_nano", "keel.stage", "keel.outcome", "gen_ai.operation.name",
        "gen_ai.conversation.id", "gen_ai.tool.call.id", "gen_ai.tool.name", "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result", "error.type", "exception.type", "exception.message", "code.function.name",
        "code.line.number", "user.id", "keel.tool.version", "keel.request.name",
    }  # fmt: skip
    assert [one["gen_ai.operation.name"] for one in lines[-3:]] == ["execute_tool", "chat", "invoke_agent"]


# What stays out


PLACES = ("argument", "key", "name", "result", "exception", "cause")


def speak(place, trace):
    """Have the marker said in one place of a call, and nowhere else."""

    def end():
        if place == "cause":
            raise ToolFailure("tool_failed", MARK) from ValueError(MARK)
        if place == "exception":
            raise ValueError(MARK)
        return MARK if place == "result" else "x"

    harness = world(trace=trace, end=end)
    name = MARK if place == "name" else "look"
    arguments = {MARK: "x"} if place == "key" else {"text": MARK if place == "argument" else "x"}
    for one in (name, "order"):
        harness.handle(ToolRequest(name=one, arguments=arguments), AMIRA)
        harness.handle(ToolRequest(name=one, arguments=json.dumps(arguments)), AMIRA)
    return trace


@pytest.mark.parametrize("place", PLACES)
def test_nothing_that_was_said_is_in_a_trace_that_was_not_asked_for_it(place, tmp_path):
    speak(place, Trace(tmp_path / "t.jsonl"))
    text = (tmp_path / "t.jsonl").read_text()
    assert MARK not in text and len(text.splitlines()) > 4
    assert MARK not in repr([one.attributes() for one in speak(place, Trace()).events])


@pytest.mark.parametrize("place", PLACES[:4])
def test_with_content_what_was_said_is_kept(place, tmp_path):
    speak(place, Trace(tmp_path / "t.jsonl", content=True))
    assert MARK in (tmp_path / "t.jsonl").read_text()


def test_what_exceptions_say_is_kept_with_texts(tmp_path):
    assert MARK in repr(speak("exception", Trace(texts=True)).events)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60)
@given(around=JSON, name=st.text(max_size=8), half=st.sampled_from(["", "\ud800", "\x00", "\u2028", "\n"]))
def test_whatever_is_sent_the_trace_holds_none_of_it_and_is_whole(around, name, half, tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "t.jsonl"
    trace = Trace(path)
    harness = world(trace=trace)
    said = f"{half}{MARK}"
    for sent in ({"text": said}, {said: around}, {"text": [around, said]}, said):
        for tool in (f"{name}{said}", "look", "order"):
            harness.handle(ToolRequest(name=tool, arguments=sent), AMIRA)
    text = path.read_text(encoding="utf-8")
    assert MARK not in text and trace.lost == 0
    assert all(json.loads(line) for line in text.split("\n")[:-1])
    trace.close()


def test_what_looks_like_a_secret_is_hidden_even_in_kept_content():
    trace = Trace(content=True)
    registry = ToolRegistry()

    def look(password: str, note: str) -> dict[str, str]:
        return {"api_key": "k-hidden", "said": note}

    registry.tool(look, read_only=True)
    sent = {"password": "p-hidden", "note": "Bearer b-hidden and token=t-hidden but open"}
    Harness(registry, trace=trace).handle(ToolRequest(name="look", arguments=sent), AMIRA)
    told = repr([one.attributes() for one in trace.events])
    assert "-hidden" not in told and "open" in told and told.count("[hidden]") >= 6


# It breaks nothing


def two_faced():
    """What two harnesses, one with a trace and one without, make of the same calls."""
    for tool, end in itertools.product(("look", "order", "sign", "nothing"), ENDS.values()):
        for context, text in itertools.product((AMIRA, STRANGER), ("x", 7, "\ud800", float("nan"), "x" * 200_000)):
            yield tool, end, context, text


class Cyclic(Exception):
    def __init__(self):
        super().__init__()
        self.__cause__ = self.__context__ = self


class Hostile(type):
    def __getattribute__(cls, name):
        if name in ("__module__", "__qualname__", "__name__"):
            raise RuntimeError(MARK)
        return super().__getattribute__(name)


class Trap(Exception, metaclass=Hostile):
    def __str__(self):
        raise RuntimeError(MARK)


ENDS = {
    "ok": None, "breaks": raising(OSError("x")), "cycle": raising(Cyclic()), "trap": raising(Trap()),
    "nonsense": lambda: 7, "half a character": raising(ValueError("\ud800")), "exit": raising(SystemExit(0)),
}  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"content": True, "texts": True}], ids=["plain", "all that was said"])
@pytest.mark.parametrize("to_file", [False, True], ids=["memory", "file"])
def test_every_result_is_the_one_that_there_would_be_without_a_trace(options, to_file, tmp_path):
    trace = Trace(tmp_path / "t.jsonl" if to_file else None, **options)
    for tool, end, context, text in two_faced():
        plain, watched = world(end=end), world(end=end, trace=trace)
        for _ in range(2):
            assert ask(watched, tool, context, text).model_dump(exclude={"error"}) == ask(
                plain, tool, context, text
            ).model_dump(exclude={"error"})
            assert code(ask(watched, tool, context, text)) == code(ask(plain, tool, context, text))
    assert trace.lost == 0
    trace.close()


@pytest.mark.parametrize("end", ["trap", "cycle", "half a character"])
def test_an_exception_that_is_a_trap_still_leaves_its_event(end, tmp_path):
    trace = Trace(tmp_path / "t.jsonl", texts=True)
    assert stages(traced(world(trace=trace, end=ENDS[end]), "look")) == [*READ[:6], "answer"]


def test_a_send_that_raises_changes_no_result_and_is_counted():
    harness = world(trace=Trace(send=raising(OSError("exporter"))))
    assert code(ask(harness, "order")) == "ok" and harness.trace.lost == len(WRITE)
    assert stages(harness.trace.events) == WRITE


def test_a_redaction_that_raises_changes_no_result_and_keeps_no_content():
    harness = world(trace=Trace(content=True, redact=raising(KeyError(MARK))))
    assert code(ask(harness, "order", text=MARK)) == "ok"
    assert stages(harness.trace.events) == WRITE and MARK not in repr(harness.trace.events)


@pytest.mark.parametrize("to_file", [False, True], ids=["memory", "file"])
@pytest.mark.parametrize("end", [None, raising(ToolFailure("closed", "-"))], ids=["ok", "refuses"])
def test_an_interrupt_at_any_line_of_a_trace_leaves_no_claim_that_seems_to_live(to_file, end, tmp_path):
    line, hit = 0, True
    while hit:
        line += 1
        did = []

        def body(did=did):
            did.append(1)
            return end() if end else "x"

        trace = Trace(tmp_path / f"{line}.jsonl" if to_file else None)
        harness = world(trace=trace, end=body, errors=["closed"])
        hit = interrupted_at(line, lambda harness=harness: ask(harness, "order"), trace_module)
        entries = list(harness.ledger.entries())
        assert not any(entry.live for entry in entries), line
        assert len(entries) >= len(did), line
        again = code(ask(harness, "order"))
        assert again in ("ok", "closed", "outcome_unknown") and len(did) <= 1, line
        trace.close()
    assert line > 40


def test_an_interrupt_in_a_body_is_told_and_the_walk_is_used_no_more():
    harness = world(trace=Trace(), end=raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        ask(harness, "order")
    assert passed(harness.trace.events)[-2:] == [("run", "interrupted"), ("answer", "interrupted")]
    with pytest.raises(KeyboardInterrupt):
        ask(harness, "look")
    assert passed(harness.trace.events)[-2:] == [("run", "interrupted"), ("answer", "interrupted")]


# Many at once


def test_a_body_that_calls_the_harness_again_leaves_two_whole_calls():
    registry, trace = ToolRegistry(), Trace()
    harness = Harness(registry, trace=trace)

    def inner() -> str:
        return "in"

    def outer() -> str:
        return harness.execute(call(name="inner").model_copy(update={"call_id": "c-2"}), AMIRA).data

    registry.tool(inner, read_only=True)
    registry.tool(outer, read_only=True)
    assert harness.execute(call(name="outer"), AMIRA).data == "in"
    calls = calls_of(trace.events)
    assert {one: stages(calls[one]) for one in calls} == {"c-1": READ, "c-2": READ}


@pytest.mark.parametrize("to_file", [False, True], ids=["memory", "file"])
def test_of_eight_threads_no_event_is_lost_or_mixed_up(to_file, tmp_path):
    trace = Trace(tmp_path / "t.jsonl" if to_file else None)
    harness, meeting = world(trace=trace), threading.Barrier(8)

    def work(thread):
        meeting.wait(10)
        for turn in range(25):
            tool = ("look", "order")[turn % 2]
            one = call({"text": "x"}, tool).model_copy(update={"call_id": f"{tool}-{thread}-{turn}"})
            assert harness.execute(one, AMIRA).ok

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    calls = calls_of(trace.events)
    assert len(calls) == 200 and trace.lost == 0
    for call_id, events in calls.items():
        tool = call_id.split("-")[0]
        assert passed(events) == {"look": READ, "order": WRITE}[tool] and {one.tool for one in events} == {tool}


def test_memory_holds_the_last_calls_and_no_more():
    harness = world(trace=Trace(keep=3))
    for number in range(10):
        harness.execute(call({"text": "x"}, "look").model_copy(update={"call_id": f"c-{number}"}), AMIRA)
    calls = calls_of(harness.trace.events)
    assert list(calls) == ["c-7", "c-8", "c-9"] and all(stages(one) == READ for one in calls.values())


# What is no stage of the line


def test_a_body_that_was_left_behind_tells_when_it_ends(gate):
    harness = world(trace=Trace(), end=lambda: gate.wait(20) and "x", timeout_s=0.05)
    assert code(ask(harness, "order")) == "outcome_unknown"
    gate.set()
    until(lambda: harness.trace.events[-1].stage == "late")
    late = harness.trace.events[-1]
    assert (late.outcome, late.call_id, late.tool) == ("ok", "c-1", "order")


def test_what_the_world_and_a_person_say_of_a_write_is_told():
    def both(by_hand):
        harness = world(trace=Trace(), end=raising(OSError("x")), check_status=lambda values, context: Happened("x"))
        ask(harness, "order")
        if by_hand:
            assert harness.settle(only(harness.ledger).key, Happened("x"), "I saw it.")
        else:
            harness.reconcile()
        return harness.trace.events[-1]

    settled, by_hand = both(False), both(True)
    assert {(one.stage, one.outcome, one.call_id, one.tool) for one in (settled, by_hand)} == {
        ("settle", "done", "c-1", "order")
    }
    assert by_hand.more == {"keel.settled.by": "a person"} and not settled.more


def test_a_cancelled_call_has_an_answer_too():
    harness, cancel = world(trace=Trace()), threading.Event()
    cancel.set()
    harness.execute_many([call({"text": "x"}, "look")], AMIRA, cancel=cancel)
    assert passed(harness.trace.events) == [("answer", "cancelled")] and harness.trace.events[0].call_id == "c-1"


def test_a_request_that_cannot_be_read_leaves_one_event_without_the_models_words():
    harness = world(trace=Trace())
    result = harness.handle(ToolRequest(name=f"{MARK}!", arguments={}), AMIRA)
    (event,) = harness.trace.events
    assert (event.stage, event.outcome, event.call_id, event.tool) == ("read", code(result), result.call_id, None)


def test_two_traces_of_one_context_tell_runs_apart():
    harness = world(trace=Trace())
    for run in ("run-1", "run-2"):
        ask(harness, "look", ExecutionContext(principal=AMIRA.principal, run_id=run))
    assert {one.run_id for one in harness.trace.events} == {"run-1", "run-2"}


def test_a_call_that_a_budget_has_no_room_for_has_its_answer_and_a_run_its_turns():
    harness = world(trace=Trace())
    two = proposals_turn(("look", {}), ("look", {}))
    Agent(ScriptedModel([two]), harness, Budget(calls=1)).run("Look twice.", AMIRA)
    events = harness.trace.events
    assert [event.outcome for event in events if event.stage == "answer"] == ["budget_exceeded", "ok"]
    told = [(one.stage, one.outcome) for one in events if one.call_id is None]
    assert told == [("start", "ok"), ("model", "ok"), ("stop", "budget_exceeded")]
    assert all(len({event.stage for event in of} & {"answer"}) == 1 for of in calls_of(events).values())


def test_a_turn_that_the_model_did_not_give_is_told_without_what_it_said():
    class Silent:
        def complete(self, messages, tools=()):
            raise ModelFailure(MARK)

    harness = world(trace=Trace())
    Agent(Silent(), harness).run("Look.", AMIRA)
    assert [(one.stage, one.outcome) for one in harness.trace.events][1:] == [
        ("model", "model_failed"),
        ("stop", "model_failed"),
    ]
    assert MARK not in repr(harness.trace.events)
