"""The ledger lab of chapter 07b: things go wrong, and ledger and world stand side by side; by mouse and by keyboard."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.chapter_page import chapter_name, focus_shows, has_focus

pytestmark = pytest.mark.browser

# A sequence of steps, each with what is heard, the entry's state, and the tickets in the world.
KILLED = [
    ("kill_before", "nobody heard of it", "running", "no ticket"),
    ("call", "answer: outcome_unknown", "running", "no ticket"),
    ("reconcile", "running becomes free", "free", "no ticket"),
    ("call", "answer: ok, T-1", "done", "1 ticket"),
]
ELSEWHERE = [
    ("elsewhere", "no answer yet", "running", "no ticket"),
    ("call", "answer: in_progress", "running", "no ticket"),
    ("release", "in the other process, answer: ok, T-1", "done", "1 ticket"),
]


@pytest.fixture(scope="module")
def page(chapter):
    return chapter(chapter_name("07b"))


@pytest.fixture
def drill(page):
    """The cell of the lab, with nothing sent yet."""
    cell = page.cell('ledger_lab("07b")')
    button(cell, "start_over").click()
    expect(cards(cell)).to_have_count(1)
    expect(newest(cell)).to_contain_text("1. start_over: ")
    return cell


def button(drill, name):
    return drill.get_by_role("button", name=name, exact=True)


def cards(drill):
    """One for each step so far, the newest first."""
    return drill.locator(".widget-html-content").last.locator("b", has_text=": ").locator("xpath=../..")


def newest(drill):
    return cards(drill).first


def see(drill, number, name, heard, state, tickets):
    """The newest step, as a reader sees it."""
    expect(newest(drill)).to_contain_text(f"{number}. {name}: ")
    expect(newest(drill).get_by_role("status")).to_contain_text(heard)
    field = newest(drill).locator("dt", has_text="state").locator("xpath=following-sibling::dd[1]")
    expect(field).to_have_text(state)
    expect(newest(drill)).to_contain_text(tickets)
    expect(drill.get_by_role("status")).to_have_count(1)


@pytest.mark.parametrize("steps", [KILLED, ELSEWHERE], ids=["killed", "elsewhere"])
def test_by_mouse(page, drill, shot, steps):
    for number, (name, *expected) in enumerate(steps, 2):
        button(drill, name).click()
        see(drill, number, name, *expected)
    expect(cards(drill)).to_have_count(len(steps) + 1)
    shot(page, f"ledger-lab-{steps[0][0]}", drill)


def test_ledger_and_world_stand_side_by_side(drill):
    button(drill, "kill_after").click()
    see(drill, 2, "kill_after", "nobody heard of it", "running", "1 ticket")
    ledger, world = (newest(drill).locator("b", has_text=title).locator("xpath=..") for title in ("ledger", "world"))
    left, right = ledger.bounding_box(), world.bounding_box()
    assert left["y"] == right["y"] and left["x"] + left["width"] <= right["x"]


@pytest.mark.parametrize("key", ["Space", "Enter"])
def test_by_keyboard_alone(page, drill, key):
    page.select(drill)
    for number, (name, *expected) in enumerate(ELSEWHERE, 2):
        page.tab_to(button(drill, name))
        assert focus_shows(button(drill, name))
        page.page.keyboard.press(key)
        see(drill, number, name, *expected)
        assert has_focus(button(drill, name)), "the next step can be chosen from here"
        page.select(drill)


def test_a_hanging_body_does_not_keep_the_kernel(page, drill):
    button(drill, "hang").click()
    see(drill, 2, "hang", "answer: outcome_unknown", "unknown", "no ticket")
    page.until(page.kernel_is_idle, "the kernel is idle while the body hangs")
    button(drill, "release").click()
    see(drill, 3, "release", "nobody waits for its answer any more", "done", "1 ticket")


def test_a_step_that_makes_no_sense_is_told(page, drill, shot):
    button(drill, "release").click()
    expect(newest(drill).get_by_role("status")).to_have_text("not done: No body stands still.")
    shot(page, "ledger-lab-not-done", drill)


def test_after_a_reload_and_run_all_it_begins_anew(page, drill):
    page.reload().run_all()
    cell = page.cell('ledger_lab("07b")')
    expect(cell.get_by_role("status")).to_have_text("Nothing has been sent yet.")
    button(cell, "call").click()
    see(cell, 1, "call", "answer: ok, T-1", "done", "1 ticket")
    assert page.troubles() == []
