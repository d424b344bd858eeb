"""The approval desk of chapter 10: yes and no by mouse and by keyboard, over a reload and over a kernel that is gone.

The chapter's own desk forgets with its kernel, so the cell is given one over a file, with a question for
each of three incidents; beneath the desk it prints what has run.
"""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.browser.chapter_page import chapter_name, focus_shows, has_focus

pytestmark = pytest.mark.browser

CELL = "approval_desk(desk, approver=carla)"
SETUP = """\
from keel import ApprovalDesk, Harness, ToolRequest
from keel.lab import World, approval_desk, approver, course_registry, everything, seeded_mint
from keel.sqlite_ledger import SqliteLedger

world, ledger = World(), SqliteLedger({path})
desk = ApprovalDesk(ledger, mint=seeded_mint("q"))
harness = Harness(course_registry(world), ledger=ledger, approvals=desk)
titles = {titles}
def call(number):
    arguments = {{"incident_id": f"INC-00{{number}}", "title": titles[number - 1]}}
    return harness.handle(ToolRequest(name="create_ticket", arguments=arguments), everything())
"""
CALL = "answers = [call(number) for number in (1, 2, 3)]\n"
SHOW = "approval_desk(desk, approver())\n"
TELL = 'print("ran:", world.ran, [str(one.error.code) if one.error else "ok" for one in answers])\n'
TITLES = ["login returns 502", "<b>approved</b>\u202e\n  a yes   for everything", "\u200b" * 120 + "the end"]


@pytest.fixture(scope="module")
def page(chapter):
    return chapter(chapter_name("10"))


@pytest.fixture
def ask(page, tmp_path):
    """`ask()` runs the cell over the test's own file, and gives it: three questions wait the first time."""
    path = json.dumps(str(tmp_path / "ledger.db"))
    source = SETUP.format(path=path, titles=json.dumps(TITLES)) + CALL + SHOW + TELL

    def run(text=source):
        cell = page.cell(CELL)
        cell.locator(".cm-content").click()
        page.page.keyboard.press("Control+a")
        page.page.keyboard.insert_text(text)
        page.run_cell(cell)
        return cell

    return run


def card(cell, question_id):
    """One question with its buttons."""
    heading = cell.locator("b", has_text=f"{question_id}: create_ticket, version 1.0")
    return heading.locator("xpath=ancestor::*[contains(@class, 'widget-vbox')][1]")


def button(part, name):
    return part.get_by_role("button", name=name, exact=True)


def state(cell, question_id):
    return card(cell, question_id).locator(".widget-html-content").last


def see_all_wait(cell, number=3):
    expect(cell.get_by_role("status").first).to_contain_text(f"{number} questions wait for a person")
    expect(cell.locator(".jp-Cell-outputArea")).to_contain_text("ran: []")
    for question_id in ("q-1", "q-2", "q-3"):
        expect(button(card(cell, question_id), "approve")).to_be_enabled()


def ran(ask, *numbers):
    """Send calls again in the same kernel, and give what the cell prints."""
    said = ask(f"answers = [call(number) for number in {numbers}]\n{TELL}").locator(".jp-Cell-outputArea")
    return said


def test_the_chapters_own_desk_has_questions_and_buttons(page, shot):
    cell = page.cell(CELL)
    expect(cell.get_by_role("status").first).to_contain_text("for a person")
    button(cell, "refresh").click()
    expect(button(cell, "deny").first).to_be_enabled()
    shot(page, "approval-desk-chapter", cell)


def test_a_yes_and_a_no_by_mouse_and_only_the_next_call_runs(page, ask, shot):
    cell = ask()
    see_all_wait(cell)
    shot(page, "approval-desk", cell)
    card(cell, "q-1").get_by_label("reason").fill("it is on fire")
    button(card(cell, "q-1"), "approve").click()
    expect(state(cell, "q-1")).to_contain_text("Approved by carla: create_ticket, for amira, once, within 60 min.")
    expect(button(card(cell, "q-1"), "approve")).to_be_disabled()
    expect(state(cell, "q-2")).to_have_text("Waits for an answer.")
    button(card(cell, "q-2"), "deny").click()
    expect(state(cell, "q-2")).to_contain_text("Denied by carla: create_ticket, for amira. It will not run.")
    shot(page, "approval-desk-answered", cell)
    button(cell, "refresh").click()
    expect(cell.get_by_role("status").first).to_contain_text("1 question waits")
    expect(card(cell, "q-1")).to_have_count(0)
    expect(cell.locator(".jp-Cell-outputArea")).to_contain_text("ran: []")
    said = ran(ask, 1, 2, 3)
    expect(said).to_contain_text("ran: ['create_ticket'] ['ok', 'approval_denied', 'approval_required']")


def test_nothing_of_a_question_is_markup_and_a_long_value_opens(page, ask, shot):
    cell = ask()
    expect(card(cell, "q-2")).to_contain_text(r'"<b>approved</b>\u202e\n  a yes   for everything"')
    assert card(cell, "q-2").locator("b").count() == 1
    fold = card(cell, "q-3").locator("summary")
    expect(fold).to_contain_text("127 characters in all: open to read them")
    expect(card(cell, "q-3").get_by_text("the end")).to_be_hidden()
    page.select(cell)
    page.tab_to(fold)
    page.page.keyboard.press("Enter")
    expect(card(cell, "q-3").get_by_text("the end")).to_be_visible()
    shot(page, "approval-desk-unfolded", cell)


@pytest.mark.parametrize("key", ["Space", "Enter"])
def test_by_keyboard_alone_and_deny_comes_first(page, ask, key):
    cell = ask()
    see_all_wait(cell)
    page.select(cell)
    first = card(cell, "q-1")
    page.tab_to(first.get_by_label("reason"))
    page.page.keyboard.type("it is on fire")
    page.page.keyboard.press("Enter")
    expect(state(cell, "q-1")).to_have_text("Waits for an answer.")
    page.page.keyboard.press("Tab")
    assert has_focus(button(first, "deny")) and focus_shows(button(first, "deny"))
    page.page.keyboard.press("Tab")
    assert has_focus(button(first, "approve")) and focus_shows(button(first, "approve"))
    page.page.keyboard.press(key)
    page.page.keyboard.press(key)  # a finger that stayed too long
    expect(state(cell, "q-1")).to_contain_text("Approved by carla")
    expect(state(cell, "q-2")).to_have_text("Waits for an answer.")
    page.select(cell)
    page.tab_to(button(card(cell, "q-2"), "deny"))
    page.page.keyboard.press(key)
    expect(state(cell, "q-2")).to_contain_text("Denied by carla")
    expect(ran(ask, 1, 2, 3)).to_contain_text("ran: ['create_ticket'] ['ok', 'approval_denied', 'approval_required']")


def test_a_double_click_answers_one_question(page, ask):
    cell = ask()
    button(card(cell, "q-1"), "approve").dblclick()
    expect(state(cell, "q-1")).to_contain_text("Approved by carla")
    expect(cell.get_by_role("status").first).to_contain_text("2 questions wait")
    expect(state(cell, "q-2")).to_have_text("Waits for an answer.")


def test_after_a_reload_the_questions_are_there_and_none_has_run(page, ask):
    cell = ask()
    see_all_wait(cell)
    page.page.keyboard.press("Control+s")
    page.until(lambda: page.page.locator(".jp-mod-dirty").count() == 0, "the notebook is saved")
    page.reload()
    cell = ask()
    see_all_wait(cell)
    button(card(cell, "q-1"), "approve").click()
    expect(state(cell, "q-1")).to_contain_text("Approved by carla")
    expect(ran(ask, 1, 2)).to_contain_text("ran: ['create_ticket'] ['ok', 'approval_required']")


def test_after_a_restart_an_old_desk_does_nothing_and_a_new_one_has_all(page, ask):
    cell = ask()
    see_all_wait(cell)
    page.menu("Kernel", "kernelmenu:restart")
    page.page.locator(".jp-Dialog .jp-mod-accept").click()
    page.until(page.kernel_is_idle, "the new kernel is idle")
    card(cell, "q-1").locator("button", has_text="approve").click()  # JupyterLab shows a broken link on it now
    cell = ask()
    see_all_wait(cell)
    expect(card(cell, "q-1")).to_contain_text("2 times, by equal calls")
    button(card(cell, "q-3"), "approve").click()
    expect(state(cell, "q-3")).to_contain_text("Approved by carla")
    expect(ran(ask, 1, 2, 3)).to_contain_text("ran: ['create_ticket'] ['approval_required', 'approval_required', 'ok']")


def test_nothing_broke_on_the_way(page):
    # The button of before the restart has no kernel to speak to, and JupyterLab says so in the console.
    assert [one for one in page.troubles() if not one.endswith("console: Cannot send")] == []
