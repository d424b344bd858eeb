"""Chapter 07's exercises: a ledger in a dict, the key of a business action, a key that reaches the service."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import CodeType
from typing import Any

from keel.contracts import ExecutionContext, Principal, ToolFailure
from keel.lab.exercises.desks import TOO_MANY, Desk, Killed, Service, TooMany
from keel.lab.exercises.model import Case, Exercise, Mistake, Trial, outcome
from keel.lab.exercises.showing import show
from keel.lab.exercises.stubs import codes_of

# --- 07-a: a ledger of your own -------------------------------------------------------------------------------------


def once_stub(ledger, key, arguments, effect): ...


def once_solution(ledger, key, arguments, effect):
    if key not in ledger:
        ledger[key] = {"arguments": arguments}
        ledger[key]["result"] = effect()
    entry = ledger[key]
    if entry["arguments"] != arguments:
        raise ToolFailure("idempotency_conflict", "This key was used with other arguments.")
    if "result" not in entry:
        raise ToolFailure("outcome_unknown", "It was begun, and nobody knows whether it happened.")
    return entry["result"]


def once_claims_after(ledger, key, arguments, effect):
    if key not in ledger:
        result = effect()
        ledger[key] = {"arguments": arguments, "result": result}
    return once_solution(ledger, key, arguments, effect)


def once_old_result(ledger, key, arguments, effect):
    if key in ledger:
        arguments = ledger[key]["arguments"]
    return once_solution(ledger, key, arguments, effect)


def once_forgets_failures(ledger, key, arguments, effect):
    known = key in ledger
    try:
        return once_solution(ledger, key, arguments, effect)
    except Exception:
        if not known:
            del ledger[key]
        raise


def once_empty_is_new(ledger, key, arguments, effect):
    if key in ledger and ledger[key].get("result", "unknown") is None:
        del ledger[key]
    return once_solution(ledger, key, arguments, effect)


def once_trusts_tool_failures(ledger, key, arguments, effect):
    known = key in ledger
    try:
        return once_solution(ledger, key, arguments, effect)
    except ToolFailure:
        if not known:
            del ledger[key]
        raise


def once_unknown_first(ledger, key, arguments, effect):
    if "result" not in ledger.get(key, {"result": None}):
        raise ToolFailure("outcome_unknown", "It was begun, and nobody knows whether it happened.")
    return once_solution(ledger, key, arguments, effect)


_ASKED = {"title": "login returns 502", "incident_id": "INC-001"}
_TURNED = {"incident_id": "INC-001", "title": "login returns 502"}
_OTHER = {"title": "login returns 503", "incident_id": "INC-001"}


def _once_case(
    name: str, *calls: tuple[str, dict[str, Any]], said: list[Any], tickets: int, tells: bool = True
) -> Case:
    """Some calls over one ledger, none of which breaks. Seen: what each came to, and the tickets made."""

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        desk = Desk(tells=tells)
        return {"calls": [desk.call(answer, *call) for call in calls], "tickets": desk.tickets}

    shown = "; ".join(f"once(ledger, {key!r}, {show(arguments)}, effect)" for key, arguments in calls)
    return Case(name, shown, run, {"calls": said, "tickets": tickets})


_UNKNOWN, _CONFLICT = {"raised": "outcome_unknown"}, {"raised": "idempotency_conflict"}


def _broken_case(fault: str, tickets: int, name: str = "", second: dict[str, str] = _ASKED) -> Case:
    """The first call breaks in its effect, and two more are made. Seen: what those came to, and the tickets."""

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        desk = Desk(fault)
        first: Any = "raised"
        with suppress(Exception, Killed):
            first = {"returned": answer(desk.ledger, "k-1", dict(_ASKED), desk.effect)}
        said = [desk.call(answer, "k-1", arguments) for arguments in (second, _ASKED)]
        return {"first": first, "again": said, "tickets": desk.tickets}

    others = "" if second == _ASKED else "; the second time: other arguments"
    shown = f"once(ledger, 'k-1', arguments, effect)  # three times; the first effect: {fault}{others}"
    said = [_UNKNOWN if second == _ASKED else _CONFLICT, _UNKNOWN]
    return Case(name or fault, shown, run, {"first": "raised", "again": said, "tickets": tickets})


def _made_again(trial: Trial) -> bool:
    """Whether the first call let its failure out, and the second made another ticket."""
    return trial.got["first"] == "raised" and trial.got["again"][0] == _T2


_T1, _T2 = {"returned": "T-1"}, {"returned": "T-2"}

ONCE = Exercise(
    id="07-a",
    name="once",
    minutes=15,
    stub=once_stub,
    solution=once_solution,
    cases=(
        _once_case("first", ("k-1", _ASKED), said=[_T1], tickets=1),
        _once_case("again", ("k-1", _ASKED), ("k-1", _ASKED), said=[_T1, _T1], tickets=1),
        _once_case("other_key", ("k-1", _ASKED), ("k-2", _ASKED), ("k-1", _ASKED), said=[_T1, _T2, _T1], tickets=2),
        _once_case("other_order", ("k-1", _ASKED), ("k-1", _TURNED), said=[_T1, _T1], tickets=1),
        _once_case(
            "other_arguments",
            ("k-1", _ASKED),
            ("k-1", _OTHER),
            ("k-1", _ASKED),
            said=[_T1, _CONFLICT, _T1],
            tickets=1,
        ),
        _once_case(
            "no_result", ("k-1", _ASKED), ("k-1", _ASKED), said=[{"returned": None}] * 2, tickets=1, tells=False
        ),
        _broken_case("answer_lost", 1),
        _broken_case("request_lost", 0),
        _broken_case("killed", 1),
        _broken_case("tool_failure", 1),
        _broken_case("answer_lost", 1, "begun_with_others", _OTHER),
    ),
    mistakes=(
        Mistake(
            "old_result",
            once_old_result,
            lambda first, _: first.case.name == "other_arguments" and first.got["calls"][1] == _T1,
        ),
        Mistake(
            "empty_is_new",
            once_empty_is_new,
            lambda first, _: first.case.name == "no_result" and first.got["tickets"] == 2,
        ),
        Mistake(
            "claims_after",
            once_claims_after,
            lambda first, trials: (
                first.case.name in ("answer_lost", "request_lost", "killed") and trials["killed"].got["tickets"] > 1
            ),
        ),
        Mistake(
            "forgets_failures",
            once_forgets_failures,
            lambda first, _: first.case.name == "answer_lost" and _made_again(first),
        ),
        Mistake(
            "trusts_tool_failures",
            once_trusts_tool_failures,
            lambda first, _: first.case.name == "tool_failure" and _made_again(first),
        ),
        Mistake(
            "unknown_first",
            once_unknown_first,
            lambda first, _: first.case.name == "begun_with_others" and first.got["again"][0] == _UNKNOWN,
        ),
    ),
)

# --- 07-b: the ticket's key -----------------------------------------------------------------------------------------


def ticket_key_stub(values, context): ...


def ticket_key_solution(values, context):
    return json.dumps([values["title"], values["incident_id"]])


def ticket_key_call_id(values, context):
    return json.dumps([values["title"], values["incident_id"], context.call_id])


def ticket_key_run_id(values, context):
    return json.dumps([context.run_id, values["title"], values["incident_id"]])


def ticket_key_time(values, context):
    minute = datetime.datetime.now().strftime("%Y-%m-%d %H:%M")
    return json.dumps([minute, values["title"], values["incident_id"]])


def ticket_key_random(values, context):
    return f"{values['incident_id']}-{uuid.uuid4()}"


def ticket_key_hash(values, context):
    return str(hash((values["title"], values["incident_id"])))


def ticket_key_incident(values, context):
    return f"ticket:{values['incident_id']}"


def ticket_key_joined(values, context):
    return f"{values['incident_id']}:{values['title']}"


# What gives something else each time, or in each process: by these names code asks for it.
_CHANGING = {
    "hash", "time", "time_ns", "monotonic", "perf_counter", "datetime", "date", "now", "utcnow", "today", "uuid1",
    "uuid4", "random", "randint", "getrandbits", "token_hex", "token_bytes", "token_urlsafe", "secrets", "urandom",
    "getpid",
}  # fmt: skip
_SEPARATORS = (
    ":", "-", "_", "/", "|", ",", ";", ".", "#", "+", " ", ", ", "::", "\n", "\t", "\0", "\x1f", "", "'", '"', "', '",
)  # fmt: skip


def _context(run_id: str = "run-1", call_id: str = "c-1") -> ExecutionContext:
    return ExecutionContext(principal=Principal(id="amira"), run_id=run_id, call_id=call_id)


def _ticket(title: str, incident_id: str) -> dict[str, str]:
    return {"title": title, "incident_id": incident_id}


def _changing_names(answer: Any) -> list[str]:
    """The names in an answer's own code, inner functions too, that stand for a clock, for chance or for a process."""

    def names(code: CodeType) -> Iterator[str]:
        yield from code.co_names
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                yield from names(inner)

    return sorted(_CHANGING & {name for code in codes_of(answer) for name in names(code)})


def _text_case(name: str, title: str, incident_id: str) -> Case:
    """One key. Seen: what kind of thing it is, and whether there is something in it."""

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        key = answer(_ticket(title, incident_id), _context())
        return {"a_text": isinstance(key, str), "empty": not key}

    shown = f"ticket_key({show(_ticket(title, incident_id))}, context)"
    return Case(name, shown, run, {"a_text": True, "empty": False})


def _same_case(name: str, shown: str, other: dict[str, str], context: ExecutionContext) -> Case:
    """The same action twice. Seen: whether the keys are the same, and what in the code changes by itself."""

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        one, two = answer(dict(_ASKED), _context()), answer(dict(other), context)
        return {"same_key": one == two, "changes_by_itself": _changing_names(answer)}

    return Case(name, shown, run, {"same_key": True, "changes_by_itself": []})


def _other_case(name: str, other: dict[str, str]) -> Case:
    def run(answer: Callable[..., Any]) -> dict[str, bool]:
        return {"same_key": answer(dict(_ASKED), _context()) == answer(dict(other), _context())}

    return Case(name, f"ticket_key({show(_ASKED)}, …); ticket_key({show(other)}, …)", run, {"same_key": False})


def _joined_case() -> Case:
    """Pairs that look the same once they are joined. Seen: the first two that share a key, or None."""

    def run(answer: Callable[..., Any]) -> Any:
        for between in _SEPARATORS:
            one, two = _ticket(f"a{between}b", "c"), _ticket("a", f"b{between}c")
            turned = _ticket("c", f"a{between}b"), _ticket(f"b{between}c", "a")
            for left, right in ((one, two), turned):
                if answer(dict(left), _context()) == answer(dict(right), _context()):
                    return {"one_key_for": [left, right]}
        return {"one_key_for": None}

    shown = "ticket_key({'title': 'a…b', 'incident_id': 'c'}, …); ticket_key({'title': 'a', 'incident_id': 'b…c'}, …)"
    return Case("joined", shown, run, {"one_key_for": None})


TICKET_KEY = Exercise(
    id="07-b",
    name="ticket_key",
    minutes=10,
    stub=ticket_key_stub,
    solution=ticket_key_solution,
    cases=(
        _text_case("text", **_ASKED),
        _other_case("other_incident", {**_ASKED, "incident_id": "INC-002"}),
        _other_case("other_title", _OTHER),
        _same_case("later", "ticket_key(values, context)  # the same call, now and tomorrow", _ASKED, _context()),
        _same_case(
            "new_call",
            "ticket_key(values, context)  # call_id='c-1', then call_id='c-2'",
            _ASKED,
            _context(call_id="c-2"),
        ),
        _same_case(
            "new_run",
            "ticket_key(values, context)  # run_id='run-1', then run_id='run-2'",
            _ASKED,
            _context("run-2", "c-7"),
        ),
        _same_case(
            "other_order", f"ticket_key({show(_ASKED)}, …); ticket_key({show(_TURNED)}, …)", _TURNED, _context()
        ),
        _joined_case(),
    ),
    mistakes=(
        Mistake("incident_alone", ticket_key_incident, lambda first, _: first.case.name == "other_title"),
        Mistake(
            "hash",
            ticket_key_hash,
            lambda first, _: first.got["same_key"] and first.got["changes_by_itself"] == ["hash"],
        ),
        Mistake(
            "clock",
            ticket_key_time,
            lambda first, _: first.case.name == "later" and {"datetime", "time"} & {*first.got["changes_by_itself"]},
        ),
        Mistake("chance", ticket_key_random, lambda first, _: first.case.name == "later"),
        Mistake("call_id", ticket_key_call_id, lambda first, _: first.case.name == "new_call"),
        Mistake("run_id", ticket_key_run_id, lambda first, _: first.case.name == "new_run"),
        Mistake("joined", ticket_key_joined, lambda first, _: len(first.got["one_key_for"]) == 2),
    ),
)

# --- 07-c: pass the key on ------------------------------------------------------------------------------------------


def book_ticket_stub(title, context, service): ...


def book_ticket_solution(title, context, service):
    for left in (2, 1, 0):
        try:
            return service.book(title, key=context.idempotency_key)
        except ConnectionResetError:
            if not left:
                raise


def _three_times(send):
    for left in (2, 1, 0):
        try:
            return send(left)
        except ConnectionResetError:
            if not left:
                raise


def book_ticket_new_key(title, context, service):
    return _three_times(lambda left: service.book(title, key=f"{context.idempotency_key}-{left}"))


def book_ticket_no_key(title, context, service):
    return _three_times(lambda left: service.book(title))


def book_ticket_unread_field(title, context, service):
    return _three_times(lambda left: service.book(title, idempotency_key=context.idempotency_key))


def book_ticket_unbounded(title, context, service):
    while True:
        with suppress(ConnectionResetError):
            return service.book(title, key=context.idempotency_key)


def book_ticket_by_title(title, context, service):
    return _three_times(lambda left: service.book(title, key=title))


def _book_case(
    name: str, faults: tuple[str, ...], *keys: str, said: list[Any], tickets: int = 1, requests: int | None = None
) -> Case:
    """One body after another, each under a key and a call id of its own. Seen: what came back, tickets and keys."""

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        service, got = Service(faults), []
        for number, key in enumerate(keys, 1):
            context = _context(call_id=f"c-{number}").model_copy(update={"idempotency_key": key})
            try:
                got.append(
                    outcome(lambda context=context: answer("login returns 502", context, service), ConnectionResetError)
                )
            except TooMany:
                return {"requests": f"over {TOO_MANY}"}
        counted = {} if requests is None else {"requests": service.requests}
        return {"calls": got, **counted, **service.seen()}

    counted = {} if requests is None else {"requests": requests}
    shown = "; ".join(f"book_ticket('login returns 502', context(idempotency_key={key!r}), service)" for key in keys)
    note = f"  # service: {', '.join(faults)}" if faults else ""
    if len(faults) > TOO_MANY:
        note = f"  # service: {faults[0]}, every time"
    return Case(
        name, shown + note, run, {"calls": said, **counted, "tickets": tickets, "keys": min(tickets, len(set(keys)))}
    )


_LOST = {"raised": "ConnectionResetError"}

BOOK_TICKET = Exercise(
    id="07-c",
    name="book_ticket",
    minutes=10,
    stub=book_ticket_stub,
    solution=book_ticket_solution,
    cases=(
        _book_case("success", (), "k-1", said=[_T1], requests=1),
        _book_case("answer_lost", ("answer_lost",), "k-1", said=[_T1], requests=2),
        _book_case("request_lost", ("request_lost",), "k-1", said=[_T1], requests=2),
        _book_case("last_time", ("request_lost", "answer_lost"), "k-1", said=[_T1], requests=3),
        _book_case("never", ("answer_lost",) * 99, "k-1", said=[_LOST], requests=3),
        _book_case("called_again", ("answer_lost",) * 3, "k-1", "k-1", said=[_LOST, _T1]),
        _book_case("two_actions", (), "k-1", "k-2", said=[_T1, _T2], tickets=2),
    ),
    mistakes=(
        Mistake(
            "unread_field",
            book_ticket_unread_field,
            lambda first, _: len(first.got["fields_not_read"]) > 0,
        ),
        Mistake("no_key", book_ticket_no_key, lambda first, _: first.got["fields_not_read"] == []),
        Mistake(
            "new_key",
            book_ticket_new_key,
            lambda first, _: first.case.name == "answer_lost" and first.got["keys"] == first.got["tickets"] == 2,
        ),
        Mistake("unbounded", book_ticket_unbounded, lambda first, _: first.got["requests"] == f"over {TOO_MANY}"),
        Mistake(
            "by_title",
            book_ticket_by_title,
            lambda first, _: first.case.name == "two_actions" and first.got["tickets"] == 1,
        ),
    ),
)

EXERCISES = (ONCE, TICKET_KEY, BOOK_TICKET)
