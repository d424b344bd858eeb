"""Questions in chapter 01: answer by mouse and by keyboard, read the reply, open what is folded."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.chapter_page import chapter_name, focus_shows

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(chapter):
    return chapter(chapter_name("01"))


def button(cell, letter):
    return cell.get_by_role("button", name=letter, exact=True)


def reply(cell):
    return cell.locator(".widget-html-content")


def test_a_prediction_by_mouse(page, shot):
    cell = page.cell('predict("01-b")')
    button(cell, "b").click()
    expect(reply(cell).get_by_role("status")).to_contain_text("Kept: b) Nobody.")
    expect(reply(cell)).not_to_contain_text("could not be saved")
    folded = reply(cell).locator("details")
    expect(folded).not_to_have_attribute("open", "")
    reply(cell).locator("summary").click()
    expect(folded).to_have_attribute("open", "")
    expect(folded).to_contain_text("a program on your side must run it", use_inner_text=True)
    shot(page, "predict", cell)


def test_a_prediction_by_keyboard(page):
    cell = page.cell('predict("01-a")')
    page.select(cell)
    page.tab_to(button(cell, "c"))
    assert focus_shows(button(cell, "c"))
    page.page.keyboard.press("Space")
    expect(reply(cell).get_by_role("status")).to_contain_text("Kept: c) Every name")
    summary, folded = reply(cell).locator("summary"), reply(cell).locator("details")
    expect(folded).not_to_have_attribute("open", "")
    page.tab_to(summary)
    assert focus_shows(summary)
    page.page.keyboard.press("Enter")
    expect(folded).to_have_attribute("open", "")
    expect(folded).to_contain_text("A namespace is none.", use_inner_text=True)


def test_a_quiz_by_mouse_wrong_then_right(page, shot):
    cell = page.cell('quiz("01-a")')
    button(cell, "a").click()
    expect(reply(cell).get_by_role("status")).to_contain_text("Not a. To the reader they look alike.")
    shot(page, "quiz-wrong", cell)
    button(cell, "c").click()
    expect(reply(cell).get_by_role("status")).to_contain_text("c is right.")
    shot(page, "quiz-right", cell)


def test_a_quiz_by_keyboard(page):
    cell = page.cell('quiz("01-b")')
    page.select(cell)
    page.tab_to(button(cell, "b"))
    assert focus_shows(button(cell, "b"))
    page.page.keyboard.press("Enter")
    expect(reply(cell).get_by_role("status")).to_contain_text("b is right. Asking again never moves a boundary.")


def test_nothing_broke_on_the_way(page):
    assert page.troubles() == []
