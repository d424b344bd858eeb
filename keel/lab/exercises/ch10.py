"""Chapter 10's exercises: a yes that is used up, the stages in their order, what a person typed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from keel.lab.exercises.model import Case, Exercise, Mistake
from keel.lab.exercises.showing import show

# --- 10-a: redeem an approval ---------------------------------------------------------------------------------------


def redeem_stub(approvals, request): ...


def redeem_solution(approvals, request):
    bound = ("principal", "tool", "version", "key", "arguments")
    for approval in approvals:
        if all(approval[name] == request[name] for name in bound) and request["at"] < approval["until"]:
            approvals.remove(approval)
            return True
    return False


def _redeem_by(*bound: str, expires: bool = True) -> Callable[..., bool]:
    def redeem(approvals, request):
        for approval in approvals:
            stands = not expires or request["at"] < approval["until"]
            if stands and all(approval[name] == request[name] for name in bound):
                approvals.remove(approval)
                return True
        return False

    return redeem


def redeem_reusable(approvals, request):
    return redeem_solution(list(approvals), request)


def redeem_spends_on_refusal(approvals, request):
    for approval in list(approvals):
        if approval["tool"] == request["tool"]:
            approvals.remove(approval)
            if redeem_solution([approval], request):
                return True
    return False


def redeem_first_decides(approvals, request):
    bound = ("principal", "tool", "version", "key", "arguments")
    for approval in approvals:
        if all(approval[name] == request[name] for name in bound):
            if request["at"] >= approval["until"]:
                return False
            approvals.remove(approval)
            return True
    return False


def redeem_removes_all(approvals, request):
    bound = ("principal", "tool", "version", "key", "arguments")
    fitting = [
        approval
        for approval in approvals
        if all(approval[name] == request[name] for name in bound) and request["at"] < approval["until"]
    ]
    approvals[:] = [approval for approval in approvals if approval not in fitting]
    return bool(fitting)


_YES = {
    "principal": "ben",
    "tool": "create_ticket",
    "version": "1.0",
    "key": "ticket:INC-001",
    "arguments": '{"incident_id":"INC-001","title":"login returns 502"}',
    "until": 600,
}
_CALL = {name: value for name, value in _YES.items() if name != "until"} | {"at": 100}
_OTHER_TITLE = '{"incident_id":"INC-001","title":"login returns 503"}'


def _redeem_case(name: str, said: list[bool], *changes: dict[str, Any], until: tuple[int, ...] = (600,)) -> Case:
    """A yes to the call, or several of different age, and requests that differ from the call. Seen: what each got."""

    def run(answer: Callable[..., Any]) -> list[Any]:
        approvals = [{**_YES, "until": at} for at in until]
        return [answer(approvals, {**_CALL, **change}) for change in changes]

    requests = [f"redeem(approvals, call{f' | {show(change)}' if change else ''})" for change in changes]
    given = ", ".join(f"call | {{'until': {at}}}" for at in until)
    return Case(name, f"{'; '.join(requests)}  # approvals = [{given}], call['at'] = 100", run, said)


REDEEM = Exercise(
    id="10-a",
    name="redeem",
    minutes=10,
    stub=redeem_stub,
    solution=redeem_solution,
    cases=(
        _redeem_case("exact", [True], {}),
        _redeem_case("none", [False], {}, until=()),
        _redeem_case("twice", [True, False], {}, {}),
        _redeem_case("other_arguments", [False, True], {"arguments": _OTHER_TITLE}, {}),
        _redeem_case("other_principal", [False], {"principal": "amira"}),
        _redeem_case("other_tool", [False], {"tool": "close_ticket"}),
        _redeem_case("other_version", [False], {"version": "2.0"}),
        _redeem_case("other_key", [False], {"key": "run-2:c-1"}),
        _redeem_case("just_in_time", [True], {"at": 599}),
        _redeem_case("expired", [False], {"at": 600}),
        _redeem_case("old_and_new", [True], {}, until=(50, 600)),
        _redeem_case("two_good", [True, True, False], {}, {}, {}, until=(600, 700)),
    ),
    mistakes=(
        Mistake("reusable", redeem_reusable, lambda first, _: first.case.name == "twice" and first.got == [True, True]),
        Mistake(
            "by_tool_name",
            _redeem_by("tool"),
            lambda first, _: first.case.name == "other_arguments" and first.got[0] is True,
        ),
        Mistake(
            "spends_on_refusal",
            redeem_spends_on_refusal,
            lambda first, _: first.case.name == "other_arguments" and first.got == [False, False],
        ),
        Mistake(
            "ignores_version",
            _redeem_by("principal", "tool", "key", "arguments"),
            lambda first, _: first.case.name == "other_version" and first.got == [True],
        ),
        Mistake(
            "ignores_key",
            _redeem_by("principal", "tool", "version", "arguments"),
            lambda first, _: first.case.name == "other_key" and first.got == [True],
        ),
        Mistake(
            "ignores_expiry",
            _redeem_by("principal", "tool", "version", "key", "arguments", expires=False),
            lambda first, _: first.case.name == "expired" and first.got == [True],
        ),
        Mistake(
            "first_decides",
            redeem_first_decides,
            lambda first, _: first.case.name == "old_and_new" and first.got == [False],
        ),
        Mistake(
            "removes_all",
            redeem_removes_all,
            lambda first, _: first.case.name == "two_good" and first.got == [True, False, False],
        ),
    ),
)

# --- 10-b: the stages in their order --------------------------------------------------------------------------------

order_solution = ["lookup", "permission", "validate", "policies", "recall", "rules", "ask", "redeem", "run"]


def _moved(stage: str, before: str) -> list[str]:
    """The right order with one stage put in front of another."""
    left = [one for one in order_solution if one != stage]
    at = left.index(before)
    return [*left[:at], stage, *left[at:]]


class _Walk:
    """One call through the stages in the order of the answer.

    `stops` gives the code of each stage that would say no to this call. `yes` is whether a person has agreed to it,
    `dies` whether the process is killed while the body runs.
    """

    def __init__(self, stops: dict[str, str], yes: bool, dies: bool):
        self.stops, self.yes, self.dies = stops, yes, dies
        self.asked = self.ran = 0
        self.found: set[str] = set()

    def walk(self, stages: list[str]) -> dict[str, Any]:
        said = next(filter(None, map(self._stage, stages)), "ok")
        return {"answer": said, "asked": self.asked, "ran": self.ran, "yes_left": self.yes}

    def _stage(self, stage: str) -> str:
        """What this stage says to end the call, or nothing. What a stage works upon must have been found before it."""
        needs = dict.fromkeys(["permission", "validate"], "lookup")
        needs |= dict.fromkeys(["policies", "recall", "rules"], "validate")
        if needs.get(stage, stage) not in self.found | {stage}:
            return "internal_error"
        self.found.add(stage)
        if stage in self.stops:
            return self.stops[stage]
        return getattr(self, f"_{stage}", str)()

    def _ask(self) -> str:
        self.asked += not self.yes
        return "" if self.yes else "approval_required"

    def _redeem(self) -> str:
        had, self.yes = self.yes, False
        return "" if had else "approval_required"

    def _run(self) -> str:
        self.ran += 1
        return "killed" if self.dies else ""


def _order_case(name: str, said: str, *, yes: bool = False, ran: int = 0, dies: bool = False, **stops: str) -> Case:
    """One call. Seen: its answer, the questions put to a person, how often the body ran, and whether the yes is left.

    A person is rightly asked where the answer is `approval_required`, and a yes is rightly used up where the body ran.
    """

    def run(answer: Any) -> Any:
        if not isinstance(answer, list | tuple) or sorted(map(str, answer)) != sorted(order_solution):
            return answer
        return _Walk(stops, yes, dies).walk(list(answer))

    seen = {"answer": said, "asked": int(said == "approval_required"), "ran": ran, "yes_left": yes and not ran}
    shown = f"walk(order, stops={show(stops)}, yes={yes}{', killed_in_the_body=True' if dies else ''})"
    return Case(name, shown, run, seen)


ORDER = Exercise(
    id="10-b",
    name="order",
    minutes=10,
    stub=...,
    solution=order_solution,
    cases=(
        _order_case("agreed", "ok", yes=True, ran=1),
        _order_case("not_asked", "approval_required"),
        _order_case("killed", "killed", yes=True, ran=1, dies=True),
        _order_case("unknown", "unknown_tool", lookup="unknown_tool"),
        _order_case("stranger", "permission_denied", permission="permission_denied", validate="invalid_arguments"),
        _order_case("malformed", "invalid_arguments", validate="invalid_arguments"),
        _order_case(
            "other_team",
            "permission_denied",
            policies="permission_denied",
            recall="stored result",
            rules="rule_violated",
        ),
        _order_case("settled", "stored result", recall="stored result", rules="rule_violated"),
        _order_case("against_a_rule", "rule_violated", rules="rule_violated"),
    ),
    mistakes=(
        Mistake(
            "redeems_before_asking",
            _moved("redeem", "ask"),
            lambda first, _: first.case.name == "agreed" and first.got["asked"] == 1,
        ),
        Mistake(
            "runs_before_asking",
            _moved("run", "ask"),
            lambda first, _: first.case.name != "killed" and first.got["ran"] > first.case.expected["ran"],
        ),
        Mistake(
            "runs_before_redeeming",
            _moved("run", "redeem"),
            lambda first, _: first.case.name == "killed" and first.got["yes_left"] is True,
        ),
        Mistake(
            "asks_before_judging",
            _moved("ask", "policies"),
            lambda first, _: first.got["asked"] > first.case.expected["asked"],
        ),
        Mistake(
            "judges_strangers",
            _moved("validate", "permission"),
            lambda first, _: first.case.name == "stranger" and first.got["answer"] == "invalid_arguments",
        ),
        Mistake(
            "replays_to_strangers",
            _moved("recall", "policies"),
            lambda first, _: first.case.name == "other_team" and first.got["answer"] == "stored result",
        ),
        Mistake(
            "judges_what_is_done",
            _moved("rules", "recall"),
            lambda first, _: first.case.name == "settled" and first.got["answer"] == "rule_violated",
        ),
    ),
)

# --- 10-c: read an answer -------------------------------------------------------------------------------------------


def read_answer_stub(ask): ...


def read_answer_solution(ask):
    try:
        return ask().strip().lower() == "yes"
    except (EOFError, KeyboardInterrupt):
        return False


def read_answer_in_yes(ask):
    try:
        return ask().strip().lower() in "yes"
    except (EOFError, KeyboardInterrupt):
        return False


def read_answer_closed_approves(ask):
    answer = "yes"
    with suppress(EOFError, KeyboardInterrupt):
        answer = ask()
    return answer.strip().lower() == "yes"


def read_answer_interrupt_approves(ask):
    answer = "yes"
    try:
        answer = ask()
    except EOFError:
        return False
    except KeyboardInterrupt:
        pass
    return answer.strip().lower() == "yes"


def read_answer_starts_with_yes(ask):
    try:
        return ask().strip().lower().startswith("yes")
    except (EOFError, KeyboardInterrupt):
        return False


def read_answer_has_yes(ask):
    try:
        return "yes" in ask().lower()
    except (EOFError, KeyboardInterrupt):
        return False


def read_answer_not_no(ask):
    try:
        return ask().strip().lower() not in ("", "n", "no")
    except (EOFError, KeyboardInterrupt):
        return False


def read_answer_lets_it_out(ask):
    return ask().strip().lower() == "yes"


def read_answer_lets_the_interrupt_out(ask):
    try:
        return ask().strip().lower() == "yes"
    except EOFError:
        return False


def _answer_case(name: str, typed: str | type[BaseException], said: bool) -> Case:
    """One answer of a person, or a window that is closed, or an interrupt. Whoever is asked again has gone."""

    def run(answer: Callable[..., Any]) -> Any:
        left = [typed]

        def ask() -> str:
            given = left.pop() if left else EOFError
            if not isinstance(given, str):
                raise given
            return given

        return answer(ask)

    does = f"returns {typed!r}" if isinstance(typed, str) else f"raises {typed.__name__}"
    return Case(name, f"read_answer(ask)  # ask() {does}", run, said)


READ_ANSWER = Exercise(
    id="10-c",
    name="read_answer",
    minutes=10,
    stub=read_answer_stub,
    solution=read_answer_solution,
    cases=(
        _answer_case("yes", "yes", True),
        _answer_case("shouted", " YES \n", True),
        _answer_case("no", "no", False),
        _answer_case("empty", "", False),
        _answer_case("spaces", "   \n", False),
        _answer_case("one_letter", "e", False),
        _answer_case("y", "y", False),
        _answer_case("but", "yes but not the second", False),
        _answer_case("longer_word", "yesterday", False),
        _answer_case("not_yes", "I did not say yes", False),
        _answer_case("doubt", "what does it do?", False),
        _answer_case("closed", EOFError, False),
        _answer_case("interrupt", KeyboardInterrupt, False),
    ),
    mistakes=(
        Mistake("in_yes", read_answer_in_yes, lambda first, _: first.case.name == "empty" and first.got is True),
        Mistake(
            "no_is_no",
            read_answer_not_no,
            lambda first, trials: (
                first.case.name in ("spaces", "one_letter", "y") and trials["doubt"].got is True and first.got is True
            ),
        ),
        Mistake(
            "starts_with_yes",
            read_answer_starts_with_yes,
            lambda first, trials: first.case.name == "but" and first.got is True and trials["not_yes"].got is not True,
        ),
        Mistake("has_yes", read_answer_has_yes, lambda first, _: first.case.name == "but" and first.got is True),
        Mistake(
            "closed_approves",
            read_answer_closed_approves,
            lambda first, _: first.case.name == "closed" and first.got is True,
        ),
        Mistake(
            "interrupt_approves",
            read_answer_interrupt_approves,
            lambda first, _: first.case.name == "interrupt" and first.got is True,
        ),
        Mistake("lets_it_out", read_answer_lets_it_out, lambda first, _: first.crash.kind == "EOFError"),
        Mistake(
            "lets_the_interrupt_out",
            read_answer_lets_the_interrupt_out,
            lambda first, _: first.crash.kind == "KeyboardInterrupt",
        ),
    ),
)

EXERCISES = (REDEEM, ORDER, READ_ANSWER)
