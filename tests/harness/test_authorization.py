"""Authorization: who may, and about which object; a no has one text, whoever said it and whatever is there."""

import functools
import itertools
from typing import Any

import pytest

from keel import ExecutionContext, Harness, MemoryLedger, Principal, ToolRegistry
from keel.authorization import Denied, all_of, any_of, check_permission, check_policies

from .kit import AMIRA, STRANGER, call, code, fire, label, registry_of
from .test_guards import NOT_TRUE
from .test_workers import raising

TEAMS = {"INC-001": "payments", "INC-002": "search"}
PAYMENTS = ExecutionContext(principal=Principal(id="pia", permissions=["desk:read", "desk:write"], teams=["payments"]))


def own_team(tool, values, context):
    """Also of an incident that is not there: nobody is in its team."""
    return TEAMS.get(values["incident_id"]) in context.principal.teams


def yes(tool, values, context):
    return True


def no(tool, values, context):
    return False


def incidents(ran, **options):
    """A read and two writes about an incident, each behind the policy of its team."""
    registry, guarded = ToolRegistry(), {"policies": [own_team], "permission": "desk:read"} | options

    def look(incident_id: str) -> str:
        ran.append(incident_id)
        return TEAMS[incident_id]

    registry.tool(look, read_only=True, **guarded)
    registry.tool(look, name="close", needs_approval=False, **guarded)
    registry.tool(look, name="drop", **guarded)
    return Harness(registry, ledger=MemoryLedger())


# Permission: from the principal, and from nowhere else

CLAIMS = {
    "extra": {"extra": {"permissions": ["desk:read"], "principal": AMIRA.principal, "is_admin": True}},
    "run_id": {"run_id": "desk:read"},
    "call_id": {"call_id": "desk:read", "idempotency_key": "desk:read"},
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_nothing_beside_the_principal_gives_a_permission(claim):
    context = ExecutionContext(principal=Principal(id="desk:read", teams=["desk:read"]), **CLAIMS[claim])
    ran = []
    for name in ("look", "close", "drop"):
        harness = incidents(ran, policies=[])
        assert code(harness.execute(call({"incident_id": "INC-001"}, name), context)) == "permission_denied"
    assert not ran and not list(harness.ledger.entries())


def test_a_permission_is_asked_anew_for_each_call():
    """What one principal may is no advance on the next, and a permission that was taken away is gone."""
    ran = []
    harness = incidents(ran)
    taken = PAYMENTS.model_copy(update={"principal": Principal(id="pia", teams=["payments"])})
    said = [
        code(harness.execute(call({"incident_id": "INC-001"}, "look"), context))
        for context in (PAYMENTS, taken, PAYMENTS, STRANGER)
    ]
    assert said == ["ok", "permission_denied"] * 2 and len(ran) == 2


@pytest.mark.parametrize("arguments", [{}, {"incident_id": 7}, {"nonsense": "x"}, {"incident_id": "\ud800"}], ids=str)
def test_who_may_not_learns_nothing_about_the_arguments(arguments):
    harness = incidents([])
    wrong = harness.execute(call(arguments, "look"), STRANGER)
    right = harness.execute(call({"incident_id": "INC-001"}, "look"), STRANGER)
    assert wrong == right and code(wrong) == "permission_denied"


# Policies


@pytest.mark.parametrize("answer", [*NOT_TRUE, yes], ids=label)
@pytest.mark.parametrize("compose", [None, all_of, any_of], ids=["alone", "all_of", "any_of"])
def test_only_true_allows_alone_and_composed(answer, compose):
    def policy(tool, values, context):
        return answer

    ran = []
    policies = [policy if compose is None else compose(policy)]
    result = fire(lambda: ran.append(1), policies=policies)
    assert code(result) == "permission_denied" and not ran


@pytest.mark.parametrize(
    "answers", [*itertools.product([yes, no], repeat=3)], ids=lambda all: " ".join(map(label, all))
)
def test_all_must_allow_and_of_any_one_is_enough(answers):
    says = [policy is yes for policy in answers]
    assert fire(lambda: 1, policies=answers).ok is all(says)
    assert fire(lambda: 1, policies=[all_of(*answers)]).ok is all(says)
    assert fire(lambda: 1, policies=[any_of(*answers)]).ok is any(says)
    assert fire(lambda: 1, policies=[all_of(any_of(*answers), any_of(answers[0], no))]).ok is says[0]


def test_of_no_policies_none_allows():
    for empty in (all_of(), any_of(), any_of(all_of()), all_of(any_of()), all_of(yes, any_of())):
        assert code(fire(lambda: 1, policies=[empty])) == "permission_denied"


BREAKS = [RuntimeError("INC-002"), KeyError("INC-002"), SystemExit(0), Denied, StopIteration(True), GeneratorExit()]


@pytest.mark.parametrize("error", BREAKS, ids=label)
@pytest.mark.parametrize("compose", [None, all_of, any_of], ids=["alone", "all_of", "any_of"])
def test_a_policy_that_breaks_lets_nothing_run(error, compose):
    """Also where another would have allowed it: a yes does not cover for one that broke before it."""
    ran, broken = [], lambda *_: raising(error)()
    policies = [broken, yes] if compose is None else [compose(broken, yes)]
    result = fire(lambda: ran.append(1), policies=policies)
    assert code(result) == "internal_error" and not ran and "INC-002" not in result.model_dump_json()


def test_an_interrupt_in_a_policy_is_the_callers_and_nothing_runs():
    ran, interrupted = [], lambda *_: raising(KeyboardInterrupt())()
    for policy in (interrupted, any_of(no, interrupted), all_of(yes, interrupted)):
        with pytest.raises(KeyboardInterrupt):
            fire(lambda: ran.append(1), policies=[policy])
    assert not ran


def decided_by(*policies, context=AMIRA, permission=None):
    tool = registry_of(lambda: 1, policies=policies, permission=permission).lookup("tool")
    with pytest.raises(Denied) as denied:
        check_permission(tool, context)
        check_policies(tool, {}, context)
    return denied.value.decided_by, denied.value.error


def test_who_decided_is_named_for_the_trace_and_not_for_the_model():
    class Office:
        def __call__(self, tool, values, context):
            return False

    said = {
        "permission desk:read": decided_by(yes, context=STRANGER, permission="desk:read"),
        "no": decided_by(yes, no, yes),
        "all_of(yes, any_of(no))": decided_by(all_of(yes, any_of(no))),
        "any_of()": decided_by(any_of()),
        "Office": decided_by(Office()),
        "partial": decided_by(functools.partial(no)),
    }
    assert {expected: named for expected, (named, _) in said.items()} == {one: one for one in said}
    assert len({error.model_dump_json() for _, error in said.values()}) == 1
    assert not any(word in error.message for _, error in said.values() for word in ("desk", "any_of", "policy", "no,"))


def test_the_judged_values_and_the_whole_context_are_what_a_policy_sees():
    seen = []

    def policy(tool, values, context):
        seen.append((tool.name, tool.version, values, context))
        return True

    def body(n: int, m: int = 2) -> int:
        return n

    context = AMIRA.model_copy(update={"extra": {"region": "eu"}})
    assert fire(body, {"n": 1}, context, policies=[policy]).ok
    assert seen == [("tool", "1.0", {"n": 1, "m": 2}, context)]


# Forbidden and missing

ELSEWHERE = ["INC-002", "INC-999", "", "INC-001 ", "inc-001", "\u0399NC-001", "INC-001\x00", "x" * 5000]


@pytest.mark.parametrize("name", ["look", "close", "drop"])
def test_forbidden_and_missing_are_one_answer(name):
    ran: list[Any] = []
    harness = incidents(ran)
    answers = []
    for number, one in enumerate(ELSEWHERE):
        sent = call({"incident_id": one}, name).model_copy(update={"call_id": f"c-{number}"})
        result = harness.execute(sent, PAYMENTS)
        assert result.call_id == sent.call_id and code(result) == "permission_denied"
        answers.append(result.model_copy(update={"call_id": "-"}).model_dump_json())
    assert len(set(answers)) == 1 and not ran and not list(harness.ledger.entries())


def test_nor_does_what_was_done_about_it_show():
    """Somebody else has shut it, and how that went is no more to be seen than that it is there."""
    ran = []
    options = {"idempotency_key": lambda values, context: values["incident_id"], "shared": True}
    registry = ToolRegistry()

    def shut(incident_id: str) -> str:
        ran.append(incident_id)
        raise OSError("the answer is lost")

    registry.tool(shut, permission="desk:write", needs_approval=False, policies=[own_team], **options)
    harness = Harness(registry, ledger=MemoryLedger())
    searcher = ExecutionContext(principal=Principal(id="sol", permissions=["desk:write"], teams=["search"]))
    assert harness.execute(call({"incident_id": "INC-002"}, "shut"), searcher).error.code == "outcome_unknown"
    done, missing = (harness.execute(call({"incident_id": one}, "shut"), PAYMENTS) for one in ("INC-002", "INC-999"))
    assert done == missing and code(done) == "permission_denied" and ran == ["INC-002"]
