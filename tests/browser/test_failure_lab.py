"""The failure lab of chapter 01: predict, fire, and see where the call stopped; by mouse, then by keyboard alone."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.browser.chapter_page import chapter_name, focus_shows, has_focus

pytestmark = pytest.mark.browser

# The button's words, the code that comes back, the stage that stopped the call, and the next step.
CALLS = {
    "valid": ("lookup_incident(incident_id)", "ok", None, "nothing to repair"),
    "unknown_tool": ("delete_prod()", "unknown_tool", "lookup", "tell_model"),
    "invalid_arguments": ("lookup_incident(incident)", "invalid_arguments", "validate", "tell_model"),
    "approval_required": ("create_ticket(title, incident_id)", "approval_required", "approve", "ask_person"),
}
# The words of every box with a colour of its own behind it: the stage that stopped the call.
FILLED = """boxes => boxes.filter(box => getComputedStyle(box).backgroundColor !== 'rgba(0, 0, 0, 0)')
    .map(box => box.innerText.trim())"""
each_call = pytest.mark.parametrize("case", CALLS)


@pytest.fixture(scope="module")
def page(chapter):
    return chapter(chapter_name("01"))


@pytest.fixture
def bench(page):
    """The cell of the failure lab."""
    return page.cell("failure_lab()")


def button(bench, words):
    return bench.get_by_role("button", name=words, exact=True)


def said(bench):
    """What the lab answers."""
    return bench.locator(".widget-html-content").last


def chosen(bench):
    return bench.locator(".widget-toggle-button.mod-active")


def see_what_came_of(bench, case, predicted):
    """The whole answer to one call, as a reader sees it."""
    words, code, stage, step = CALLS[case]
    answer = said(bench)
    expect(answer.locator("code").first).to_have_text(words)
    guess = f"You predicted {code}, and {code} came" if predicted == code else f"You predicted {predicted}. {code} came"
    expect(answer.get_by_role("status")).to_contain_text(guess)
    assert answer.locator("span").evaluate_all(FILLED) == ([stage] if stage else [])
    sentence = f"The call stopped at {stage}." if stage else "The call passed every stage and ran."
    expect(answer).to_contain_text(sentence)
    expect(answer).to_contain_text(f"What next: {step}")
    result = json.loads(answer.locator("pre").inner_text())
    assert result["tool_name"] == words.split("(")[0] and result["call_id"]
    assert result["ok"] is (code == "ok") and (result["data"] is not None) is (code == "ok")
    assert code == "ok" if result["error"] is None else result["error"]["code"] == code
    expect(chosen(bench)).to_have_count(0)  # the next call wants a prediction of its own


@each_call
def test_by_mouse(page, bench, shot, case):
    words, code = CALLS[case][:2]
    button(bench, code).click()
    expect(chosen(bench)).to_have_text(code)
    button(bench, words).click()
    see_what_came_of(bench, case, code)
    shot(page, f"failure-lab-{case}", bench)


def test_without_a_prediction_nothing_is_fired(page, bench, shot):
    button(bench, "delete_prod()").click()
    expect(said(bench)).to_have_text("Choose a code first, then fire a call.")
    shot(page, "failure-lab-no-prediction", bench)


@each_call
@pytest.mark.parametrize("key", ["Space", "Enter"])
def test_by_keyboard_alone_with_a_wrong_prediction(page, bench, case, key):
    words, predicted = CALLS[case][0], "permission_denied"
    page.select(bench)
    page.tab_to(button(bench, predicted))
    assert focus_shows(button(bench, predicted))
    page.page.keyboard.press(key)
    expect(chosen(bench)).to_have_text(predicted)
    page.tab_to(button(bench, words))
    assert focus_shows(button(bench, words))
    page.page.keyboard.press(key)
    see_what_came_of(bench, case, predicted)
    assert has_focus(button(bench, words)), "the next call can be chosen from here"


def test_where_the_keyboard_is_can_be_seen_in_a_picture(page, bench, shot):
    page.select(bench)
    page.tab_to(button(bench, "approval_required"))
    page.page.keyboard.press("Space")
    page.tab_to(button(bench, "create_ticket(title, incident_id)"))
    shot(page, "failure-lab-keyboard", bench)


def test_after_a_reload_and_run_all_it_fires_again(page, bench):
    page.reload().run_all()
    button(bench, "unknown_tool").click()
    button(bench, "delete_prod()").click()
    see_what_came_of(bench, "unknown_tool", "unknown_tool")
    assert page.troubles() == []
