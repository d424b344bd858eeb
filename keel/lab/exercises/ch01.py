"""Chapter 01's exercises: dispatch four calls, choose the next step, mint the call's id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from keel.lab.exercises.model import Case, Exercise, Mistake, Trial, case
from keel.lab.exercises.showing import show

# --- 01-a: dispatch a call ------------------------------------------------------------------------------------------


def dispatch_stub(call, tools): ...


def dispatch_solution(call, tools):
    tool = tools.get(call["name"])
    if tool is None:
        return {"ok": False, "code": "unknown_tool", "data": None}
    if set(call["arguments"]) != tool["fields"]:
        return {"ok": False, "code": "invalid_arguments", "data": None}
    if tool["needs_approval"]:
        return {"ok": False, "code": "approval_required", "data": None}
    return {"ok": True, "code": None, "data": tool["function"](**call["arguments"])}


def dispatch_form(call, tools):
    tool = tools.get(call["name"])
    if tool is None:
        return {"ok": False, "code": "unknown_tool"}
    if set(call["arguments"]) != tool["fields"]:
        return {"ok": False, "code": "invalid_arguments"}
    if tool["needs_approval"]:
        return {"ok": False, "code": "approval_required"}
    return {"ok": True, "code": "ok", "data": tool["function"](**call["arguments"])}


def dispatch_escapes(call, tools):
    tool = tools[call["name"]]
    if set(call["arguments"]) != tool["fields"]:
        return {"ok": False, "code": "invalid_arguments", "data": None}
    if tool["needs_approval"]:
        return {"ok": False, "code": "approval_required", "data": None}
    return {"ok": True, "code": None, "data": tool["function"](**call["arguments"])}


def dispatch_globals(call, tools):
    tool = tools.get(call["name"])
    if tool is None:
        function = globals().get(call["name"])
        if function is None:
            return {"ok": False, "code": "unknown_tool", "data": None}
        return {"ok": True, "code": None, "data": function(**call["arguments"])}
    if set(call["arguments"]) != tool["fields"]:
        return {"ok": False, "code": "invalid_arguments", "data": None}
    if tool["needs_approval"]:
        return {"ok": False, "code": "approval_required", "data": None}
    return {"ok": True, "code": None, "data": tool["function"](**call["arguments"])}


def dispatch_runs_first(call, tools):
    tool = tools.get(call["name"])
    if tool is None:
        return {"ok": False, "code": "unknown_tool", "data": None}
    if set(call["arguments"]) != tool["fields"]:
        return {"ok": False, "code": "invalid_arguments", "data": None}
    data = tool["function"](**call["arguments"])
    if tool["needs_approval"]:
        return {"ok": False, "code": "approval_required", "data": None}
    return {"ok": True, "code": None, "data": data}


def _dispatch_case(name: str, call: dict[str, Any], code: str | None = None, data: Any = None) -> Case:
    """One call over fresh tools. Seen: what came back, and which functions ran, which is what happened in the world."""

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        ran: list[str] = []
        with _decoy(answer, ran):
            returned = answer({"name": call["name"], "arguments": dict(call["arguments"])}, _tools(ran))
        return {"returned": returned, "ran": ran}

    returned = {"ok": code is None, "code": code, "data": data}
    ran = [call["name"]] if code is None else []
    return Case(name, f"dispatch({show(call)}, tools)", run, {"returned": returned, "ran": ran})


def _as_form(returned: Any) -> dict[str, Any]:
    """What an answer meant, if only its form is off: no `data` key, or another word than None for no code."""
    code = None if returned["ok"] is True and returned.get("code") in (None, "", "ok") else returned["code"]
    return {"ok": returned["ok"], "code": code, "data": returned.get("data") if returned["ok"] else None}


def _tools(ran: list[str]) -> dict[str, dict[str, Any]]:
    """A read and a write. Each notes that it ran; the read has a parameter that its contract does not offer."""

    def lookup_incident(incident_id: str, as_admin: bool = False) -> dict[str, str]:
        ran.append("lookup_incident")
        return {"id": incident_id, "service": "auth-api"}

    def create_ticket(title: str) -> dict[str, str]:
        ran.append("create_ticket")
        return {"ticket": "T-1"}

    return {
        "lookup_incident": {"function": lookup_incident, "fields": {"incident_id"}, "needs_approval": False},
        "create_ticket": {"function": create_ticket, "fields": {"title"}, "needs_approval": True},
    }


class _decoy:
    """While it is open, a harmless `delete_prod` stands among the globals of the answer, and notes that it ran."""

    def __init__(self, answer: Any, ran: list[str]) -> None:
        self.names = getattr(answer, "__globals__", {})
        self.ran = ran

    def __enter__(self) -> None:
        self.before = self.names.get("delete_prod", self)
        self.names["delete_prod"] = lambda *_, **__: self.ran.append("delete_prod")

    def __exit__(self, *_: Any) -> None:
        if self.before is self:
            del self.names["delete_prod"]
        else:
            self.names["delete_prod"] = self.before


DISPATCH = Exercise(
    id="01-a",
    name="dispatch",
    minutes=10,
    stub=dispatch_stub,
    solution=dispatch_solution,
    cases=(
        _dispatch_case(
            "valid",
            {"name": "lookup_incident", "arguments": {"incident_id": "INC-001"}},
            data={"id": "INC-001", "service": "auth-api"},
        ),
        _dispatch_case("unknown", {"name": "delete_prod", "arguments": {}}, "unknown_tool"),
        _dispatch_case("wrong_field", {"name": "lookup_incident", "arguments": {"id": "INC-001"}}, "invalid_arguments"),
        _dispatch_case("missing_field", {"name": "lookup_incident", "arguments": {}}, "invalid_arguments"),
        _dispatch_case(
            "hidden_field",
            {"name": "lookup_incident", "arguments": {"incident_id": "INC-001", "as_admin": True}},
            "invalid_arguments",
        ),
        _dispatch_case(
            "unapproved_write",
            {"name": "create_ticket", "arguments": {"title": "login returns 502"}},
            "approval_required",
        ),
        _dispatch_case(
            "malformed_write", {"name": "create_ticket", "arguments": {"subject": "login"}}, "invalid_arguments"
        ),
    ),
    mistakes=(
        Mistake(
            "form",
            dispatch_form,
            lambda first, _: (
                first.crash is None
                and first.got["ran"] == first.case.expected["ran"]
                and _as_form(first.got["returned"]) == first.case.expected["returned"]
            ),
        ),
        Mistake("escapes", dispatch_escapes, lambda first, _: first.crash is not None and first.case.name != "valid"),
        Mistake("globals", dispatch_globals, lambda first, _: "delete_prod" in first.got["ran"]),
        Mistake(
            "runs_first",
            dispatch_runs_first,
            lambda first, _: (
                first.got["ran"] == ["create_ticket"] and first.got["returned"]["code"] == "approval_required"
            ),
        ),
    ),
)

# --- 01-b: the next step for a code ---------------------------------------------------------------------------------


def what_next_stub(code): ...


def what_next_solution(code):
    steps = {
        "unknown_tool": "tell_model",
        "invalid_arguments": "tell_model",
        "approval_required": "ask_person",
        "permission_denied": "stop",
    }
    return steps[code]


def what_next_same_for_all(code):
    return "tell_model"


def what_next_another_name(code):
    return "stop" if code == "permission_denied" else "tell_model"


def what_next_asks_again(code):
    return "tell_model" if code in ("unknown_tool", "invalid_arguments") else "ask_person"


def _steps(trials: Mapping[str, Trial]) -> set[Any]:
    return {trial.got for trial in trials.values()}


WHAT_NEXT = Exercise(
    id="01-b",
    name="what_next",
    minutes=5,
    stub=what_next_stub,
    solution=what_next_solution,
    cases=(
        case("unknown_tool", "what_next", "unknown_tool", expected="tell_model"),
        case("invalid_arguments", "what_next", "invalid_arguments", expected="tell_model"),
        case("approval_required", "what_next", "approval_required", expected="ask_person"),
        case("permission_denied", "what_next", "permission_denied", expected="stop"),
    ),
    mistakes=(
        Mistake(
            "same_for_all",
            what_next_same_for_all,
            lambda first, trials: first.crash is None and isinstance(first.got, str) and len(_steps(trials)) == 1,
        ),
        Mistake(
            "another_name", what_next_another_name, lambda _, trials: trials["approval_required"].got == "tell_model"
        ),
        Mistake("asks_again", what_next_asks_again, lambda _, trials: trials["permission_denied"].got == "ask_person"),
    ),
)

# --- 01-c: mint the call's id ---------------------------------------------------------------------------------------


def mint_stub(proposal): ...


def mint_solution(proposal):
    import secrets

    return "call_" + secrets.token_hex(8)


def mint_models_id(proposal):
    import secrets

    return proposal.get("id") or "call_" + secrets.token_hex(8)


def mint_short(proposal):
    import random

    return f"call_{random.randint(1, 999)}"


def mint_hash(proposal):
    import hashlib
    import json

    return "call_" + hashlib.sha256(json.dumps(proposal, sort_keys=True).encode()).hexdigest()[:16]


def _mint_case(name: str, *proposals: dict[str, Any]) -> Case:
    """Mint one id for each proposal. Seen: facts about the ids and not the ids, which may differ in every run."""

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        ids = [answer({**proposal, "arguments": dict(proposal["arguments"])}) for proposal in proposals]
        return {
            "text": all(isinstance(one, str) and one.strip() != "" for one in ids),
            "all_different": len({show(one) for one in ids}) == len(ids),
            "the_models": any(one == proposal.get("id") for one, proposal in zip(ids, proposals, strict=True)),
        }

    shown = "; ".join(f"mint_id({show(proposal)})" for proposal in proposals)
    return Case(name, shown, run, {"text": True, "all_different": True, "the_models": False})


_LOOK = {"name": "lookup_incident", "arguments": {"incident_id": "INC-001"}}

MINT = Exercise(
    id="01-c",
    name="mint_id",
    minutes=10,
    stub=mint_stub,
    solution=mint_solution,
    cases=(
        _mint_case("own_id", {"id": "call_1", **_LOOK}),
        _mint_case("equal", _LOOK, _LOOK),
        _mint_case(
            "same_id", {"id": "call_1", **_LOOK}, {"id": "call_1", "name": "add", "arguments": {"a": 2, "b": 3}}
        ),
        _mint_case("no_id", {"id": None, **_LOOK}, {"id": "", **_LOOK}, _LOOK),
        _mint_case("many", *[_LOOK] * 5000),
    ),
    mistakes=(
        Mistake("models_id", mint_models_id, lambda first, _: first.got["the_models"] is True),
        Mistake(
            "hash",
            mint_hash,
            lambda _, trials: (
                trials["equal"].got == {"text": True, "all_different": False, "the_models": False}
                and trials["same_id"].got["all_different"] is True
            ),
        ),
        Mistake("short", mint_short, lambda first, _: first.case.name == "many" and first.crash is None),
    ),
)

EXERCISES = (DISPATCH, WHAT_NEXT, MINT)
