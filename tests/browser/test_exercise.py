"""Exercise 01-b as a learner does it: a wrong answer, a right one, then a new kernel and everything once more."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.chapter_page import chapter_name

pytestmark = pytest.mark.browser

STEPS = '{"unknown_tool": "tell_model", "invalid_arguments": "tell_model", "approval_required": "ask_person"}'
WRONG = 'def what_next(code): return "tell_model"'
RIGHT = f'def what_next(code): return {STEPS}.get(code, "stop")'


@pytest.fixture(scope="module")
def page(chapter):
    return chapter(chapter_name("01"))


def answer(page, text):
    """Type an answer into the exercise's cell and run it; return what stands beneath the cell then."""
    cell = page.cell('check("01-b"')
    page.retype_line(cell, "def what_next", text)
    page.run_cell(cell)
    return verdict(page)


def verdict(page):
    return page.cell('check("01-b"').locator(".jp-Cell-outputArea")


def test_an_exercise_from_wrong_to_right_to_a_new_kernel(page, shot):
    expect(verdict(page)).to_contain_text("01-b: not attempted yet.")
    said = answer(page, WRONG)
    expect(said).to_contain_text("01-b: not right yet.")
    expect(said).to_contain_text("first case that differs: what_next('approval_required')")
    expect(said).to_contain_text("expected: 'ask_person'")
    expect(said).to_contain_text("got:      'tell_model'")
    expect(said).to_contain_text("In the world:")
    shot(page, "exercise-wrong", page.cell('check("01-b"'))
    said = answer(page, RIGHT)
    expect(said).to_contain_text("01-b: passed, all 4 cases.")
    shot(page, "exercise-passed", page.cell('check("01-b"'))
    page.restart_and_run_all()
    assert page.run_counts() == list(range(1, len(page.run_counts()) + 1))
    expect(verdict(page)).to_contain_text("01-b: passed, all 4 cases.")
    expect(page.cell('check("01-a"').locator(".jp-Cell-outputArea")).to_contain_text("not attempted yet")
    assert page.troubles() == []


def test_the_next_chapter_that_shows_progress_knows_of_it(chapter, page):
    start = chapter(chapter_name("00"))
    shown = start.cell("progress()").locator(".jp-Cell-outputArea")
    expect(shown).to_contain_text("01-b the next step for each code (5 min): passed after 1 wrong")
