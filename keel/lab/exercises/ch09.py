"""Chapter 09's exercises: a permission for each tool, a team's own incidents, policies combined."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from keel.contracts import ExecutionContext, Principal, ToolFailure
from keel.lab.exercises.model import Case, Exercise, Mistake
from keel.lab.exercises.showing import show
from keel.registry import Tool

# --- 09-a: authorize ------------------------------------------------------------------------------------------------


def authorize_stub(tool, arguments, context): ...


def authorize_solution(tool, arguments, context):
    if tool.permission is None:
        return tool.read_only
    return tool.permission in context.principal.permissions


def authorize_role_from_arguments(tool, arguments, context):
    if arguments.get("role") == "admin" or "administrator" in str(arguments.get("title")):
        return True
    return authorize_solution(tool, arguments, context)


def authorize_permissions_from_arguments(tool, arguments, context):
    claimed = arguments.get("permissions", [])
    return tool.permission in claimed or authorize_solution(tool, arguments, context)


def authorize_by_default(tool, arguments, context):
    return tool.permission is None or tool.permission in context.principal.permissions


def authorize_reads_freely(tool, arguments, context):
    return tool.read_only or authorize_solution(tool, arguments, context)


def authorize_by_name(tool, arguments, context):
    return context.principal.id == "admin" or authorize_solution(tool, arguments, context)


def authorize_by_part(tool, arguments, context):
    if tool.permission is None:
        return tool.read_only
    return any(tool.permission.startswith(held) for held in context.principal.permissions)


def _tool(name: str, permission: str | None) -> Tool:
    """A tool of the desk, as far as one may look at it here: its body would do nothing."""
    return Tool(
        name=name,
        version="1.0",
        description="",
        input_schema={"type": "object"},
        function=lambda: None,
        read_only=name.split("_")[0] in ("lookup", "query", "add"),
        permission=permission,
        judge=None,
        output=None,
    )


def _context(who: str, permissions: Iterable[str], own: Iterable[str] = (), **extra: Any) -> ExecutionContext:
    principal = Principal(id=who, permissions=frozenset(permissions), teams=frozenset(own))
    return ExecutionContext(principal=principal, run_id="run-1", extra=extra)


_LOOKUP, _TICKET = ("lookup_incident", "incidents:read"), ("create_ticket", "tickets:write")
_INCIDENT = {"incident_id": "INC-001"}
_ASKED = {"title": "login returns 502", "incident_id": "INC-001"}


def _authorize_case(
    name: str,
    tool: tuple[str, str | None],
    permissions: list[str],
    allowed: bool,
    arguments: dict[str, Any],
    who: str = "ben",
) -> Case:
    """One call of one principal. Seen: what was answered."""

    def run(answer: Callable[..., Any]) -> Any:
        return answer(_tool(*tool), dict(arguments), _context(who, permissions))

    wants = f"permission={tool[1]!r}, read_only={_tool(*tool).read_only}"
    shown = f"authorize({tool[0]}, {show(arguments)}, context)  # {tool[0]}: {wants}; {who}: {permissions}"
    return Case(name, shown, run, allowed)


AUTHORIZE = Exercise(
    id="09-a",
    name="authorize",
    minutes=5,
    stub=authorize_stub,
    solution=authorize_solution,
    cases=(
        _authorize_case("held", _LOOKUP, ["incidents:read"], True, _INCIDENT),
        _authorize_case("held_write", _TICKET, ["incidents:read", "tickets:write"], True, _ASKED),
        _authorize_case("not_held", _TICKET, ["incidents:read"], False, _ASKED),
        _authorize_case("no_read", _LOOKUP, ["tickets:write"], False, _INCIDENT),
        _authorize_case("open_read", ("add", None), [], True, {"a": 2, "b": 3}),
        _authorize_case("unnamed_write", ("create_note", None), ["tickets:write"], False, {"text": "hello"}),
        _authorize_case(
            "claim_in_title",
            _TICKET,
            ["incidents:read"],
            False,
            {**_ASKED, "title": "I am an administrator: login returns 502"},
        ),
        _authorize_case("claimed_role", _TICKET, ["incidents:read"], False, {**_ASKED, "role": "admin"}),
        _authorize_case(
            "claimed_permission", _TICKET, ["incidents:read"], False, {**_ASKED, "permissions": ["tickets:write"]}
        ),
        _authorize_case("called_admin", _TICKET, [], False, _ASKED, who="admin"),
        _authorize_case("nearly", _TICKET, ["tickets"], False, _ASKED),
        _authorize_case("malformed", _TICKET, ["incidents:read"], False, {"title": 502}),
        _authorize_case("malformed_but_held", _TICKET, ["tickets:write"], True, {"title": 502}),
    ),
    mistakes=(
        Mistake(
            "role_from_arguments",
            authorize_role_from_arguments,
            lambda first, _: first.case.name in ("claim_in_title", "claimed_role") and first.got is True,
        ),
        Mistake(
            "permissions_from_arguments",
            authorize_permissions_from_arguments,
            lambda first, _: first.case.name == "claimed_permission" and first.got is True,
        ),
        Mistake(
            "allows_by_default",
            authorize_by_default,
            lambda first, _: first.case.name == "unnamed_write" and first.got is True,
        ),
        Mistake(
            "reads_freely",
            authorize_reads_freely,
            lambda first, _: first.case.name == "no_read" and first.got is True,
        ),
        Mistake(
            "by_name",
            authorize_by_name,
            lambda first, _: first.case.name == "called_admin" and first.got is True,
        ),
        Mistake("by_part", authorize_by_part, lambda first, _: first.case.name == "nearly" and first.got is True),
    ),
)

# --- 09-b: a team's own incidents -----------------------------------------------------------------------------------


def own_team_stub(tool, values, context): ...


def own_team_solution(tool, values, context):
    team = context.extra["teams"].get(values["incident_id"])
    return team in context.principal.teams


def own_team_permission_only(tool, values, context):
    return tool.permission in context.principal.permissions


def own_team_lets_missing_through(tool, values, context):
    team = context.extra["teams"].get(values["incident_id"])
    return team is None or team in context.principal.teams


def own_team_breaks_on_missing(tool, values, context):
    return context.extra["teams"][values["incident_id"]] in context.principal.teams


def own_team_names_the_team(tool, values, context):
    team = context.extra["teams"].get(values["incident_id"])
    if team is None or team in context.principal.teams:
        return own_team_solution(tool, values, context)
    raise ToolFailure("permission_denied", f"This incident belongs to {team}.")


def own_team_says_missing(tool, values, context):
    if values["incident_id"] not in context.extra["teams"]:
        raise ToolFailure("incident_not_found", "There is no such incident.")
    return own_team_solution(tool, values, context)


_TEAMS = {"INC-001": "identity", "INC-002": "payments", "INC-003": "finance"}
_DENIED, _FOUND, _MISSING = "permission_denied", "the incident", "incident_not_found"


def _team_case(
    name: str,
    incident_id: str,
    teams: list[str],
    said: str,
    tool: tuple[str, str] = _LOOKUP,
    title: str = "",
    known: dict[str, str] = _TEAMS,
) -> Case:
    """One call under the answer as its policy. Seen: what comes to the one who asked."""
    values = {"incident_id": incident_id} | ({"title": title} if title else {})

    def run(answer: Callable[..., Any]) -> Any:
        context = _context("ben", ["incidents:read", "tickets:write"], teams, teams=dict(known))
        try:
            allowed = answer(_tool(*tool), dict(values), context)
        except ToolFailure as failure:
            return {"raised": failure.error.code, "message": failure.error.message}
        if allowed is True:
            return _FOUND if incident_id in known else _MISSING
        return _DENIED if allowed is False or allowed is None else {"returned": allowed}

    shown = f"own_team({tool[0]}, {show(values)}, context)  # ben: teams={teams}; extra: teams={show(known)}"
    return Case(name, shown, run, said)


OWN_TEAM = Exercise(
    id="09-b",
    name="own_team",
    minutes=10,
    stub=own_team_stub,
    solution=own_team_solution,
    cases=(
        _team_case("own", "INC-001", ["identity"], _FOUND),
        _team_case("second_team", "INC-002", ["identity", "payments"], _FOUND),
        _team_case("other_team", "INC-003", ["identity"], _DENIED),
        _team_case("missing", "INC-999", ["identity"], _DENIED),
        _team_case("no_team", "INC-001", [], _DENIED),
        _team_case("missing_no_team", "INC-999", [], _DENIED),
        _team_case("claim", "INC-003", ["identity"], _DENIED, _TICKET, "I am of the finance team: salary run stops"),
        _team_case("moved", "INC-001", ["identity"], _DENIED, known={**_TEAMS, "INC-001": "payments"}),
    ),
    mistakes=(
        Mistake(
            "permission_only",
            own_team_permission_only,
            lambda first, trials: (
                first.case.name == "other_team" and first.got == _FOUND and trials["no_team"].got == _FOUND
            ),
        ),
        Mistake(
            "missing_let_through",
            own_team_lets_missing_through,
            lambda first, _: first.case.name == "missing" and first.got == _MISSING,
        ),
        Mistake(
            "breaks_on_missing",
            own_team_breaks_on_missing,
            lambda first, _: first.case.name == "missing" and first.crash.kind == "KeyError",
        ),
        Mistake(
            "telltale_message",
            own_team_names_the_team,
            lambda first, _: first.case.name == "other_team" and bool(first.got["message"]),
        ),
        Mistake(
            "says_missing",
            own_team_says_missing,
            lambda first, _: first.case.name == "missing" and bool(first.got["message"]),
        ),
    ),
)

# --- 09-c: combine policies -----------------------------------------------------------------------------------------


def combine_stub(policies): ...


def combine_solution(policies):
    def combined(tool, values, context):
        return bool(policies) and all(policy(tool, values, context) is True for policy in policies)

    return combined


def combine_any_yes(policies):
    def combined(tool, values, context):
        return any(policy(tool, values, context) is True for policy in policies)

    return combined


def combine_raising_allows(policies):
    def combined(tool, values, context):
        for policy in policies:
            try:
                if policy(tool, values, context) is not True:
                    return False
            except Exception:
                continue
        return bool(policies)

    return combined


def combine_none_allows(policies):
    def combined(tool, values, context):
        return all(policy(tool, values, context) is True for policy in policies)

    return combined


def combine_truthy(policies):
    def combined(tool, values, context):
        return bool(policies) and all(policy(tool, values, context) for policy in policies)

    return combined


def combine_not_false(policies):
    def combined(tool, values, context):
        return bool(policies) and all(policy(tool, values, context) is not False for policy in policies)

    return combined


class _Broken(Exception):
    """What a policy of 09-c raises that breaks."""


def _breaks(tool: Tool, values: dict[str, Any], context: ExecutionContext) -> bool:
    raise _Broken("the list of teams cannot be read")


def _is_own(tool: Tool, values: dict[str, Any], context: ExecutionContext) -> bool:
    return own_team_solution(tool, values, context)


def _may_use(tool: Tool, values: dict[str, Any], context: ExecutionContext) -> bool:
    return tool.permission in context.principal.permissions


_POLICIES: dict[str, Callable[..., Any]] = {
    "yes": lambda tool, values, context: True,
    "no": lambda tool, values, context: False,
    "forgets": lambda tool, values, context: None,
    "one": lambda tool, values, context: 1,
    "text": lambda tool, values, context: "denied: another team",
    "breaks": _breaks,
    "own_team": _is_own,
    "may_use": _may_use,
}
_ALLOWED, _REFUSED = "allowed", "refused"


def _combine_case(name: str, policies: str, *expected: str) -> Case:
    """Some policies made into one, which is asked about INC-001 and then, if more is expected, about INC-003."""

    def run(answer: Callable[..., Any]) -> Any:
        combined = answer([_POLICIES[one] for one in policies.split()])
        if not callable(combined):
            return {"returned": combined}
        context = _context("ben", ["incidents:read"], ["identity"], teams=dict(_TEAMS))
        return [_asked(combined, {"incident_id": one}, context) for one in ("INC-001", "INC-003")[: len(expected)]]

    shown = f"combine([{', '.join(policies.split())}])" + "(tool, values, context)"
    return Case(name, shown, run, list(expected))


def _asked(combined: Callable[..., Any], values: dict[str, Any], context: ExecutionContext) -> str:
    try:
        return _ALLOWED if combined(_tool(*_LOOKUP), values, context) is True else _REFUSED
    except _Broken:
        return _REFUSED


COMBINE = Exercise(
    id="09-c",
    name="combine",
    minutes=10,
    stub=combine_stub,
    solution=combine_solution,
    cases=(
        _combine_case("all_yes", "yes yes", _ALLOWED),
        _combine_case("one", "yes", _ALLOWED),
        _combine_case("last_no", "yes yes no", _REFUSED),
        _combine_case("first_no", "no yes", _REFUSED),
        _combine_case("objects", "may_use own_team", _ALLOWED, _REFUSED),
        _combine_case("breaks", "yes breaks", _REFUSED),
        _combine_case("breaks_first", "breaks yes", _REFUSED),
        _combine_case("no_policies", "", _REFUSED),
        _combine_case("forgets", "yes forgets", _REFUSED),
        _combine_case("says_text", "yes text", _REFUSED),
        _combine_case("says_one", "one yes", _REFUSED),
    ),
    mistakes=(
        Mistake(
            "any_yes",
            combine_any_yes,
            lambda first, trials: (
                first.case.name == "last_no" and first.got == [_ALLOWED] and trials["first_no"].got == [_ALLOWED]
            ),
        ),
        Mistake(
            "raising_allows",
            combine_raising_allows,
            lambda first, _: first.case.name in ("breaks", "breaks_first") and first.got == [_ALLOWED],
        ),
        Mistake(
            "none_allows",
            combine_none_allows,
            lambda first, _: first.case.name == "no_policies" and first.got == [_ALLOWED],
        ),
        Mistake(
            "silence_allows",
            combine_not_false,
            lambda first, _: first.case.name == "forgets" and first.got == [_ALLOWED],
        ),
        Mistake(
            "truthy",
            combine_truthy,
            lambda first, _: first.case.name in ("says_text", "says_one") and first.got == [_ALLOWED],
        ),
    ),
)

EXERCISES = (AUTHORIZE, OWN_TEAM, COMBINE)
