"""The failure lab: four calls, where each stopped, and what is next; by buttons and as text."""

import json

import pytest

from keel.lab.exercises.finding import find
from keel.lab.failures import CHOICES, FOUR, failure_lab, fire, lab_widget
from keel.lab.strip import STAGES

EXPECTED = {
    "valid": ("ok", None, None),
    "unknown_tool": ("unknown_tool", "lookup", "tell_model"),
    "invalid_arguments": ("invalid_arguments", "validate", "tell_model"),
    "approval_required": ("approval_required", "approve", "ask_person"),
}


@pytest.mark.parametrize("case", FOUR)
def test_a_call_comes_back_with_all_that_belongs_to_it(case):
    fired = fire(case)
    action = fired.step.action if fired.step else None
    assert (fired.code, fired.stopped_at, action) == EXPECTED[case]
    assert fired.world == "unchanged"
    assert fire(case).text == fired.text


@pytest.mark.parametrize("case", FOUR)
def test_the_strip_is_lit_up_to_where_it_stopped(case):
    fired = fire(case)
    boxes = fired.strip.boxes
    stopped = [name for name, box in boxes.items() if box.look == "stopped"]
    assert stopped == ([fired.stopped_at] if fired.stopped_at else [])
    behind = list(STAGES)[list(STAGES).index(fired.stopped_at) + 1 :] if fired.stopped_at else []
    assert all(boxes[name].look in ("unreached", "unbuilt") for name in behind if name != "recover")
    assert boxes["run"].look == ("unreached" if fired.stopped_at else "passed")
    assert (boxes["recover"].look == "passed") == (fired.stopped_at is not None)


def test_the_exercise_on_next_steps_agrees():
    steps = {case.shown: case.expected for case in find("01-b").cases}
    for code in ("unknown_tool", "invalid_arguments", "approval_required"):
        assert steps[f"what_next('{code}')"] == fire(code).step.action


@pytest.mark.parametrize("case", FOUR)
def test_the_text_form(case, capsys):
    failure_lab(fire=case, predict="ok")
    out = capsys.readouterr().out
    start, end = out.index("{\n"), out.rindex("}\n") + 1
    assert json.loads(out[start:end]) == fire(case).result.model_dump(mode="json")
    assert "You predicted ok" in out and "What next: " in out and "The world: unchanged." in out


def test_without_buttons_it_says_how_to_fire(capsys):
    failure_lab()
    out = capsys.readouterr().out
    assert 'failure_lab(fire="valid"' in out
    assert all(f"  {case}: {request.name} " in out for case, request in FOUR.items())


def test_unknown_calls_and_codes_are_told(capsys):
    failure_lab(fire="nonsense")
    failure_lab(fire="valid", predict="nonsense")
    failure_lab(fire=7)
    assert capsys.readouterr().out.count("nonsense") == 2


def test_the_buttons_want_a_prediction_first():
    _, codes, _, row, said = lab_widget().children
    assert list(codes.options) == list(CHOICES)
    for button, case in zip(row.children, FOUR, strict=True):
        button.click()
        assert "Choose a code first" in said.value and "call_id" not in said.value
        codes.value = "unknown_tool"
        button.click()
        assert f"{fire(case).code} came back" in said.value
        assert ("You predicted unknown_tool, and" in said.value) == (case == "unknown_tool")
        assert '"call_id": "c-1"' in said.value and "What next: " in said.value
        assert codes.value is None
    assert [button.description for button in row.children][1] == "delete_prod()"
