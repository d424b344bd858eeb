"""Answers to 14-a: the right one, and what goes wrong where a guard is left out."""

# No `from __future__ import annotations` here: a notebook has none, and the solution imports what its
# tool's contract is written in where it is needed. As text, those names could not be found again.
from collections.abc import Callable
from typing import Annotated, Any
from uuid import uuid4

from pydantic import Field

from keel.contracts import ExecutionContext, ToolFailure
from keel.lab.pager import Page
from keel.lab.world import IncidentId, same_team
from keel.settling import CannotTell, Happened, NotHappened


def add_page_stub(registry, world, pager): ...


def add_page_solution(registry, world, pager):
    from typing import Annotated

    from pydantic import Field

    from keel import CannotTell, ExecutionContext, Happened, NotHappened
    from keel.lab import IncidentId, Page, same_team

    def urgent(values, context):
        incident = world.incidents.get(values["incident_id"])
        if incident is None or incident.severity not in ("high", "critical"):
            return "Only an incident of severity high or critical wakes a person."

    def was_paged(values, context):
        try:
            page = pager.look(values["incident_id"])
        except ConnectionError:
            return CannotTell("the pager does not answer")
        return Happened(page) if page else NotHappened()

    @registry.tool(
        permission="pages:send",
        policies=[same_team(world)],
        rules=[urgent],
        idempotency_key=lambda values, context: f"page:{values['incident_id']}",
        shared=True,
        check_status=was_paged,
    )
    def page_on_call(
        incident_id: IncidentId, message: Annotated[str, Field(max_length=200)], context: ExecutionContext
    ) -> Page:
        """Wake the person on call for the incident's team. This cannot be undone."""
        return pager.send(incident_id, message, key=context.idempotency_key)


# --- The same with one thing done otherwise -------------------------------------------------------------------------

Message = Annotated[str, Field(max_length=200)]


def sends(pager, world):
    def page_on_call(incident_id: IncidentId, message: Message, context: ExecutionContext) -> Page:
        """Wake the person on call."""
        return pager.send(incident_id, message, key=context.idempotency_key)

    return page_on_call


def urgent(world, severities=("high", "critical"), unknown="There is no such incident."):
    def rule(values, context):
        incident = world.incidents.get(values["incident_id"])
        if incident is None:
            return unknown
        return None if incident.severity in severities else "Only an urgent incident wakes a person."

    return rule


def was_paged(pager, found=Happened, missing=NotHappened, silent=CannotTell):
    """A status check. `found`, `missing` and `silent` are what it says to a page, to none, and to no answer."""

    def check(values, context):
        try:
            page = pager.look(values["incident_id"])
        except ConnectionError:
            return silent()
        return found(page) if page else missing()

    return check


def by_incident(values, context):
    return f"page:{values['incident_id']}"


def adds(
    body: Callable = sends,
    check: Callable | None = was_paged,
    rules: Callable = lambda world: [urgent(world)],
    policies: Callable = lambda world: [same_team(world)],
    **options: Any,
) -> Callable:
    """The solution, with one thing done otherwise. The parts are functions of what they stand on."""

    def add_page(registry, world, pager):
        checks = {"check_status": check(pager)} if check else {}
        common = {"permission": "pages:send", "idempotency_key": by_incident, "shared": True}
        judges = {"policies": policies(world), "rules": rules(world)}
        registry.tool(body(pager, world), **{**common, **judges, **checks, **options})

    return add_page


def _any_text(pager, world):
    def page_on_call(incident_id: str, message: Message, context: ExecutionContext) -> Page:
        return pager.send(incident_id, message, key=context.idempotency_key)

    return page_on_call


def _no_limit(pager, world):
    def page_on_call(incident_id: IncidentId, message: str, context: ExecutionContext) -> Page:
        return pager.send(incident_id, message, key=context.idempotency_key)

    return page_on_call


def _asks_for_the_team(pager, world):
    def page_on_call(incident_id: IncidentId, message: Message, context: ExecutionContext, team: str = "") -> Page:
        return pager.send(incident_id, message, key=context.idempotency_key)

    return page_on_call


def _no_key(pager, world):
    def page_on_call(incident_id: IncidentId, message: Message) -> Page:
        return pager.send(incident_id, message)

    return page_on_call


def _new_key(pager, world):
    def page_on_call(incident_id: IncidentId, message: Message) -> Page:
        return pager.send(incident_id, message, key=str(uuid4()))

    return page_on_call


def _raises_the_rule(pager, world):
    def page_on_call(incident_id: IncidentId, message: Message, context: ExecutionContext) -> Page:
        if world.incidents[incident_id].severity not in ("high", "critical"):
            raise ValueError("not urgent")
        return pager.send(incident_id, message, key=context.idempotency_key)

    return page_on_call


def _declares_the_rule(pager, world):
    def page_on_call(incident_id: IncidentId, message: Message, context: ExecutionContext) -> Page:
        if world.incidents[incident_id].severity not in ("high", "critical"):
            raise ToolFailure("not_urgent", "Only an urgent incident wakes a person.")
        return pager.send(incident_id, message, key=context.idempotency_key)

    return page_on_call


def _tells_all(pager, world):
    def page_on_call(incident_id: IncidentId, message: Message, context: ExecutionContext) -> Page:
        try:
            return pager.send(incident_id, message, key=context.idempotency_key)
        except Exception as error:
            raise ToolFailure("pager_failed", str(error)) from error

    return page_on_call


def _team_is_claimed(tool, values, context):
    return not values["team"] or values["team"] in context.principal.teams


def _admin_or_team(world):
    own_team = same_team(world)
    return [lambda tool, values, context: "administrator" in values["message"] or own_team(tool, values, context)]


WRONG = {
    "read_only": adds(read_only=True),
    "unasked": adds(needs_approval=False),
    "other_permission": adds(permission="tickets:write"),
    "claimed_team": adds(_asks_for_the_team, policies=lambda world: [_team_is_claimed]),
    "no_policy": adds(policies=lambda world: []),
    "no_rule": adds(rules=lambda world: []),
    "raises_the_rule": adds(_raises_the_rule, rules=lambda world: []),
    "declares_the_rule": adds(_declares_the_rule, rules=lambda world: [], errors=["not_urgent"]),
    "only_high": adds(rules=lambda world: [urgent(world, ("high",))]),
    "no_limit": adds(_no_limit),
    "no_business_key": adds(idempotency_key=None),
    "run_in_key": adds(idempotency_key=lambda values, context: f"{context.run_id}:{values['incident_id']}"),
    "call_id_in_key": adds(idempotency_key=lambda values, context: f"page:{context.call_id}"),
    "call_id_alone": adds(idempotency_key=lambda values, context: context.call_id),
    "message_in_key": adds(idempotency_key=lambda values, context: f"{values['incident_id']}:{values['message']}"),
    "not_shared": adds(shared=False),
    "no_check": adds(check=None),
    "happened_without_data": adds(check=lambda pager: was_paged(pager, lambda page: Happened())),
    "says_it_happened": adds(check=lambda pager: was_paged(pager, missing=Happened)),
    "says_it_did_not": adds(check=lambda pager: was_paged(pager, lambda page: NotHappened())),
    "silence_is_no": adds(check=lambda pager: was_paged(pager, silent=NotHappened)),
    "key_not_handed_on": adds(_no_key),
    "new_key_per_try": adds(_new_key),
    "tells_all": adds(_tells_all, errors=["pager_failed"]),
    # The exercise's cases have no words for these: the attack set finds them.
    "unasked_each_time": adds(needs_approval=False, idempotency_key=None),
    "any_text": adds(_any_text, rules=lambda world: [urgent(world, unknown=None)]),
    "believes_the_message": adds(policies=_admin_or_team),
}
