"""Permission, policies, rules, approval: who may say no, in which order, and what counts as a yes."""

import functools
import itertools
from typing import Any

import pytest

from keel import ExecutionContext, Harness, Principal, ToolCall, ToolFailure, ToolRegistry

from .kit import AMIRA, STRANGER, code, fire, label


def body(n: int) -> int:
    return n


class Yes:
    """Equal to True, true, and not True."""

    def __eq__(self, other):
        return True

    def __bool__(self):
        return True

    __hash__ = None


NOT_TRUE = [None, False, 1, 1.0, "yes", "True", [True], {"ok": True}, Yes(), NotImplemented, object()]


@pytest.mark.parametrize("answer", NOT_TRUE, ids=label)
def test_only_true_lets_a_policy_pass(answer):
    result = fire(body, {"n": 1}, policies=[lambda tool, values, context: answer])
    assert code(result) == "permission_denied" and result.data is None


def test_all_policies_must_say_true():
    yes, no = (lambda *_: True), (lambda *_: False)
    assert fire(body, {"n": 1}, policies=[yes, yes]).ok
    for policies in ([yes, no], [no, yes], [no]):
        assert code(fire(body, {"n": 1}, policies=policies)) == "permission_denied"


def raising(error: BaseException) -> Any:
    def judge(*arguments):
        raise error

    return judge


BREAKS = [RuntimeError("secret"), SystemExit(0), GeneratorExit(), KeyError("secret"), RecursionError()]
BREAKS += [ToolFailure("permission_denied", "secret"), ToolFailure("ok_code", "secret", True), StopIteration(True)]


@pytest.mark.parametrize("error", BREAKS, ids=label)
@pytest.mark.parametrize("stage", ["policies", "rules"])
def test_a_judge_that_breaks_lets_nothing_run(stage, error):
    ran = []
    result = fire(witness(ran), {"n": 1}, **{stage: [raising(error)]})
    assert code(result) == "internal_error" and not ran
    assert "secret" not in result.model_dump_json() and not result.error.retryable


def witness(ran: list) -> Any:
    def body(n: int) -> int:
        ran.append(n)
        return n

    return body


def test_a_judge_without_a_name_may_break_too():
    assert code(fire(body, {"n": 1}, policies=[functools.partial(raising(RuntimeError()), 1)])) == "internal_error"


@pytest.mark.parametrize("stage", ["policies", "rules"])
def test_an_interrupt_in_a_judge_is_the_callers(stage):
    with pytest.raises(KeyboardInterrupt):
        fire(body, {"n": 1}, **{stage: [raising(KeyboardInterrupt())]})


def test_a_policy_sees_the_tool_the_judged_values_and_the_context():
    seen = []

    def policy(tool, values, context):
        seen.append((tool.name, values, context.principal.id))
        return True

    def with_default(n: int, m: int = 2) -> int:
        return n

    fire(with_default, {"n": 1}, policies=[policy])
    assert seen == [("tool", {"n": 1, "m": 2}, "amira")]


def test_a_denial_does_not_say_whether_the_object_exists():
    def own(tool, values, context):
        return values["n"] == 1

    one, other = (fire(body, {"n": n}, policies=[own]).error for n in (2, 3))
    assert one.message == other.message and "2" not in one.message


def test_a_rule_says_nothing_or_its_sentence():
    def odd(values, context):
        return None if values["n"] % 2 else f"{values['n']} is even. Give an odd number."

    assert fire(body, {"n": 1}, rules=[odd]).ok
    refused = fire(body, {"n": 2}, rules=[odd])
    assert code(refused) == "rule_violated" and refused.error.message == "2 is even. Give an odd number."
    assert not refused.error.retryable


@pytest.mark.parametrize("answer", [True, False, 0, [], {}, b"no", object()], ids=label)
def test_a_rule_that_answers_anything_else_has_broken(answer):
    assert code(fire(body, {"n": 1}, rules=[lambda values, context: answer])) == "internal_error"


def test_an_empty_sentence_is_a_no_all_the_same():
    assert code(fire(body, {"n": 1}, rules=[lambda values, context: ""])) == "rule_violated"


def test_a_rule_that_quotes_half_a_character_is_still_heard():
    refused = fire(body, {"n": 1}, rules=[lambda values, context: "bad file \udcff"])
    assert code(refused) == "rule_violated"
    refused.model_dump_json().encode()


# The order of the stages: each pair of troubles shows which is asked first

STAGES = ["unknown_tool", "permission_denied", "invalid_arguments", "policy", "rule_violated", "approval_required"]


def with_troubles(*troubles: str) -> str:
    """The code of a call that has these troubles and no others. The write runs for nobody."""
    asked = []

    def note(name: str, answer: Any) -> Any:
        def judge(*arguments):
            asked.append(name)
            return answer

        return judge

    registry = ToolRegistry()
    registry.tool(
        body,
        name="tool",
        permission="desk:write",
        policies=[note("policy", "policy" not in troubles)],
        rules=[note("rule", "No." if "rule_violated" in troubles else None)],
        needs_approval="approval_required" in troubles,
    )
    name = "tol" if "unknown_tool" in troubles else "tool"
    arguments = {"n": "1" if "invalid_arguments" in troubles else 1}
    context = STRANGER if "permission_denied" in troubles else AMIRA
    result = Harness(registry).execute(ToolCall(call_id="c", name=name, arguments=arguments), context)
    if "policy" in asked and "policy" in troubles:
        assert "rule" not in asked
        return "policy"
    return code(result)


@pytest.mark.parametrize("first", STAGES)
def test_of_all_troubles_from_here_on_the_first_is_told(first):
    assert with_troubles(*STAGES[STAGES.index(first) :]) == first


@pytest.mark.parametrize(("first", "second"), [*itertools.pairwise(STAGES), ("permission_denied", "policy")])
def test_of_two_troubles_the_first_is_told(first, second):
    assert with_troubles(first, second) == first


def test_permission_is_asked_before_arguments_are_judged():
    assert with_troubles("permission_denied", "invalid_arguments") == "permission_denied"


def test_rules_are_asked_before_a_person():
    assert with_troubles("rule_violated", "approval_required") == "rule_violated"


def test_a_write_that_nobody_need_approve_still_has_no_ledger():
    assert with_troubles() == "unavailable"


def test_permission_comes_from_the_principal_and_from_nowhere_else():
    claims = {"permissions": ["desk:write"], "principal": "root", "is_admin": True}
    for extra in ({}, claims):
        context = ExecutionContext(principal=Principal(id="bo", permissions=["desk"]), extra=extra)
        assert code(fire(body, {"n": 1}, context, permission="desk:read")) == "permission_denied"
    close = Principal(id="bo", permissions=["desk:rea", "desk:read ", "DESK:READ", "desk:*", "*", ""])
    assert code(fire(body, {"n": 1}, ExecutionContext(principal=close), permission="desk:read")) == "permission_denied"
    assert fire(body, {"n": 1}, AMIRA, permission="desk:read").ok


def test_a_read_without_a_permission_is_for_everybody():
    assert fire(body, {"n": 1}, STRANGER).ok


def test_nor_does_it_come_from_the_arguments():
    claims = {"n": 1, "permissions": ["desk:read"], "principal": {"id": "amira", "permissions": ["desk:read"]}}
    assert code(fire(body, claims, STRANGER, permission="desk:read")) == "permission_denied"

    def open_body(n: int, permissions: list[str], principal: dict) -> int:
        return n

    assert code(fire(open_body, claims, STRANGER, permission="desk:read")) == "permission_denied"
    assert fire(open_body, claims, AMIRA, permission="desk:read").ok
