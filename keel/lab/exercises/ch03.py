"""Chapter 03's exercises: register and look up, bind before the call, name the near miss."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable
from typing import Any

from keel.contracts import ToolFailure
from keel.lab.exercises.model import Case, Exercise, Mistake, outcome
from keel.lab.exercises.showing import show

# --- 03-a: register and look up -------------------------------------------------------------------------------------


class RegistryStub:
    def __init__(self): ...

    def register(self, name, function): ...

    def lookup(self, name): ...


class RegistrySolution:
    def __init__(self):
        self.tools = {}

    def register(self, name, function):
        if name in self.tools:
            raise ValueError(f"there is a tool {name} already")
        self.tools[name] = function

    def lookup(self, name):
        if name not in self.tools:
            raise ToolFailure("unknown_tool", f"There is no tool {name}. There are: {', '.join(self.tools)}.")
        return self.tools[name]


class RegistryOverwrites(RegistrySolution):
    def register(self, name, function):
        self.tools[name] = function


class RegistryKeyError(RegistrySolution):
    def lookup(self, name):
        return self.tools[name]


class RegistryNone(RegistrySolution):
    def lookup(self, name):
        return self.tools.get(name)


class RegistryShared(RegistrySolution):
    tools: dict[str, Any] = {}

    def __init__(self):
        self.tools.clear()


def _registry_case(name: str, shown: str, expected: list[Any], *steps: tuple[str, ...]) -> Case:
    """Some steps over two new registries. Seen: what each lookup found, and what a registration raised.

    A step is ("1.register", name, what its function says) or ("1.lookup", name).
    """

    def run(answer: Callable[[], Any]) -> list[Any]:
        registries, known = {"1": answer(), "2": answer()}, {}
        return [seen for step in steps if (seen := _registry_step(registries, known, *step))]

    return Case(name, shown, run, expected)


def _registry_step(registries: dict[str, Any], known: dict[Any, str], verb: str, name: str, says: str = "") -> Any:
    number, _, method = verb.partition(".")
    if method == "register":
        known[function := lambda: says] = says
        came_to = outcome(lambda: registries[number].register(name, function), ValueError)
        return came_to if "raised" in came_to else None
    came_to = outcome(lambda: registries[number].lookup(name))
    ours = [says for function, says in known.items() if function is came_to.get("returned")]
    return {"found": ours[0]} if ours else came_to


_ONE = ("1.register", "lookup_incident", "INC-001: login returns 502")
_FOUND = {"found": "INC-001: login returns 502"}

REGISTRY = Exercise(
    id="03-a",
    name="Registry",
    minutes=10,
    stub=RegistryStub,
    solution=RegistrySolution,
    cases=(
        _registry_case(
            "finds",
            'registry.lookup("lookup_incident")()',
            [_FOUND],
            _ONE,
            ("1.lookup", "lookup_incident"),
        ),
        _registry_case(
            "finds_each",
            'registry.lookup("add")(); registry.lookup("lookup_incident")()',
            [{"found": "5"}, _FOUND],
            _ONE,
            ("1.register", "add", "5"),
            ("1.lookup", "add"),
            ("1.lookup", "lookup_incident"),
        ),
        _registry_case(
            "unknown",
            'registry.lookup("delete_prod")',
            [{"raised": "unknown_tool"}],
            _ONE,
            ("1.lookup", "delete_prod"),
        ),
        _registry_case(
            "builtin", 'registry.lookup("print")', [{"raised": "unknown_tool"}], _ONE, ("1.lookup", "print")
        ),
        _registry_case("empty", 'Registry().lookup("add")', [{"raised": "unknown_tool"}], ("1.lookup", "add")),
        _registry_case(
            "twice",
            'registry.register("lookup_incident", another); registry.lookup("lookup_incident")()',
            [{"raised": "ValueError"}, _FOUND],
            _ONE,
            ("1.register", "lookup_incident", "nothing found"),
            ("1.lookup", "lookup_incident"),
        ),
        _registry_case(
            "two_registries",
            'one.register("lookup_incident", lookup_incident); other.lookup("lookup_incident")',
            [{"raised": "unknown_tool"}],
            _ONE,
            ("2.lookup", "lookup_incident"),
        ),
    ),
    mistakes=(
        Mistake(
            "shared",
            RegistryShared,
            lambda _, trials: trials["two_registries"].got[0] in (_FOUND, {"raised": "ValueError"}),
        ),
        Mistake("overwrites", RegistryOverwrites, lambda first, _: first.got == [{"found": "nothing found"}]),
        Mistake(
            "key_error",
            RegistryKeyError,
            lambda first, _: first.case.name == "unknown" and first.crash.kind == "KeyError",
        ),
        Mistake("none", RegistryNone, lambda first, _: first.got == [{"returned": None}]),
    ),
)

# --- 03-b: bind first -----------------------------------------------------------------------------------------------


def call_stub(function, arguments): ...


def call_solution(function, arguments):
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as problem:
        raise ToolFailure("invalid_arguments", str(problem)) from None
    return function(**arguments)


def call_escapes(function, arguments):
    return function(**arguments)


def call_catches_round(function, arguments):
    try:
        return function(**arguments)
    except TypeError as problem:
        raise ToolFailure("invalid_arguments", str(problem)) from None


def call_refuses_defaults(function, arguments):
    if set(arguments) != set(inspect.signature(function).parameters):
        raise ToolFailure("invalid_arguments", "The fields are others.")
    return function(**arguments)


def _call_case(name: str, function: str, arguments: dict[str, Any], **expected: Any) -> Case:
    """One call of one of the functions below. Seen: what came of it, and which bodies ran."""
    ran = expected.pop("ran", [function])

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        began: list[str] = []
        body = _bodies(began)[function]
        return {**outcome(lambda: answer(body, dict(arguments)), TypeError), "ran": began}

    return Case(name, f"call({function}, {show(arguments)})", run, {**expected, "ran": ran})


def _bodies(ran: list[str]) -> dict[str, Callable[..., Any]]:
    """Functions with and without defaults; each notes that it ran. `broken` has a bug of its own."""

    def add(a: int, b: int) -> int:
        ran.append("add")
        return a + b

    def query_data(table: str, limit: int = 100) -> str:
        ran.append("query_data")
        return f"{limit} rows of {table}"

    def read_file(path: str) -> str:
        ran.append("read_file")
        return f"no file {path}"

    def broken(table: str) -> str:
        ran.append("broken")
        return table + 1

    def lookup_incident(incident_id: str) -> str:
        ran.append("lookup_incident")
        raise ToolFailure("incident_not_found", f"There is no incident {incident_id}.")

    return {one.__name__: one for one in (add, query_data, read_file, broken, lookup_incident)}


_REFUSED: dict[str, Any] = {"raised": "invalid_arguments", "ran": []}

CALL = Exercise(
    id="03-b",
    name="call",
    minutes=10,
    stub=call_stub,
    solution=call_solution,
    cases=(
        _call_case("valid", "add", {"a": 2, "b": 3}, returned=5),
        _call_case("missing", "add", {"a": 2}, **_REFUSED),
        _call_case("extra", "add", {"a": 2, "b": 3, "c": 4}, **_REFUSED),
        _call_case("default_left_out", "query_data", {"table": "latency"}, returned="100 rows of latency"),
        _call_case("default_given", "query_data", {"table": "latency", "limit": 5}, returned="5 rows of latency"),
        _call_case("own_type_error", "broken", {"table": "latency"}, raised="TypeError"),
        _call_case("wrong_type", "read_file", {"path": 123}, returned="no file 123"),
        _call_case("business", "lookup_incident", {"incident_id": "INC-999"}, raised="incident_not_found"),
    ),
    mistakes=(
        Mistake(
            "escapes",
            call_escapes,
            lambda first, _: first.case.name in ("missing", "extra") and first.got["raised"] == "TypeError",
        ),
        Mistake(
            "refuses_defaults",
            call_refuses_defaults,
            lambda first, _: first.case.name == "default_left_out" and first.got["raised"] == "invalid_arguments",
        ),
        Mistake(
            "catches_round",
            call_catches_round,
            lambda first, _: first.case.name == "own_type_error" and first.got["raised"] == "invalid_arguments",
        ),
    ),
)

# --- 03-c: suggest the near name ------------------------------------------------------------------------------------


def suggest_stub(name, tools): ...


def suggest_solution(name, tools):
    near = difflib.get_close_matches(name, tools, n=1)
    offered = near or sorted(tools)[:5]
    return f"There is no tool {name[:40]}. Did you mean: {', '.join(offered)}?"


def suggest_runs(name, tools):
    near = difflib.get_close_matches(name, tools, n=1)
    return str(tools[near[0]]()) if near else f"There is no tool {name}. There are: {', '.join(tools)}."


def suggest_offers_none(name, tools):
    return f"There is no tool {name}."


def suggest_lists_all(name, tools):
    return f"There is no tool {name}. There are: {', '.join(tools)}."


SHORT = 300  # characters that a message may have
_COURSE = ("lookup_incident", "query_data", "read_file", "write_file", "create_ticket")
_MANY = (
    *(f"{verb}_{noun}_{n}" for verb in ("list", "count") for noun in ("host", "zone") for n in range(100)),
    *_COURSE,
)


def _suggest_case(name: str, asked: str, near: str, names: tuple[str, ...] = _COURSE) -> Case:
    """One name that is not registered. Seen: what the message offers ("any" will do for a far name), and what ran."""

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        ran: list[str] = []
        message = answer(asked, {one: _noting(ran, one) for one in names})
        if not isinstance(message, str):
            return {"returned": message, "ran": ran}
        offered = sorted(set(re.findall(r"[A-Za-z0-9_]+", message)).intersection(names))
        hit = near in offered or (near == "any" and offered)
        return {"offers": near if hit else offered[:3], "short": len(message) <= SHORT, "ran": ran}

    shown = f"suggest({asked!r}, tools)  # {len(names)}: {', '.join(names[-5:])}"
    return Case(name, shown, run, {"offers": near, "short": True, "ran": []})


def _noting(ran: list[str], name: str) -> Callable[..., str]:
    def body(*_: Any, **__: Any) -> str:
        ran.append(name)
        return "done"

    return body


SUGGEST = Exercise(
    id="03-c",
    name="suggest",
    minutes=10,
    stub=suggest_stub,
    solution=suggest_solution,
    cases=(
        _suggest_case("plural", "lookup_incidents", "lookup_incident"),
        _suggest_case("longer", "read_python_file", "read_file"),
        _suggest_case("typing_error", "qurey_data", "query_data"),
        _suggest_case("write", "create_tickets", "create_ticket"),
        _suggest_case("far", "delete_prod", "any"),
        _suggest_case("many", "lookup_incidents", "lookup_incident", _MANY),
    ),
    mistakes=(
        Mistake("runs", suggest_runs, lambda first, _: first.got["ran"] != []),
        Mistake(
            "offers_none",
            suggest_offers_none,
            lambda first, _: first.case.name != "far" and first.got["offers"] == [],
        ),
        Mistake(
            "lists_all", suggest_lists_all, lambda first, _: first.case.name == "many" and first.got["short"] is False
        ),
    ),
)

EXERCISES = (REGISTRY, CALL, SUGGEST)
