"""The call bench of chapter 03: write a call by hand, fire it, and see where it stops; by mouse and by keyboard."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.browser.chapter_page import chapter_name, focus_shows

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(chapter):
    return chapter(chapter_name("03"))


@pytest.fixture
def bench(page):
    return page.cell('call_bench("03")')


def fields(bench):
    """The field for the name and the field for the arguments."""
    return bench.locator(".widget-text input"), bench.locator(".widget-textarea textarea")


def fire(bench):
    return bench.locator("button.widget-button")


def answer(bench):
    """The result on the bench, as data; `said` waits for it."""
    return json.loads(bench.locator(".widget-html-content pre").inner_text())


def said(bench):
    return bench.locator(".widget-html-content").last


def test_the_call_that_stands_there_runs(bench):
    fire(bench).click()
    expect(said(bench).locator("pre")).to_contain_text('"tool_name": "add"')
    assert answer(bench)["ok"] is True and answer(bench)["data"] == 5
    expect(said(bench)).to_contain_text("The world:")


def test_another_call_by_keyboard_alone(page, bench, shot):
    name, arguments = fields(bench)
    page.select(bench)
    for field, text in ((name, "delete_prod"), (arguments, "{}")):
        page.tab_to(field)
        page.page.keyboard.press("ControlOrMeta+A")
        page.page.keyboard.type(text)
        expect(field).to_have_value(text)
    page.tab_to(fire(bench))
    assert focus_shows(fire(bench))
    page.page.keyboard.press("Enter")
    expect(said(bench).locator("pre")).to_contain_text('"code": "unknown_tool"')
    assert answer(bench)["tool_name"] == "delete_prod"
    shot(page, "call-bench", bench)


def test_text_that_cannot_be_read_gets_an_answer_too(page, bench):
    name, arguments = fields(bench)
    name.fill("add")
    arguments.fill('{"a": 2, ')
    fire(bench).click()
    expect(said(bench).locator("pre")).to_contain_text('"code": "invalid_arguments"')
    assert page.troubles() == []
