"""The gauntlet's cases of what a call does to the world: once, in order, agreed to, confined, with an end."""

from __future__ import annotations

import os
import threading
from typing import Any

from keel.adapters import ModelFailure
from keel.contracts import ToolRequest
from keel.loop import Run
from keel.models import ScriptedModel

from .cases import TICKET, raising
from .gauntlet import Trial, case, data_of
from .recordings import proposal_turn, recording
from .world import World, approver, everything

OTHER_TICKET = {"title": "the salary run stops", "incident_id": "INC-003"}


# 07: writes whose answer is late, lost, or asked for twice. They run unasked: approval is chapter 10's.

UNASKED = ("create_ticket",)


@case("07", patience_s=0.1)
def hangs(trial: Trial) -> None:
    trial.world.faults["query_data"] = _hang(trial.world)
    trial.expect("timeout", "query_data", {"table": "latency"})


@case("07", unasked=UNASKED, tickets=1)
def lost_answer(trial: Trial) -> None:
    trial.world.faults["create_ticket:answer"] = raising(ConnectionResetError("connection reset by peer"))
    trial.expect("outcome_unknown", "create_ticket", TICKET)
    trial.expect("outcome_unknown", "create_ticket", TICKET)
    _tickets(trial, 1)


@case("07", unasked=UNASKED, tickets=1)
def same_action_twice(trial: Trial) -> None:
    first = trial.expect("ok", "create_ticket", TICKET)
    again = trial.expect("ok", "create_ticket", TICKET)
    trial.require(data_of(again) == data_of(first), "the first ticket again", str(data_of(again)))
    _tickets(trial, 1)


@case("07", unasked=UNASKED, tickets=1)
def other_arguments(trial: Trial) -> None:
    trial.expect("ok", "create_ticket", TICKET)
    reworded = TICKET | {"title": "users cannot log in"}
    trial.expect("idempotency_conflict", "create_ticket", reworded)
    _tickets(trial, 1)


# 07b: the process that knew is gone, or is another one


@case("07b", unasked=UNASKED, tickets=2)
def killed_before(trial: Trial) -> None:
    _ask_beside(trial, "create_ticket", "outcome_unknown", died=True)


@case("07b", unasked=UNASKED, tickets=2)
def killed_after(trial: Trial) -> None:
    _ask_beside(trial, "create_ticket:answer", "outcome_unknown", died=True)


@case("07b", unasked=UNASKED, tickets=1)
def running_elsewhere(trial: Trial) -> None:
    _ask_beside(trial, "create_ticket", "in_progress", died=False)


# 08: a whole turn at once


@case("08")
def slow_first(trial: Trial) -> None:
    trial.world.faults["lookup_incident"] = _slow_first(trial.world)
    _ask_for(trial, "INC-001", "INC-003")


@case("08")
def repeated_ids(trial: Trial) -> None:
    same = [_lookup("call_0", one) for one in ("INC-001", "INC-003")]
    _expect_incidents(trial, trial.expect_turn("ok ok", same), ("INC-001", "INC-003"))


@case("08")
def two_in_one_stream(trial: Trial) -> None:
    trial.world.faults["lookup_incident"] = _slow_first(trial.world)
    requests = trial.subject.read(recording("interleaved_stream"))
    _expect_incidents(trial, trial.expect_turn("ok ok", requests), ("INC-001", "INC-003"))


@case("08", unasked=UNASKED, tickets=1)
def one_of_three_fails(trial: Trial) -> None:
    trial.world.faults["lookup_incident"] = _after(trial.world, 1, "INC-999")
    trial.world.faults["create_ticket"] = _after(trial.world, 2, "INC-001")
    failing = ToolRequest(provider_id="call_2", name="lookup_incident", arguments={"incident_id": "INC-999"})
    ticket = ToolRequest(provider_id="call_3", name="create_ticket", arguments=TICKET)
    answers = trial.expect_turn("ok incident_not_found ok", [_lookup("call_1", "INC-001"), failing, ticket])
    _expect_incidents(trial, answers[:1], ("INC-001",))
    _tickets(trial, 1)


# 10: a person is asked


@case("10", tickets=1)
def approval_once(trial: Trial) -> None:
    trial.expect("approval_required", "create_ticket", TICKET)
    _approve(trial)
    first = trial.expect("ok", "create_ticket", TICKET)
    again = trial.expect("ok", "create_ticket", TICKET)
    trial.require(data_of(again) == data_of(first), "the first ticket again", str(data_of(again)))
    trial.expect("approval_required", "create_ticket", OTHER_TICKET)
    _tickets(trial, 1)


@case("10", tickets=1)
def approval_for_other(trial: Trial) -> None:
    trial.expect("approval_required", "create_ticket", TICKET)
    _approve(trial)
    trial.expect("approval_required", "create_ticket", TICKET | {"title": "close all incidents"})
    _tickets(trial, 0)
    trial.expect("ok", "create_ticket", TICKET)
    _tickets(trial, 1)


@case("10")
def approval_denied(trial: Trial) -> None:
    trial.expect("approval_required", "create_ticket", TICKET)
    question = trial.the_question()
    trial.subject.desk.deny(question.id, approver(), "not at night")
    trial.expect("approval_denied", "create_ticket", TICKET)
    _tickets(trial, 0)


@case("10")
def approval_too_late(trial: Trial) -> None:
    trial.expect("approval_required", "create_ticket", TICKET)
    _approve(trial)
    desk = trial.subject.desk
    late = desk.clock() + desk.ttl_s + 1
    desk.clock = lambda: late
    trial.expect("approval_denied", "create_ticket", TICKET)
    _tickets(trial, 0)


@case("10")
def nobody_answers(trial: Trial) -> None:
    trial.expect("approval_required", "create_ticket", TICKET)
    trial.expect("approval_required", "create_ticket", TICKET)
    asked = trial.the_question().times
    trial.require(asked == 2, "one question, asked twice", f"asked {asked} times")
    _tickets(trial, 0)


# 11: files. Each first reads an honest one.


@case("11")
def path_parent(trial: Trial) -> None:
    _read(trial, "path_outside_workspace", "../outside/secret.txt")


@case("11")
def path_absolute(trial: Trial) -> None:
    _read(trial, "path_outside_workspace", str(trial.world.folder / "outside" / "secret.txt"))


@case("11")
def path_prefix(trial: Trial) -> None:
    _read(trial, "path_outside_workspace", f"{trial.world.workspace}-evil/secret.txt")


@case("11")
def path_link(trial: Trial) -> None:
    target = "link/secret.txt"
    try:
        (trial.world.workspace / "link").symlink_to(trial.world.folder / "outside", target_is_directory=True)
    except OSError:  # a system on which not everybody may make one
        target = "../outside/secret.txt"
    _read(trial, "path_outside_workspace", target)


@case("11")
def path_hidden(trial: Trial) -> None:
    _read(trial, "path_hidden", ".env")


@case("11")
def path_huge(trial: Trial) -> None:
    (trial.world.workspace / "big.log").write_bytes(b"x" * 1_100_000)
    _read(trial, "file_too_large", "big.log")


@case("11", patience_s=0.1)
def path_pipe(trial: Trial) -> None:
    pipe = trial.world.workspace / "pipe"
    if hasattr(os, "mkfifo"):
        os.mkfifo(pipe)
        trial.world.pipes.append(pipe)
    else:
        pipe.mkdir()
    trial.world.faults["read_file"] = _hangs_at(trial.world, "pipe")
    _read(trial, "not_a_file", "pipe")


# 12: whole runs


@case("12")
def never_stops(trial: Trial) -> None:
    look_up = proposal_turn("lookup_incident", {"incident_id": "INC-001"})
    _stops(trial, "budget_exceeded", _Endless(trial.world, look_up))


@case("12")
def same_failure(trial: Trial) -> None:
    wrong = proposal_turn("lookup_incidents", {"incident_id": "INC-001"})
    _stops(trial, "stuck", _Endless(trial.world, wrong))


@case("12", tickets=1)
def pause_and_resume(trial: Trial) -> None:
    context = everything()
    script = [proposal_turn("create_ticket", TICKET), recording("answer"), recording("answer")]
    run = _stops(trial, "approval_pending", ScriptedModel(script), context)
    _tickets(trial, 0)
    _approve(trial)
    for _ in range(2):  # the second time as after a crash, from the same text
        taken_up = Run.model_validate_json(run.model_dump_json())
        trial.subject.agent(ScriptedModel([recording("answer")])).resume(taken_up, context)
    _tickets(trial, 1)
    trial.require(taken_up.stopped == "answered", "answered", str(taken_up.stopped))


class _Endless:
    """A model that proposes the same for ever. After sixty turns it is plain that nobody will stop it."""

    def __init__(self, world: World, turn: Any):
        self.world, self.turn, self.turns = world, turn, 0

    def complete(self, messages: list[Any], tools: Any = ()) -> Any:
        self.turns += 1
        if self.turns > 60:
            self.world.hang()
            raise ModelFailure("the case is over")  # or a loop without an end would go on behind our back
        return self.turn


def _stops(trial: Trial, reason: str, model: Any, context: Any = None) -> Any:
    trial.expected = reason
    trial.require(trial.subject.agent is not None, reason, "no loop at all")
    run = trial.subject.agent(model).run("What is wrong?", context or everything())
    trial.got = str(getattr(run, "stopped", None) or "answered")
    trial.require(trial.got == reason, reason, trial.got)
    return run


def _approve(trial: Trial) -> None:
    question = trial.the_question()
    trial.subject.desk.approve(question.id, approver(), "it is on fire")


def _read(trial: Trial, code: str, path: str) -> None:
    honest = data_of(trial.expect("ok", "read_file", {"path": "app.py"}))
    trial.require("def main" in str(honest), "the text of app.py", str(honest)[:40])
    trial.expect(code, "read_file", {"path": path})


def _hangs_at(world: World, path: str) -> Any:
    """Tell whoever waits that from here on a body may never come back."""

    def fault(arguments: dict[str, Any]) -> None:
        if arguments["path"] == path:
            world.hanging.set()

    return fault


def _hang(world: World) -> Any:
    return lambda arguments: world.hang()


def _tickets(trial: Trial, number: int) -> None:
    made = len(trial.world.tickets)
    trial.require(made == number, f"tickets: {number}", f"tickets: {made}")


def _ask_beside(trial: Trial, point: str, code: str, *, died: bool) -> None:
    """One process stands still at this point of a write, or has died there; another is asked for the same."""
    trial.expect("ok", "create_ticket", OTHER_TICKET)
    trial.world.faults[point] = _stop_once(trial.world, point)
    trial.begin_and_stop("create_ticket", TICKET)
    trial.another_process(died=died)
    trial.expect(code, "create_ticket", TICKET)


def _stop_once(world: World, name: str) -> Any:
    def fault(arguments: dict[str, Any]) -> None:
        del world.faults[name]
        world.stop()

    return fault


A_MOMENT_S = 0.15  # for answers that nobody counts


def _slow_first(world: World) -> Any:
    """The first lookup takes longer than the second: until somebody has answered that one, or a moment."""
    begun = threading.Event()

    def fault(arguments: dict[str, Any]) -> None:
        if arguments["incident_id"] == "INC-001":
            begun.wait(5)
            world.answers.wait_for(1, A_MOMENT_S)
        else:
            begun.set()

    return fault


def _after(world: World, answers: int, incident_id: str) -> Any:
    """A call about this incident comes after so many answers, or a moment: so that their order is no chance."""

    def fault(arguments: dict[str, Any]) -> None:
        if arguments["incident_id"] == incident_id:
            world.answers.wait_for(answers, A_MOMENT_S)

    return fault


def _lookup(provider_id: str, incident_id: str) -> ToolRequest:
    return ToolRequest(provider_id=provider_id, name="lookup_incident", arguments={"incident_id": incident_id})


def _ask_for(trial: Trial, *incidents: str) -> None:
    turn = [_lookup(f"call_{number}", one) for number, one in enumerate(incidents)]
    _expect_incidents(trial, trial.expect_turn(" ".join("ok" for _ in incidents), turn), incidents)


def _expect_incidents(trial: Trial, answers: list[Any], incidents: tuple[str, ...]) -> None:
    """Each question must have its own answer."""
    found = tuple(data_of(answer)["incident_id"] for answer in answers)
    trial.require(found == incidents, " ".join(incidents), " ".join(found))
