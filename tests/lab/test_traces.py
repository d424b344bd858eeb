"""A trace to look at: explained call by call, drawn, and the drill that takes guards out."""

import pytest

from keel import ApprovalDesk, Harness, MemoryLedger, ToolRequest, Trace
from keel.lab import (
    World,
    approver,
    boards_across,
    course_registry,
    everything,
    explain,
    finished,
    seeded_mint,
    ticking,
    timeline,
)
from keel.lab.gauntlet import CASES, Verdict, run_gauntlet
from keel.lab.guards import GUARDS, red_rows, sabotage, sabotage_picture, without
from keel.trace import Event

TICKET = {"title": "login returns 502", "incident_id": "INC-001"}


def desk(world=None):
    ledger = MemoryLedger()
    approvals = ApprovalDesk(ledger, mint=seeded_mint("q"))
    trace = Trace(clock=ticking())
    registry = course_registry(world or World())
    return Harness(registry, ledger=ledger, approvals=approvals, trace=trace, mint=seeded_mint())


def ask(harness, name, **arguments):
    return harness.handle(ToolRequest(name=name, arguments=arguments), everything())


def test_a_refused_call_is_explained_by_the_stage_that_refused_it_and_by_what_to_do():
    harness = desk()
    ask(harness, "lookup_incident", incident_id="one")
    told = explain(harness.trace, "c-1")
    assert "It stopped at validate: invalid_arguments." in told
    assert "lookup_incident, for amira" in told


def test_what_waits_for_a_person_is_not_explained_by_another_calls_refusal():
    harness = desk()
    ask(harness, "lookup_incident", incident_id="one")
    ask(harness, "create_ticket", **TICKET)
    assert "It stopped at approve: approval_required." in explain(harness.trace, "c-2")


def test_a_replay_is_explained_as_one_and_names_the_call_that_ran():
    harness = desk()
    ask(harness, "create_ticket", **TICKET)
    harness.approvals.approve(harness.approvals.pending()[0].id, approver())
    ask(harness, "create_ticket", **TICKET)
    ask(harness, "create_ticket", **TICKET)
    assert explain(harness.trace, "c-2").endswith("It came through.")
    assert explain(harness.trace, "c-3").endswith("Nothing ran: the answer is that of c-2, from the ledger.")


def test_a_request_that_could_not_be_read_is_explained_too():
    harness = desk()
    harness.handle(ToolRequest(name="lookup_incident", arguments="{"), everything())
    assert "It stopped at read: invalid_arguments." in explain(harness.trace, "c-1")


def test_a_call_without_an_answer_is_not_said_to_have_come_through_or_failed():
    events = [Event(1, 1, "lookup", "ok", "r", "c-1", "create_ticket"), Event(2, 1, "claim", "ok", "r", "c-1")]
    told = explain(events, "c-1")
    assert "There is no answer" in told and "claim came through" in told
    assert "It came through." not in told


def test_an_exception_is_explained_by_type_and_place_and_never_by_its_text():
    def broken(arguments):
        raise RuntimeError("password=hunter2")

    world = World()
    world.faults["add"] = broken
    harness = desk(world)
    ask(harness, "add", a=1, b=2)
    told = explain(harness.trace, "c-1")
    assert "RuntimeError, raised in" in told and "broken" in told
    assert "hunter2" not in told


def test_a_call_that_is_not_there_gets_a_sentence_and_no_traceback():
    harness = desk()
    assert explain(harness.trace, "c-9") == "There is no call c-9 in this trace. There are: none."
    ask(harness, "add", a=1, b=2)
    assert "There are: c-1." in explain(harness.trace, "c-9")


def test_every_row_of_the_gauntlet_is_explained_from_its_trace():
    traces = []

    def make(world):
        traces.append(Trace())
        return finished(world, trace=traces[-1])

    outcomes = run_gauntlet(make)
    assert all(one.verdict is Verdict.RIGHT for one in outcomes)
    calls = 0
    for trace in traces:
        for call_id in {event.call_id for event in trace.events} - {None}:
            calls += 1
            assert len(explain(trace, call_id).splitlines()) >= 3
    assert calls >= len(CASES)


def test_the_timeline_shows_each_call_with_its_stages_and_what_came_of_it():
    harness = desk()
    ask(harness, "lookup_incident", incident_id="INC-001")
    ask(harness, "create_ticket", **TICKET)
    picture = timeline(harness.trace)
    assert "output → ok" in picture.text
    assert "approve! → approval_required" in picture.text
    assert "create_ticket" in picture.svg
    assert timeline(harness.trace).svg == picture.svg


def test_an_empty_trace_is_drawn_as_one():
    assert timeline(Trace()).text == "There is nothing in this trace yet."


def test_a_hundred_thousand_events_are_explained_and_drawn_and_what_is_left_out_is_told():
    stages = ("lookup", "permission", "validate", "policies", "rules", "run", "output", "answer")
    events = [
        Event(1000 * (8 * call + at), 1000, stage, "ok", "run", f"c-{call}", "add")
        for call in range(12_500)
        for at, stage in enumerate(stages)
    ]
    picture, told = timeline(events), explain(events, "c-12000")
    assert "12460 earlier ones are not drawn." in picture.text
    assert told.endswith("It came through.")


@pytest.fixture(scope="module")
def found():
    return sabotage()


def test_every_guard_has_a_row_that_misses_it(found):
    assert set(found) == set(GUARDS)
    assert all(found.values())


def test_no_guard_is_behind_all_rows(found):
    assert all(len(red) < 12 for red in found.values())


def test_a_guard_that_is_gone_is_missed_where_it_stood(found):
    red = {guard: {one.case for one in outcomes} for guard, outcomes in found.items()}
    assert red["policies"] == {"other_teams_incident"}
    assert red["rules"] == {"out_of_range"}
    assert red["output"] == {"wrong_result"}
    assert {"write_without_approval", "nobody_answers"} <= red["approve"]
    assert {"killed_before", "killed_after", "lost_answer"} <= red["claim"]
    assert "self_declared_admin" in red["permission"]


def test_the_drill_is_drawn_with_its_counts(found):
    picture = sabotage_picture({"rules": found["rules"]})
    assert picture.text == "rules       red: 1"
    assert red_rows(found["rules"])[0] in picture.svg


def test_a_guard_that_does_not_exist_cannot_be_taken_out():
    with pytest.raises(ValueError, match="no guard 'loop'"):
        without("loop")


def test_the_boards_across_the_chapters_grow():
    lines = boards_across(["01", "12"]).text.splitlines()
    assert lines[0].endswith("5 of 52") and lines[1].endswith("52 of 52")
