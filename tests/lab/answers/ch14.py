"""Other answers to chapter 14's exercises."""

# No `from __future__ import annotations`, as in a notebook: the contracts of the tools stand in their annotations.
from typing import Annotated, Any

from pydantic import BaseModel, Field, StringConstraints

from keel import CannotTell, ErrorCode, ExecutionContext, Happened, NotHappened, ToolResult
from keel.lab import IncidentId, Page, same_team
from keel.lab.exercises.pages import adds, sends, urgent, was_paged
from keel.ledger import State
from keel.recovery import Action, next_step

# --- 14-a ---


def add_page_by_hand(registry, world, pager):
    Id = Annotated[str, StringConstraints(pattern=r"^INC-\d{3}$", max_length=7)]
    Short = Annotated[str, StringConstraints(min_length=1, max_length=200)]

    def page_on_call(incident_id: Id, message: Short, context: ExecutionContext) -> dict[str, str]:
        """Wake somebody."""
        return pager.send(incident_id, message, context.idempotency_key).model_dump()

    def of_the_team(tool, values, context):
        return world.teams.get(values["incident_id"]) in context.principal.teams

    def awake(values, context):
        found = pager.look(values["incident_id"])
        return NotHappened() if found is None else Happened(found.model_dump())

    def is_urgent(values, context):
        severity = world.incidents[values["incident_id"]].severity
        return None if severity in {"high", "critical"} else f"{severity} is not enough to wake somebody"

    registry.tool(
        page_on_call,
        version="2.0",
        permission="pages:send",
        needs_approval=True,
        four_eyes=True,
        approver_permission="pages:approve",
        destructive=True,
        policies=[of_the_team],
        rules=[is_urgent],
        idempotency_key=lambda values, context: values["incident_id"],
        check_status=awake,
        shared=True,
        timeout_s=5,
    )


def add_page_as_schema(registry, world, pager):
    incident = {"type": "string", "pattern": "^INC-[0-9]{3}$"}
    schema = {
        "type": "object",
        "properties": {"incident_id": incident, "message": {"type": "string", "maxLength": 200}},
        "required": ["incident_id", "message"],
        "additionalProperties": False,
    }

    def send(given: dict[str, Any], context: ExecutionContext):
        return pager.send(given["incident_id"], given["message"], key=context.idempotency_key)

    registry.add_schema_tool(
        name="page_on_call",
        description="Wake somebody.",
        input_schema=schema,
        function=send,
        permission="pages:send",
        policies=[same_team(world)],
        rules=[urgent(world)],
        idempotency_key=lambda values, context: f"page {values['incident_id']}",
        check_status=was_paged(pager),
        shared=True,
    )


def add_page_with_a_rule_for_the_length(registry, world, pager):
    def short(values, context):
        return None if len(values["message"]) <= 200 else "A message has 200 characters at most."

    @registry.tool(
        permission="pages:send",
        policies=[same_team(world)],
        rules=[short, urgent(world)],
        idempotency_key=lambda values, context: values["incident_id"],
        check_status=was_paged(pager),
        shared=True,
    )
    async def page_on_call(context: ExecutionContext, incident_id: IncidentId, message: str) -> Page:
        return pager.send(incident_id, message, key=f"page:{incident_id}")


add_page_that_breaks_when_nobody_can_tell = adds(
    check=lambda pager: lambda values, context: was_paged(pager, silent=lambda: 1 / 0)(values, context)
)


def add_page_under_another_name(registry, world, pager):
    registry.tool(sends(pager, world), name="page", permission="pages:send")


def add_page_that_asks_for_a_context(registry, world, pager):
    def page_on_call(incident_id: IncidentId, message: str, context: dict[str, Any]) -> Page:
        return pager.send(incident_id, message)

    registry.tool(page_on_call, permission="pages:send")


def add_page_returning_nothing(registry, world, pager):
    class Nothing(BaseModel):
        pass

    def page_on_call(incident_id: IncidentId, message: Annotated[str, Field(max_length=200)]) -> Nothing:
        pager.send(incident_id, message)

    registry.tool(page_on_call, permission="pages:send", policies=[same_team(world)], rules=[urgent(world)])


def add_page_cutting_the_message(registry, world, pager):
    def page_on_call(incident_id: IncidentId, message: str, context: ExecutionContext) -> Page:
        return pager.send(incident_id, message[:200], key=context.idempotency_key)

    adds(lambda pager, world: page_on_call)(registry, world, pager)


def add_page_once_in_memory(registry, world, pager):
    sent = {}

    def page_on_call(incident_id: IncidentId, message: Annotated[str, Field(max_length=200)]) -> Page:
        if incident_id not in sent:
            sent[incident_id] = pager.send(incident_id, message)
        return sent[incident_id]

    adds(lambda pager, world: page_on_call)(registry, world, pager)


add_page_read_only_and_asked = adds(read_only=True, needs_approval=True)
add_page_for_identity = adds(
    policies=lambda world: [lambda tool, values, context: "identity" in context.principal.teams]
)
add_page_believing_the_message = adds(
    policies=lambda world: [lambda tool, values, context: context.principal.teams[0] in values["message"]]
)
add_page_hashing_the_message = adds(
    idempotency_key=lambda values, context: str(hash((values["incident_id"], values["message"])))
)
add_page_keyed_by_principal = adds(
    idempotency_key=lambda values, context: f"{context.principal.id} {values['incident_id']}"
)
add_page_that_always_happened = adds(check=lambda pager: lambda values, context: Happened())
add_page_that_never_can_tell = adds(check=lambda pager: lambda values, context: CannotTell())
add_page_with_off_by_one = adds(lambda pager, world: _limited_to_199(pager), rules=lambda world: [urgent(world)])


def _limited_to_199(pager):
    short = Annotated[str, Field(max_length=199)]

    def page_on_call(incident_id: IncidentId, message: short, context: ExecutionContext) -> Page:
        return pager.send(incident_id, message, key=context.idempotency_key)

    return page_on_call


# --- 14-b ---

AMIRAS = {"incident_id": "INC-001", "message": "login returns 502"}

attack_reworded = [{**AMIRAS, "message": "evacuate the building"}]
attack_twice = [AMIRAS, AMIRAS]
attack_other_team = ({"message": "salary run stops", "incident_id": " Inc-003 "},)
attack_after_refusals = [{"incident_id": "INC-003", "message": "x"}, {}, {**AMIRAS, "message": ""}]

attack_straight = [{"incident_id": "INC-003", "message": "salary run stops"}]
attack_in_small_letters = [{"incident_id": "inc-001", "message": "login returns 502"}]
attack_too_long = [{**AMIRAS, "message": "x" * 201}]
attack_with_a_team = [{**AMIRAS, "team": "finance"}]
attack_as_text = ['{"incident_id": "INC-003"}']
attack_broken = [{"incident_id": 3, "message": "x"}, {"message": "x"}]


def attack_by_hand(pager):
    pager.send("INC-003", "salary run stops")


# --- 14-c ---


def carry_out_by_next_step(harness, request, context):
    call = harness.read(request, context)
    result = call if isinstance(call, ToolResult) else harness.execute(call, context)
    if result.error and next_step(result.error).action is Action.ASK_WORLD:
        harness.reconcile()
        result = harness.execute(call, context)
    if result.error is None:
        return {"status": "done", "ticket": result.data}
    if result.error.code == ErrorCode.OUTCOME_UNKNOWN:
        return {"status": "unknown", "why": result.error.message}
    return {"status": "not_done", "code": str(result.error.code)}


def carry_out_in_two_tries(harness, request, context):
    call = harness.read(request, context)
    if isinstance(call, ToolResult):
        return {"status": "not_done", "code": call.error.code}
    for _ in range(2):
        result = harness.execute(call, context)
        if result.ok:
            return {"status": "done"}
        if result.error.code != "outcome_unknown":
            return {"status": "not_done", "code": result.error.code}
        harness.reconcile()
    return {"status": "unknown"}


def carry_out_by_states(harness, request, context):
    call = harness.read(request, context)
    result = call if isinstance(call, ToolResult) else harness.execute(call, context)
    if not result.ok and result.error.code == "outcome_unknown":
        after = {one.entry.call_id: one.after for one in harness.reconcile()}
        if after.get(result.call_id) is State.DONE:
            return {"status": "done"}
        if after.get(result.call_id) is State.UNKNOWN:
            return {"status": "unknown"}
        result = harness.execute(call, context)
    if result.ok:
        return {"status": "done"}
    if result.error.code == "outcome_unknown":
        return {"status": "unknown"}
    return {"status": "not_done", "code": result.error.code}


def carry_out_blindly(harness, request, context):
    result = harness.handle(request, context)
    if not result.ok and result.error.code == "outcome_unknown":
        result = harness.handle(request, context)
    return carry_out_said(result)


def carry_out_said(result):
    if result.ok:
        return {"status": "done"}
    if result.error.code == "outcome_unknown":
        return {"status": "unknown"}
    return {"status": "not_done", "code": result.error.code}


def carry_out_recursive(harness, request, context):
    result = harness.handle(request, context)
    if not result.ok and result.error.code == "outcome_unknown":
        harness.reconcile()
        return carry_out_recursive(harness, request, context)
    return carry_out_said(result)


def carry_out_as_result(harness, request, context):
    return harness.handle(request, context)


def carry_out_hopeful(harness, request, context):
    result = harness.handle(request, context)
    return {"status": "done" if result.ok or result.error.code == "outcome_unknown" else "not_done", "code": "?"}


def carry_out_any_settled(harness, request, context):
    call = harness.read(request, context)
    result = harness.execute(call, context)
    if not result.ok and result.error.code == "outcome_unknown":
        if any(one.after == "done" for one in harness.reconcile()):
            return {"status": "done"}
        result = harness.execute(call, context)
    return carry_out_said(result)


def carry_out_without_the_code(harness, request, context):
    report = carry_out_in_two_tries(harness, request, context)
    return {"status": report["status"]}


def carry_out_three_tries(harness, request, context):
    call = harness.read(request, context)
    for _ in range(3):
        result = harness.execute(call, context)
        if result.ok or result.error.code != "outcome_unknown":
            break
        harness.reconcile()
    return carry_out_said(result)


def carry_out_around_the_harness(harness, request, context):
    result = harness.handle(request, context)
    if not result.ok and result.error.code == "outcome_unknown":
        harness.registry.lookup(request.name).function(**request.arguments)
        return {"status": "done"}
    return carry_out_said(result)


RIGHT = {
    "14-a": [
        add_page_by_hand,
        add_page_as_schema,
        add_page_with_a_rule_for_the_length,
        add_page_that_breaks_when_nobody_can_tell,
    ],
    "14-b": [attack_reworded, attack_twice, attack_other_team, attack_after_refusals],
    "14-c": [carry_out_by_next_step, carry_out_in_two_tries, carry_out_by_states],
}

WRONG = {
    "14-a": [
        (add_page_under_another_name, "case.contract"),
        (add_page_that_asks_for_a_context, "case.contract"),
        (add_page_read_only_and_asked, "mistake.read_only"),
        (add_page_returning_nothing, "case.agreed"),
        (add_page_cutting_the_message, "mistake.no_limit"),
        (add_page_once_in_memory, "mistake.key_not_handed_on"),
        (add_page_for_identity, "mistake.no_policy"),
        (add_page_believing_the_message, "case.agreed"),
        (add_page_hashing_the_message, "mistake.message_in_key"),
        (add_page_keyed_by_principal, "mistake.not_shared"),
        (add_page_that_always_happened, "mistake.happened_without_data"),
        (add_page_that_never_can_tell, "mistake.no_check"),
        (add_page_with_off_by_one, "case.length"),
    ],
    "14-b": [
        (attack_straight, "mistake.asks_only"),
        (attack_in_small_letters, "mistake.permitted"),
        (attack_too_long, "mistake.asks_only"),
        (attack_with_a_team, "mistake.asks_only"),
        (attack_as_text, "mistake.around"),
        (attack_by_hand, "mistake.around"),
        (attack_broken, "mistake.asks_only"),
        ([], "case.attack"),
        ({}, "mistake.asks_only"),
    ],
    "14-c": [
        (carry_out_blindly, "mistake.gives_up"),
        (carry_out_recursive, "mistake.for_ever"),
        (carry_out_as_result, "case.works"),
        (carry_out_hopeful, "case.refused"),
        (carry_out_any_settled, "mistake.first_settled"),
        (carry_out_without_the_code, "case.refused"),
        (carry_out_three_tries, "case.lost_again"),
        (carry_out_around_the_harness, "mistake.second_ticket"),
    ],
}
