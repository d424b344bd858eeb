"""The on-call assistant is killed wherever it stands, and taken up: one ticket, a whole history, no second budget."""

import json
import os

import pytest

from keel.lab.capstone import BUDGET, OnCallModel, assistant, killed_assistant, take_up
from keel.lab.world import approver
from keel.ledger import State
from keel.loop import Stop
from keel.registry import Tool

from .killed_steps import killed_at
from .test_loop import answers, check_run

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork and no SIGKILL")


class Watched(OnCallModel):
    """The same model, that notes in the folder how often it was asked."""

    def __init__(self, folder, at):
        self.folder, self.at = folder, at

    def complete(self, messages, tools=()):
        with open(self.folder / "asked", "a") as file:
            file.write("asked\n")
        self.at("the model is asked")
        return super().complete(messages, tools)


def asked(folder):
    path = folder / "asked"
    return len(path.read_text().splitlines()) if path.exists() else 0


def working(folder, at, watch=False):
    """What a service does that starts, with a person who says yes to whatever waits."""
    duty = assistant(folder, Watched(folder, at))
    if watch:
        watch_bodies(at)
        keep = duty.keep
        duty.agent.keep = lambda run: (at("before it is saved"), keep(run), at("after it is saved"))
    run = duty.run() if duty.saved() is None else duty.take_up()
    while run.stopped is Stop.APPROVAL_PENDING:
        for question in duty.desk.pending():
            duty.desk.approve(question.id, approver())
        run = duty.take_up()
    return duty, run


def watch_bodies(at):
    """In a child only: tell of every body that begins, and of every one that ends."""
    call = Tool.call

    def watched(self, values, context):
        at(f"before {self.name}")
        try:
            return call(self, values, context)
        finally:
            at(f"after {self.name}")

    Tool.call = watched


def kill(folder, number):
    return killed_at(lambda at: working(folder, at, watch=True), number)


def check_taken_up(folder, kills):
    before = assistant(folder, OnCallModel()).saved()
    duty, run = working(folder, lambda step: None)
    check_run(run)
    assert run.stopped is Stop.ANSWERED and run.answer.endswith("Ticket T-1 is open.")
    assert [ticket.incident_id for ticket in duty.world.tickets] == ["INC-001"]
    codes = answers(run)
    assert codes[:2] == ["ok", "ok"] and codes[-1] == "ok" and set(codes[2:-1]) <= {"outcome_unknown"}
    proposed = [call["function"]["name"] for one in run.messages for call in one.get("tool_calls", ())]
    told = [json.loads(one["content"])["tool_name"] for one in run.messages if one["role"] == "tool"]
    assert proposed == told, "every call is answered, in the order of the calls"
    assert run.calls == len(told), "each call counts once, however often it was taken up"
    assert asked(folder) <= run.turns <= len(told) + 1 + kills and run.turns <= BUDGET.turns
    assert before is None or (before.turns <= run.turns and before.calls <= run.calls)
    duty.ledger.close()


STEPS = 51  # of a whole run; the first test holds it


@forks
def test_a_run_that_nobody_kills_comes_by_every_step(tmp_path):
    steps = kill(tmp_path, None)
    assert len(steps) == STEPS
    for name in ("lookup_incident", "read_file", "create_ticket"):
        assert steps.count(f"before {name}") == steps.count(f"after {name}") == 1
    check_taken_up(tmp_path, 0)


@forks
@pytest.mark.parametrize("number", [1, 3, 8, 25, 30, 34, 35, 37, 40, 47])
def test_an_assistant_that_is_killed_is_taken_up(tmp_path, number):
    assert len(kill(tmp_path, number)) == number
    check_taken_up(tmp_path, 1)


@forks
@pytest.mark.soak
@pytest.mark.parametrize("number", range(1, STEPS + 1))
def test_an_assistant_that_is_killed_at_any_step_is_taken_up(tmp_path, number):
    assert len(kill(tmp_path, number)) == number
    check_taken_up(tmp_path, 1)


@forks
@pytest.mark.soak
@pytest.mark.parametrize("number", range(1, STEPS + 1))
def test_an_assistant_that_is_killed_again_and_again_is_taken_up(tmp_path, number):
    for turn in range(3):
        kill(tmp_path, number if turn == 0 else (number * 7 + turn * 5) % 13 + 1)
    check_taken_up(tmp_path, 3)


@forks
def test_a_budget_is_not_filled_again_by_dying(tmp_path):
    """A process that dies whenever the model has been asked comes to an end, by its turns."""
    steps = ["the model is asked"]
    while "the model is asked" in steps:
        steps = kill(tmp_path, 3)
        assert asked(tmp_path) <= BUDGET.turns
    assert take_up(tmp_path, OnCallModel()).stopped is Stop.BUDGET_EXCEEDED


def test_a_process_of_its_own_that_is_killed_is_taken_up_in_this_one(tmp_path):
    killed_assistant(tmp_path, 5)
    saved = assistant(tmp_path, OnCallModel()).saved()
    assert saved.stopped is None and saved.turns > 0
    run = take_up(tmp_path, OnCallModel())
    assert run.stopped is Stop.APPROVAL_PENDING and run.run_id == saved.run_id
    check_taken_up(tmp_path, 1)


def test_a_process_that_is_killed_when_the_ticket_is_made_makes_no_second_one(tmp_path):
    duty = assistant(tmp_path, OnCallModel())
    duty.run()
    duty.desk.approve(duty.desk.pending()[0].id, approver())
    killed_assistant(tmp_path, "ticket")
    (entry,) = duty.ledger.entries()
    assert (entry.state, entry.live, len(duty.world.tickets)) == (State.RUNNING, False, 1)
    run = take_up(tmp_path, OnCallModel())
    assert run.stopped is Stop.ANSWERED and answers(run) == ["ok", "ok", "ok"], "it was settled before it was told"
    check_taken_up(tmp_path, 1)


def test_what_a_person_denies_makes_no_ticket_and_the_run_says_why_it_stands_still(tmp_path):
    duty = assistant(tmp_path, OnCallModel())
    run = duty.run()
    assert run.stopped is Stop.APPROVAL_PENDING
    duty.desk.deny(duty.desk.pending()[0].id, approver())
    run = take_up(tmp_path, OnCallModel())
    assert run.stopped is Stop.STUCK and "create_ticket" in run.why
    assert list(duty.world.tickets) == []


def test_where_nothing_was_saved_there_is_nothing_to_take_up(tmp_path):
    with pytest.raises(LookupError, match="begin one"):
        take_up(tmp_path, OnCallModel())
