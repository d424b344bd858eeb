"""Chapter 14's exercises: a write of one's own, an attack on a flawed harness, a lost answer from end to end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keel.contracts import ErrorCode
from keel.lab.exercises import carrying
from keel.lab.exercises.carrying import MOST_STEPS, OTHER, TICKET, TicketDesk
from keel.lab.exercises.model import Case, Exercise, Mistake, Trial
from keel.lab.exercises.pages import WRONG, add_page_solution, add_page_stub
from keel.lab.exercises.showing import show
from keel.lab.flawed import FlawedHarness
from keel.lab.gauntlet import as_principal
from keel.lab.pager import Page, Pager
from keel.lab.post import REWORDED, Post, context_of
from keel.lab.world import World
from keel.registry import ToolRegistry

# --- 14-a: add a write ----------------------------------------------------------------------------------------------

_Step = tuple[str, tuple[Any, ...], dict[str, Any]]


def _step(method: str, *given: Any, **more: Any) -> _Step:
    return method, given, more


def _ask(*given: Any, **more: Any) -> _Step:
    return _step("ask", *given, **more)


def _page(*given: Any, **more: Any) -> _Step:
    """Ask, agree to what waits, and let the same call go on."""
    return _step("page", *given, **more)


_YES, _AGAIN, _WORKS, _RECONCILE = map(_step, ("yes", "again", "works", "reconcile"))


def _written(step: _Step) -> str:
    method, given, more = step
    return f"{method}({', '.join([*map(show, given), *(f'{name}={show(value)}' for name, value in more.items())])})"


def _post_case(name: str, *steps: _Step, answers: list[Any], pages: list[str]) -> Case:
    """Steps at a post. Seen: what each that answers gave, and whom the pager woke."""

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        post, said = Post(answer), []
        for method, given, more in steps:
            heard = getattr(post, method)(*given, **more)
            said += [] if heard is None else [heard]
        return {"answers": said, "pages": post.pages}

    return Case(name, "; ".join(map(_written, steps)), run, {"answers": answers, "pages": pages})


def _contract_case() -> Case:
    """What was registered, and what a model is shown of it."""

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        registry = Post(answer).harness.registry
        tools = list(map(registry.lookup, registry.names()))
        arguments = [name for tool in tools for name in tool.input_schema["properties"]]
        return {"tools": registry.names(), "read_only": any(one.read_only for one in tools), "arguments": arguments}

    expected = {"tools": ["page_on_call"], "read_only": False, "arguments": ["incident_id", "message"]}
    return Case("contract", "add_page(registry, world, pager)", run, expected)


def _first(trial: Trial, name: str) -> Any:
    """The first answer of this case; None for another case."""
    return trial.got["answers"][0] if trial.case.name == name else None


def _too_many(name: str) -> Callable[[Trial, Any], bool]:
    return lambda first, _: first.case.name == name and len(first.got["pages"]) > 1


def _settled(name: str, state: str) -> Callable[[Trial, Any], bool]:
    return lambda first, _: first.case.name == name and [state] in first.got["answers"]


_REQUIRED, _UNKNOWN = "approval_required", "outcome_unknown"
_ONE = ["INC-001"]

# How each wrong answer shows. The first that fits is the one that is told.
_SHOWS: dict[str, Callable[[Trial, Any], bool]] = {
    "read_only": lambda first, _: first.case.name == "contract" and first.got["read_only"],
    "claimed_team": lambda first, _: any("team" in name for name in first.got["arguments"]),
    "unasked": lambda first, _: _first(first, "agreed") == "ok",
    "other_permission": lambda first, _: _first(first, "stranger") == _REQUIRED,
    "no_policy": lambda first, _: _first(first, "other_team") == _REQUIRED,
    "call_id_in_key": lambda first, _: (
        first.case.name == "two_incidents" and first.got["answers"] == ["ok", "idempotency_conflict"]
    ),
    "only_high": lambda first, _: _first(first, "critical") == "rule_violated",
    "no_rule": lambda first, _: first.case.name == "too_low" and first.got["pages"] == ["INC-006"],
    "raises_the_rule": lambda first, _: (
        first.case.name == "too_low" and first.got["answers"] == [_REQUIRED, 1, _UNKNOWN]
    ),
    "declares_the_rule": lambda first, _: _first(first, "too_low") == _REQUIRED and not first.got["pages"],
    "no_limit": lambda first, _: first.case.name == "length" and first.got["answers"] == [_REQUIRED] * 2,
    "no_business_key": _too_many("again"),
    "run_in_key": _too_many("new_run"),
    "message_in_key": _too_many("reworded"),
    "not_shared": _too_many("colleague"),
    "tells_all": lambda first, _: _first(first, "answer_lost") not in (None, *ErrorCode),
    "no_check": _settled("answer_lost", "unknown"),
    "says_it_did_not": _settled("answer_lost", "free"),
    "happened_without_data": lambda first, _: (
        first.case.name == "answer_lost" and first.got["answers"][-1] == "invalid_output"
    ),
    "says_it_happened": _settled("request_lost", "done"),
    "silence_is_no": _settled("silence", "free"),
    "key_not_handed_on": _too_many("late"),
}

ADD_PAGE = Exercise(
    id="14-a",
    name="add_page",
    minutes=25,
    stub=add_page_stub,
    solution=add_page_solution,
    cases=(
        _contract_case(),
        _post_case("agreed", _ask("INC-001"), _YES, _AGAIN, answers=[_REQUIRED, 1, "ok"], pages=_ONE),
        _post_case(
            "stranger",
            _ask("INC-001", who="stranger"),
            _YES,
            _AGAIN,
            answers=["permission_denied", 0, "permission_denied"],
            pages=[],
        ),
        _post_case(
            "other_team",
            _ask("INC-003"),
            _YES,
            _AGAIN,
            answers=["permission_denied", 0, "permission_denied"],
            pages=[],
        ),
        _post_case(
            "two_incidents",
            _page("INC-001"),
            _page("INC-003", who="fay"),
            answers=["ok", "ok"],
            pages=["INC-001", "INC-003"],
        ),
        _post_case("critical", _page("INC-002", who="dora"), answers=["ok"], pages=["INC-002"]),
        _post_case("too_low", _ask("INC-006"), _YES, _AGAIN, answers=["rule_violated", 0, "rule_violated"], pages=[]),
        _post_case("length", _step("ask_long", 200), _step("ask_long", 201), answers=[_REQUIRED, "refused"], pages=[]),
        _post_case("again", _page("INC-001"), _page("INC-001"), answers=["ok", "ok"], pages=_ONE),
        _post_case("new_run", _page("INC-001"), _page("INC-001", run="run-2"), answers=["ok", "ok"], pages=_ONE),
        _post_case(
            "reworded",
            _page("INC-001"),
            _page("INC-001", REWORDED),
            answers=["ok", "idempotency_conflict"],
            pages=_ONE,
        ),
        _post_case("colleague", _page("INC-001"), _page("INC-001", who="ben"), answers=["ok", "ok"], pages=_ONE),
        _post_case(
            "answer_lost",
            _step("breaks", "the answer is lost"),
            _page("INC-001"),
            _WORKS,
            _ask("INC-001"),
            _RECONCILE,
            _AGAIN,
            answers=[_UNKNOWN, _UNKNOWN, ["done"], "ok"],
            pages=_ONE,
        ),
        _post_case(
            "request_lost",
            _step("breaks", "the request is lost"),
            _page("INC-001"),
            _WORKS,
            _RECONCILE,
            _page("INC-001"),
            answers=[_UNKNOWN, ["free"], "ok"],
            pages=_ONE,
        ),
        _post_case(
            "silence",
            _step("breaks", "the answer is lost"),
            _page("INC-001"),
            _WORKS,
            _step("breaks", "the pager cannot be asked"),
            _RECONCILE,
            _AGAIN,
            answers=[_UNKNOWN, ["unknown"], _UNKNOWN],
            pages=_ONE,
        ),
        _post_case(
            "late",
            _step("breaks", "the request is late"),
            _page("INC-001"),
            _WORKS,
            _RECONCILE,
            _page("INC-001"),
            _step("arrive"),
            answers=[_UNKNOWN, ["free"], "ok"],
            pages=_ONE,
        ),
    ),
    mistakes=tuple(Mistake(name, WRONG[name], shows) for name, shows in _SHOWS.items()),
)

# --- 14-b: attack a flawed harness ----------------------------------------------------------------------------------

_AMIRAS = {"incident_id": "INC-001", "message": "login returns 502"}
_FAYS = {"incident_id": "INC-003", "message": "salary run stops"}

attack_solution = [{"incident_id": "inc-003", "message": "the salary run has stopped, all teams to the office"}]


def _fire(attack: Any) -> dict[str, Any]:
    """Send the calls in Amira's name, when a person has agreed to one page of hers and to one of Fay's.

    Seen: whether somebody was woken by a page that is not Amira's, or was not agreed to, or is the second of its kind.
    """
    calls = list(attack) if isinstance(attack, list | tuple) else [attack]
    if not all(type(one) is dict for one in calls):
        return {"wrong_page": False, "no_calls": [type(one).__name__ for one in calls if type(one) is not dict]}
    world, registry = World(), ToolRegistry()
    pager = Pager(world)
    add_page_solution(registry, world, pager)
    harness = FlawedHarness(registry.lookup("page_on_call"))
    for agreed in (_AMIRAS, _FAYS):
        harness.approve(agreed)
    answers = [_answer(harness, one) for one in calls]
    pages = [{"incident_id": page.incident_id, "message": page.message} for page in pager.sent]
    if pages not in ([], [_AMIRAS]):
        return {"wrong_page": True}
    return {"wrong_page": False, "answers": answers, "pages": [one["incident_id"] for one in pages]}


def _answer(harness: FlawedHarness, arguments: dict[str, Any]) -> str:
    try:
        return harness.handle(arguments, context_of("amira"))
    except Exception as error:  # its author has not thought of everything, and what falls over wakes nobody
        return type(error).__name__


ATTACK = Exercise(
    id="14-b",
    name="attack",
    minutes=15,
    stub=...,
    solution=attack_solution,
    cases=(Case("attack", "for arguments in attack: flawed.handle(arguments, amira)", _fire, {"wrong_page": True}),),
    mistakes=(
        Mistake("around", [Page(page_id="P-1", **_FAYS)], lambda first, _: bool(first.got["no_calls"])),
        Mistake("permitted", [_AMIRAS], lambda first, _: first.got["pages"] == _ONE),
        Mistake(
            "asks_only",
            [{**_FAYS, "incident_id": "INC-006"}],
            lambda first, _: "ok" not in (first.got["answers"] or ["ok"]),
        ),
    ),
)

# --- 14-c: a lost answer, from end to end ---------------------------------------------------------------------------


def _desk_case(
    name: str,
    desk: Callable[[], TicketDesk],
    report: str,
    tickets: int,
    begun: int,
    shown: str,
    before: Callable[[TicketDesk], None] = lambda desk: None,
    arguments: Any = TICKET,
    who: Any = None,
    or_not_done: bool = False,
) -> Case:
    """One request at a desk. Seen: the report, the tickets there are, and how often the body began.

    `or_not_done`: whoever asks the world once more may know by then that it was not done, and say so.
    """

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        made = desk()
        before(made)
        made.lose()
        seen = made.carry_out(answer, arguments, who or made.context)
        known = or_not_done and str(seen.get("report")).startswith("not_done")
        return seen | {"report": "unknown"} if known else seen

    expected = {"report": report, "tickets": tickets, "begun": begun}
    return Case(name, f"carry_out(harness, request, context)  # {shown}", run, expected)


_STRANGER = as_principal()

CARRY_OUT = Exercise(
    id="14-c",
    name="carry_out",
    minutes=20,
    stub=carrying.carry_out_stub,
    solution=carrying.carry_out_solution,
    cases=(
        _desk_case("works", TicketDesk, "done", 1, 1, "nothing is lost"),
        _desk_case("refused", TicketDesk, "not_done permission_denied", 0, 0, "no permission", who=_STRANGER),
        _desk_case("asks", lambda: TicketDesk(asked=True), f"not_done {_REQUIRED}", 0, 0, "nobody has agreed yet"),
        _desk_case("answer_lost", lambda: TicketDesk("after"), "done", 1, 1, "the answer is lost"),
        _desk_case("request_lost", lambda: TicketDesk("before"), "done", 1, 2, "the request is lost, once"),
        _desk_case(
            "nobody_can_tell",
            lambda: TicketDesk("after", tells=False),
            "unknown",
            1,
            1,
            "the answer is lost, and check_status cannot tell",
        ),
        _desk_case(
            "lost_again",
            lambda: TicketDesk("before", times=MOST_STEPS),
            "unknown",
            0,
            2,
            "each request is lost",
            or_not_done=True,
        ),
        _desk_case(
            "no_business_key",
            lambda: TicketDesk("after", key=False, tells=False),
            "unknown",
            1,
            1,
            "the same, and the tool has no business key",
        ),
        _desk_case(
            "another_unknown",
            lambda: TicketDesk("before"),
            "done",
            2,
            2,
            "another ticket's answer was lost before",
            before=lambda desk: desk.begin(OTHER),
        ),
        _desk_case(
            "begun_before",
            lambda: TicketDesk(),
            "done",
            1,
            0,
            "its answer was lost in a run before this one",
            before=lambda desk: desk.begin(TICKET),
        ),
        _desk_case(
            "agreed_once",
            lambda: TicketDesk("before", asked=True),
            f"not_done {_REQUIRED}",
            0,
            1,
            "a person agreed, and the request is lost",
            before=lambda desk: desk.agree(TICKET),
        ),
        _desk_case("unreadable", TicketDesk, "not_done invalid_arguments", 0, 0, "arguments: '{'", arguments="{"),
    ),
    mistakes=(
        Mistake("for_ever", carrying.carry_out_for_ever, lambda first, _: "asked" in first.got),
        Mistake(
            "second_ticket",
            carrying.carry_out_settles_by_hand,
            lambda first, _: first.case.name == "answer_lost" and first.got["tickets"] == 2,
        ),
        Mistake(
            "handles_again",
            carrying.carry_out_handles_again,
            lambda first, _: first.case.name == "no_business_key" and first.got["tickets"] == 2,
        ),
        Mistake(
            "unknown_is_done",
            carrying.carry_out_unknown_is_done,
            lambda first, _: first.case.expected["report"] == "unknown" and first.got["report"] == "done",
        ),
        Mistake(
            "unknown_is_no",
            carrying.carry_out_unknown_is_no,
            lambda first, _: first.case.name == "nobody_can_tell" and first.got["report"].startswith("not_done"),
        ),
        Mistake(
            "gives_up",
            carrying.carry_out_gives_up,
            lambda first, _: first.got["report"] == "unknown" != first.case.expected["report"],
        ),
        Mistake(
            "first_settled",
            carrying.carry_out_first_settled,
            lambda first, _: (
                first.case.name == "another_unknown" and first.got == {"report": "done", "tickets": 1, "begun": 1}
            ),
        ),
        Mistake(
            "hopes",
            carrying.carry_out_hopes,
            lambda first, _: first.case.name == "agreed_once" and first.got["report"] == "done",
        ),
        Mistake("reads_nothing", carrying.carry_out_reads_nothing, lambda first, _: first.case.name == "unreadable"),
    ),
)

EXERCISES = (ADD_PAGE, ATTACK, CARRY_OUT)
