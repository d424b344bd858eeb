"""The loop: every call is answered before the model is asked again, and a run ends for a reason that is true."""

import json
import re
import threading
import types

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from keel import ApprovalDesk, ExecutionContext, Harness, MemoryLedger, Principal, ToolFailure, ToolRegistry
from keel import loop as loop_module
from keel.adapters import ModelFailure, ModelTurn
from keel.contracts import ToolRequest
from keel.lab.recordings import proposal_turn, proposals_turn
from keel.loop import Agent, Budget, Run, Stop
from keel.models import ScriptedModel

from .kit import label

AMIRA = ExecutionContext(principal=Principal(id="amira", permissions=["desk:write"]), run_id="run-1")
BOSS = Principal(id="boss", permissions=["approvals:decide"])
DONE = ModelTurn(text="Done.")


def check_history(messages, waiting=()):
    """What a provider asks of a conversation: each call is answered once, right behind its turn, in call order.

    Only the last turn may have calls without answers: those that the run says it waits for.
    """
    json.dumps(messages, ensure_ascii=False, allow_nan=False).encode()
    left = list(messages)
    assert left and left[0]["role"] in ("system", "user")
    while left:
        message = left.pop(0)
        assert message["role"] in ("system", "user", "assistant")  # an answer to no call would be the fourth
        calls = message.get("tool_calls", [])
        ids = [one["id"] for one in calls]
        assert len(set(ids)) == len(ids) and all(ids)
        assert isinstance(message["content"], str) or (message["content"] is None and calls)
        for one in calls:
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", one["function"]["name"])
            assert isinstance(json.loads(one["function"]["arguments"]), dict)
        if calls and not left and waiting:
            assert ids == [one.request.provider_id for one in waiting]
            return
        answers, left = left[: len(calls)], left[len(calls) :]
        assert [(one["role"], one["tool_call_id"]) for one in answers] == [("tool", one) for one in ids]
    assert not waiting


def check_run(run):
    """A run may be saved at any moment, and its history is valid then."""
    check_history(run.messages, run.turn)
    assert Run.model_validate_json(run.model_dump_json().encode()) == run


class Model:
    """Says what it is told to, raises what it is told to, and checks what it is asked."""

    def __init__(self, *says):
        self.says, self.asked = list(says), []

    def complete(self, messages, tools=()):
        check_history(messages)
        self.asked.append(messages)
        said = self.says.pop(0) if self.says else DONE
        if isinstance(said, BaseException):
            raise said
        return said


class Desk:
    """Tools that note what they did: a read, a write that runs unasked, a write for which a person is asked."""

    def __init__(self, *ends, ledger=None, timeout_s=None):
        self.ends, self.did, self.effects = list(ends), [], []
        self.registry, self.ledger = ToolRegistry(), ledger or MemoryLedger()
        write = {"permission": "desk:write", "errors": ["closed"], "timeout_s": timeout_s}
        self.registry.tool(self.look, read_only=True, errors=["closed"], timeout_s=timeout_s)
        self.registry.tool(self.order, needs_approval=False, **write)
        self.registry.tool(self.sign, **write)
        self.approvals = ApprovalDesk(self.ledger)
        self.harness = Harness(self.registry, ledger=self.ledger, approvals=self.approvals)

    def _do(self, what):
        self.did.append(what)
        end = self.ends.pop(0) if self.ends else None
        if not isinstance(end, ToolFailure):  # which promises that nothing happened
            self.effects.append(what)
        if callable(end):
            end = end()
        if isinstance(end, BaseException):
            raise end
        return what

    def look(self, at: str = "desk") -> str:
        """Look."""
        return self._do(f"look {at}")

    def order(self, what: str) -> str:
        """Order."""
        return self._do(f"order {what}")

    def sign(self, what: str) -> str:
        """Sign."""
        return self._do(f"sign {what}")

    def say(self, yes=True):
        for question in self.approvals.pending():
            (self.approvals.approve if yes else self.approvals.deny)(question.id, BOSS)

    def agent(self, *says, keep=check_run, cancel=None, **budget):
        self.model = says[0] if len(says) == 1 and hasattr(says[0], "complete") else Model(*says)
        return Agent(self.model, self.harness, Budget(**budget), keep=keep, cancel=cancel)

    def run(self, *says, **options):
        return self.agent(*says, **options).run("Help.", AMIRA)


CLOSED_NOW = ToolFailure("closed", "Come back later.", retryable=True)
CLOSED = ToolFailure("closed", "Closed for good.")


def look(at="desk"):
    return proposal_turn("look", {"at": at})


def order(what="paper"):
    return proposal_turn("order", {"what": what})


def sign(what="lease"):
    return proposal_turn("sign", {"what": what})


def answers(run):
    """What the model was answered, in order: `ok`, or the error's code."""
    results = [json.loads(one["content"]) for one in run.messages if one["role"] == "tool"]
    return ["ok" if one["ok"] else one["error"]["code"] for one in results]


def test_a_run_ends_with_an_answer():
    desk = Desk()
    run = desk.run(look(), order(), DONE)
    assert (run.stopped, run.answer, run.turns, run.calls) == (Stop.ANSWERED, "Done.", 3, 2)
    assert desk.did == ["look desk", "order paper"] and answers(run) == ["ok", "ok"]
    assert [one["role"] for one in run.messages] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    run = Desk().run(look(), ModelTurn(), turns=2)
    assert (run.stopped, run.answer) == (Stop.ANSWERED, ""), "an answer in the last turn is one, whatever it says"


def test_what_is_answered_stays_answered():
    agent = Desk().agent(DONE)
    run = agent.run("Help.", AMIRA)
    before = run.model_dump()
    assert agent.resume(run, AMIRA).model_dump() == before and len(agent.model.asked) == 1


def test_the_course_s_own_scripts_run_through_it():
    script = ScriptedModel([look(), DONE])
    assert Desk().run(script).answer == "Done."
    assert [len(one) for one in script.asked] == [1, 3]


def test_the_system_s_words_come_first():
    run = Agent(Model(DONE), Desk().harness, system="Be brief.").run("Help.", AMIRA)
    assert [one["role"] for one in run.messages] == ["system", "user", "assistant"]


DEEP = []
for _ in range(10_000):
    DEEP = [DEEP]
UNREADABLE = {
    "not JSON": ("look", "{"),
    "a list": ("look", "[1]"),
    "half a character": ("look", '{"at": "\ud83d"}'),
    "half a character, escaped": ("look", '{"at": "\\ud83d"}'),
    "half a character in an object": ("look", {"at": "\ud83d"}),
    "a number that is none": ("look", {"at": float("nan")}),
    "a number of many digits": ("look", {"at": 10**5000}),
    "lists in lists": ("look", {"at": DEEP}),
    "a thing": ("look", {"at": {1, 2}}),
    "bytes": ("look", b"\xff"),
    "no such tool": ("book", {}),
    "a foreign name": ("Look-at.it", {}),
    "half a name": ("look\ud83d", {}),
    "no name": (None, None),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_call_that_cannot_be_read_is_answered_between_those_that_can(what):
    desk = Desk()
    turn = proposals_turn(("look", {"at": "a"}), UNREADABLE[what], ("look", {"at": "b"}))
    run = desk.run(*[turn] * 5)
    assert desk.did == ["look a", "look b"] * 3 and run.stopped is Stop.STUCK, "stuck beside what works"
    first, second, third = answers(run)[:3]
    assert (first, third) == ("ok", "ok") and second in ("invalid_arguments", "unknown_tool")


@pytest.mark.parametrize(
    "ids", [("a", "a", "a"), ("", "", ""), (None, "call_1", None), ("a", "a_2", "a"), ("\ud83d",) * 3]
)
def test_ids_that_repeat_get_an_answer_each(ids):
    requests = [ToolRequest(provider_id=one, name="look", arguments={"at": str(at)}) for at, one in enumerate(ids)]
    run = Desk().run(ModelTurn(requests=requests), ModelTurn(requests=requests), DONE)
    told = [json.loads(one["content"])["data"] for one in run.messages if one["role"] == "tool"]
    assert told == ["look 0", "look 1", "look 2"] * 2


def test_the_turns_are_used_and_not_more():
    desk = Desk()
    run = desk.run(*[look()] * 9, turns=3)
    assert (run.stopped, run.turns, len(desk.model.asked)) == (Stop.BUDGET_EXCEEDED, 3, 3)
    assert "turns: 3 of 3" in run.why and answers(run) == ["ok"] * 3


def test_the_calls_are_used_and_what_is_over_is_answered():
    desk = Desk()
    run = desk.run(proposals_turn(*[("look", {"at": str(at)}) for at in range(5)]), calls=3)
    assert (run.stopped, run.calls, run.turns) == (Stop.BUDGET_EXCEEDED, 3, 1) and "calls: 3 of 3" in run.why
    assert desk.did == ["look 0", "look 1", "look 2"] and answers(run) == ["ok"] * 3 + ["budget_exceeded"] * 2


def test_with_its_calls_used_up_the_model_may_still_answer():
    assert Desk().run(look(), DONE, calls=1).stopped is Stop.ANSWERED
    assert Desk().run(DONE, calls=0).stopped is Stop.ANSWERED
    run = Desk().run(look(), look(), DONE, calls=1)
    assert run.stopped is Stop.BUDGET_EXCEEDED and answers(run) == ["ok", "budget_exceeded"]


def test_a_run_that_is_over_its_budget_stays_so_until_it_gets_more():
    desk = Desk()
    run = desk.run(look("a"), look("b"), calls=1)
    desk.agent(DONE, calls=1).resume(run, AMIRA)
    assert run.stopped is Stop.BUDGET_EXCEEDED and not desk.model.asked
    desk.agent(look("b"), DONE, calls=2).resume(run, AMIRA)
    assert run.stopped is Stop.ANSWERED and desk.did == ["look a", "look b"] and run.calls == 2


def test_a_call_that_cannot_be_read_costs_no_call():
    desk = Desk()
    run = desk.run(proposals_turn(("look", "{"), ("look", {})), DONE, calls=1)
    assert run.stopped is Stop.ANSWERED and run.calls == 1 and answers(run) == ["invalid_arguments", "ok"]


def test_retries_count_as_calls():
    desk = Desk(*[CLOSED_NOW] * 9)
    run = desk.run(look("a"), look("b"), retries=5, calls=4)
    assert desk.did == ["look a"] * 4 and run.calls == 4
    assert (run.stopped, answers(run)) == (Stop.BUDGET_EXCEEDED, ["closed", "budget_exceeded"])


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self, monkeypatch):
        self.now = 1e9
        monkeypatch.setattr(loop_module, "time", types.SimpleNamespace(monotonic=lambda: self.now))

    def wait(self, seconds):
        return lambda: setattr(self, "now", self.now + seconds)


def test_the_seconds_are_those_in_which_it_ran(monkeypatch):
    clock = Clock(monkeypatch)
    desk = Desk(*[clock.wait(4)] * 9)
    run = desk.run(look("a"), sign(), look("b"), look("c"), seconds=10)
    assert (run.stopped, run.seconds) == (Stop.APPROVAL_PENDING, 4)
    clock.now += 1000
    desk.say()
    desk.agent(look("b"), look("c"), seconds=10).resume(run, AMIRA)
    assert (run.stopped, run.seconds) == (Stop.BUDGET_EXCEEDED, 12) and "seconds: 12 of 10" in run.why
    assert desk.did == ["look a", "sign lease", "look b"]


def test_no_time_left_means_that_nothing_begins():
    desk = Desk()
    run = desk.run(look(), seconds=0)
    assert run.stopped is Stop.BUDGET_EXCEEDED and not desk.model.asked and run.turns == 0


def test_what_hangs_is_left_when_the_time_is_up():
    gate = threading.Event()
    desk = Desk(gate.wait, timeout_s=30)
    run = desk.run(look(), seconds=0.05)
    gate.set()
    assert run.stopped is Stop.BUDGET_EXCEEDED and answers(run) == ["budget_exceeded"] and run.calls == 1


@pytest.mark.parametrize("deadline", [-1.0, float("nan")])
def test_a_deadline_of_the_host_s_ends_it_too(deadline):
    desk = Desk()
    run = desk.agent(look()).run("Help.", AMIRA.model_copy(update={"deadline": deadline}))
    assert run.stopped is Stop.BUDGET_EXCEEDED and "deadline" in run.why and not desk.model.asked


def test_tokens_are_added_up():
    desk = Desk()
    run = desk.run(*[look().model_copy(update={"tokens": 40})] * 9, tokens=100)
    assert (run.stopped, run.tokens, run.turns) == (Stop.BUDGET_EXCEEDED, 120, 3) and answers(run) == ["ok"] * 3


@pytest.mark.parametrize("what", ["turns", "calls", "seconds", "tokens", "retries", "history_bytes", "same_failure"])
@pytest.mark.parametrize("limit", [-1, float("nan"), "many"], ids=label)
def test_a_budget_that_would_bound_nothing_is_none(what, limit):
    with pytest.raises(ValidationError):
        Budget(**{what: limit})


def test_a_model_that_fails_stops_the_run_and_may_be_asked_again():
    desk = Desk()
    run = desk.run(look(), ModelFailure("too busy \ud83d"))
    assert (run.stopped, run.why, run.turns) == (Stop.MODEL_FAILED, "too busy ?", 2)
    desk.agent(DONE).resume(run, AMIRA)
    assert (run.stopped, run.turns, run.why) == (Stop.ANSWERED, 3, "the model proposed no more calls")


def test_a_model_that_fails_for_ever_uses_up_its_turns():
    desk = Desk()
    run = desk.run(ModelFailure("-"), turns=3)
    for _ in range(5):
        desk.agent(ModelFailure("-"), turns=3).resume(run, AMIRA)
    assert (run.stopped, run.turns) == (Stop.BUDGET_EXCEEDED, 3)


def test_the_same_failing_call_in_three_turns_is_stuck():
    desk = Desk(*[CLOSED] * 9)
    run = desk.run(*[look()] * 9)
    assert (run.stopped, run.turns, len(desk.did)) == (Stop.STUCK, 3, 3) and "look failed 3 times" in run.why


def test_stuck_does_not_look_at_ids_or_spelling():
    spelled = [{"a": 1, "b": 2}, '{"b":2,"a":1}', ' { "a" : 1.0, "b" : 2 }']
    requests = [ToolRequest(provider_id=f"id_{at}", name="look", arguments=one) for at, one in enumerate(spelled)]
    assert Desk().run(*[ModelTurn(requests=[one]) for one in requests]).stopped is Stop.STUCK


NOT_STUCK = {
    "other arguments": [look("a"), look("b"), look("c")],
    "another tool": [look(), order(), look()],
    "something else in between": [look(), look(), DONE.model_copy(update={"requests": look("b").requests}), look()],
    "the same three in one turn": [proposals_turn(*[("look", {})] * 3)],
}


@pytest.mark.parametrize("name", NOT_STUCK)
def test_what_is_not_stuck(name):
    assert Desk(*[CLOSED] * 9).run(*NOT_STUCK[name], DONE).stopped is Stop.ANSWERED


def test_success_is_never_stuck_and_ends_a_row_of_failures():
    assert Desk().run(*[look()] * 9, DONE).stopped is Stop.ANSWERED
    assert Desk(CLOSED, CLOSED, None, CLOSED, CLOSED).run(*[look()] * 5, DONE).stopped is Stop.ANSWERED


def test_what_the_budget_had_no_room_for_is_not_stuck():
    assert Desk().run(look(), calls=0, same_failure=1).stopped is Stop.BUDGET_EXCEEDED


def test_a_stuck_run_that_is_taken_up_is_stuck_on_the_same_and_on_nothing_else():
    desk = Desk(*[CLOSED] * 9)
    run = desk.run(*[look()] * 3)
    again = Run.model_validate_json(run.model_dump_json())
    assert desk.agent(look(), DONE).resume(run, AMIRA).stopped is Stop.STUCK
    assert desk.agent(look("b"), DONE).resume(again, AMIRA).stopped is Stop.ANSWERED


def test_a_read_that_may_work_another_time_is_repeated_and_bounded():
    desk = Desk(CLOSED_NOW)
    run = desk.run(look(), DONE)
    assert desk.did == ["look desk"] * 2 and answers(run) == ["ok"] and run.calls == 2
    desk = Desk(*[CLOSED_NOW] * 9)
    run = desk.run(look(), DONE, retries=2)
    assert len(desk.did) == 3 and answers(run) == ["closed"] and run.calls == 3
    assert len(desk.model.asked[-1]) == 3, "the model hears of one call, however often it was tried"


@pytest.mark.parametrize(
    "end", [CLOSED, OSError("lost"), ToolFailure("tool_failed", "-")], ids=["closed", "crash", "-"]
)
def test_a_read_whose_error_does_not_say_so_is_not_repeated(end):
    desk = Desk(end)
    desk.run(look(), DONE, retries=5)
    assert len(desk.did) == 1


@pytest.mark.parametrize(
    "end", [CLOSED_NOW, OSError("lost"), ToolFailure("tool_failed", "-", retryable=True)], ids=label
)
def test_a_write_is_never_repeated_by_the_loop(end):
    desk = Desk(end)
    run = desk.run(order(), DONE, retries=5)
    assert desk.did == ["order paper"] and run.calls == 1 and answers(run) != ["ok"]


def test_after_a_cancel_nothing_begins_also_no_retry():
    cancel = threading.Event()
    desk = Desk(lambda: cancel.set() or CLOSED_NOW)
    turn = proposals_turn(("look", {}), ("order", {"what": "a"}), ("look", "{"), ("look", {}), ("look", {}))
    run = desk.run(turn, cancel=cancel, calls=4)
    assert (run.stopped, desk.did) == (Stop.CANCELLED, ["look desk"]) and run.calls == 4
    assert sorted(answers(run)) == ["cancelled"] * 3 + ["closed", "invalid_arguments"]
    assert desk.agent(cancel=cancel).resume(run, AMIRA).stopped is Stop.CANCELLED and not desk.model.asked
    cancel.clear()
    desk.agent(DONE, cancel=cancel).resume(run, AMIRA)
    assert run.stopped is Stop.ANSWERED


TEXTS = st.sampled_from(["a", "b"])
PROPOSED = st.one_of(
    st.tuples(st.just("look"), st.sampled_from([{}, {"at": "a"}, '{"at": "b"}', {"at": 1}])),
    st.tuples(st.sampled_from(["order", "sign"]), st.one_of(st.builds(dict, what=TEXTS), st.just({}))),
    st.sampled_from(list(UNREADABLE.values())),
)
IDS = st.sampled_from([None, "", "a", "b", "\ud83d"])
REQUESTS = st.builds(lambda one, sent: ToolRequest(provider_id=one, name=sent[0], arguments=sent[1]), IDS, PROPOSED)
TURNS = st.builds(ModelTurn, text=TEXTS, requests=st.lists(REQUESTS, max_size=5).map(tuple))
BREAKS = st.sampled_from([ModelFailure("-"), KeyboardInterrupt(), OSError("-")])
ENDS = st.sampled_from([None, None, None, CLOSED, CLOSED_NOW, OSError("lost"), KeyboardInterrupt(), SystemExit()])
FEW = st.integers(0, 9)


@settings(max_examples=300)
@given(st.lists(st.one_of(TURNS, TURNS, BREAKS), max_size=6), st.lists(ENDS, max_size=9), FEW, FEW, st.data())
def test_any_run_stays_valid_within_its_budget_and_does_nothing_twice(says, ends, turns, calls, data):
    """Whatever model, tools and host do, and however often it is broken off and taken up."""
    desk, kept, interrupts = Desk(*ends), [], 0
    broken = data.draw(st.sets(st.integers(0, 30), max_size=3))

    def keep(run):
        check_run(run)
        assert run.turns <= turns and run.calls <= calls
        kept.append(run)
        if len(kept) in broken:
            raise OSError("the disk is full")

    agent = desk.agent(Model(*says), keep=keep, turns=turns, calls=calls, history_bytes=500)
    run = Run(goal="Help.", run_id="run-1", messages=[{"role": "user", "content": "Help."}])
    while run.stopped not in (Stop.ANSWERED, Stop.BUDGET_EXCEEDED):
        try:
            agent.resume(run, AMIRA)
        except (KeyboardInterrupt, OSError):
            interrupts += 1
        check_run(run)
        desk.say(data.draw(st.booleans()))
        run = Run.model_validate_json(run.model_dump_json()) if data.draw(st.booleans()) else run
    assert len(desk.model.asked) <= turns and (interrupts or len(desk.did) <= calls)
    for what in set(desk.effects) & {"order a", "order b", "sign a", "sign b"}:
        assert desk.effects.count(what) <= proposals(run, *what.split()), "a call had its effect twice"


def proposals(run, name, what):
    """How many calls of this tool with this argument the run holds."""
    calls = [one["function"] for message in run.messages for one in message.get("tool_calls", ())]
    return sum(one["name"] == name and json.loads(one["arguments"]) == {"what": what} for one in calls)
