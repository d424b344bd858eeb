"""The board of chapter 00: walk through its rows with the arrow keys or the mouse, and the card beside them changes."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.chapter_page import chapter_name, focus_shows, has_focus

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(chapter):
    return chapter(chapter_name("00"))


@pytest.fixture
def board(page):
    """The cell of the first board, on which nearly all is red."""
    return page.cell("gauntlet_board(naive_board)")


def card(board):
    return board.locator(".keel-board-card:visible")


def row(board, number):
    return board.get_by_role("radio").nth(number)


def title(board, number):
    """A row's words without its mark and its chapter: `✗ 03 an argument missing`."""
    return board.get_by_role("radiogroup").locator("label").nth(number).inner_text().split(maxsplit=2)[2]


def test_the_arrow_keys_walk_through_all_rows_and_the_card_follows(page, board, shot):
    page.select(board)
    page.tab_to(row(board, 0))
    assert focus_shows(row(board, 0))
    expect(card(board)).to_contain_text("a valid call")
    last = board.get_by_role("radio").count() - 1
    assert last >= 20
    for number in range(1, last + 1):
        page.page.keyboard.press("ArrowDown")
        expect(row(board, number)).to_be_checked()
        expect(card(board)).to_have_count(1)
        expect(card(board)).to_contain_text(title(board, number))
    assert has_focus(row(board, last)), "JupyterLab has not taken the keys for itself"
    for number in range(last - 1, 2, -1):
        page.page.keyboard.press("ArrowUp")
        expect(row(board, number)).to_be_checked()
    expect(card(board)).to_contain_text("the world:")  # what a write that nobody approved has done
    assert "jp-mod-active" in board.get_attribute("class"), "the notebook has not moved on to another cell"
    shot(page, "board-damage", board)


def test_a_click_on_a_row_shows_its_card(page, board):
    board.get_by_role("radiogroup").locator("label").nth(1).click()
    expect(row(board, 1)).to_be_checked()
    expect(card(board)).to_contain_text("a name that nobody registered")
    expect(card(board)).to_contain_text("production deleted")
    page.page.keyboard.press("ArrowDown")
    expect(card(board)).to_contain_text("a field by a wrong name")


def test_two_boards_on_a_page_leave_each_other_alone(page, board):
    other = page.cell("gauntlet_board(finished_board)")
    other.get_by_role("radiogroup").locator("label").nth(3).click()
    expect(row(other, 3)).to_be_checked()
    expect(board.get_by_role("radio", checked=True)).to_have_count(1)
    expect(other.get_by_role("radio", checked=True)).to_have_count(1)
    assert page.troubles() == []
