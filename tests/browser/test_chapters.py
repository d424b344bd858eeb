"""Every chapter: open it, run all, and look for anything that is broken or missing on the page."""

from __future__ import annotations

import os
import re

import pytest
from playwright.sync_api import expect

from tests.browser.chapter_page import chapter_paths
from tests.browser.pictures import put_on
from tests.browser.server import ROOT

pytestmark = pytest.mark.browser

NAMES = [path.relative_to(ROOT / "notebooks").as_posix() for path in chapter_paths()]
# A chapter with the board or the strip in it calls these.
STRIP, BOARD = "stage_strip(", "gauntlet_board("
# Each has a widget that no earlier chapter has.
BY_NIGHT = ("00", "01", "03", "07b", "10", "12")
QUESTION = re.compile(r"\b(predict|quiz)\(\"")
FENCE = re.compile(r"(?m)^```mermaid$")
WIDGETS = ".jp-OutputArea-output > .jupyter-widgets"
WIDTH_OF_IMAGE = "image => image.decode().then(() => image.naturalWidth)"


@pytest.fixture(scope="module", params=NAMES, ids=lambda name: name.removesuffix(".ipynb"))
def opened(request, chapter):
    """The chapter as committed, not run yet; then what stood on its page at that moment."""
    page = chapter(request.param, run=False)
    return page, page.troubles()


@pytest.fixture(scope="module")
def ran(opened):
    """The chapter after Run All."""
    return opened[0].run_all()


def is_code(cell):
    return cell.cell_type == "code"


def stored(cell, kind):
    """The stored outputs of a cell that have this form."""
    return [one for one in cell.get("outputs", ()) if kind in one.get("data", {})]


def printed_lines(cell):
    """The lines that a cell printed when it was committed."""
    text = "".join(output.get("text", "") for output in cell.outputs)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def text_on_page(cell):
    """All that stands under a cell, white space aside: a browser is free to break lines."""
    return " ".join(cell.locator(".jp-Cell-outputArea").inner_text().split())


def test_it_opens_as_committed_without_an_error(opened):
    assert opened[1] == []


def test_run_all_leaves_no_error_box_no_broken_widget_and_no_complaint_of_the_browser(ran):
    assert ran.unrun() == 0
    assert ran.run_counts() == list(range(1, len(ran.run_counts()) + 1))
    assert ran.troubles() == []


def test_every_cell_that_has_an_output_shows_it(ran):
    for cell, on_page in ran.cells_of(lambda cell: is_code(cell) and cell.get("outputs")):
        assert text_on_page(on_page) or on_page.locator("svg, img").count(), cell.source
        if "nbval-ignore-output" not in cell.metadata.get("tags", ()):
            first_lines = [
                output.text.strip().split("\n")[0] for output in cell.outputs if output.get("text", "").strip()
            ]
            for line in first_lines:
                assert " ".join(line.split()) in text_on_page(on_page), cell.source


def diagrams(chapter):
    """How many diagrams the chapter has as committed."""
    return sum(len(FENCE.findall(cell.source)) for cell in chapter.source_cells if cell.cell_type == "markdown")


def test_every_diagram_is_drawn_as_an_image(ran):
    assert diagrams(ran) >= 1, "a chapter has at least one diagram"
    for cell, on_page in ran.cells_of(lambda cell: cell.cell_type == "markdown"):
        images = on_page.locator(".jp-RenderedMermaid img")
        expect(images).to_have_count(len(FENCE.findall(cell.source)))
        for number in range(images.count()):
            expect(images.nth(number)).to_be_visible()
            assert images.nth(number).evaluate(WIDTH_OF_IMAGE) > 50, cell.source


def test_the_strip_of_stages_is_visible_as_html(ran):
    strips = ran.cells_of(lambda cell: is_code(cell) and STRIP in cell.source)
    assert strips, "every chapter shows the strip"
    for _, on_page in strips:
        strip = on_page.locator('.jp-RenderedHTML[data-mime-type="text/html"]')
        words = strip.locator("span").all_inner_texts()
        assert strip.is_visible() and {"run", "output"} <= {word.split()[0] for word in words if word}
        assert "border" in strip.locator("span").first.get_attribute("style")


def test_html_and_pictures_are_shown_and_not_their_text(ran):
    for cell, on_page in ran.cells_of(lambda cell: is_code(cell) and stored(cell, "text/html")):
        assert on_page.locator('[data-mime-type="text/html"]').first.is_visible(), cell.source
    for cell, on_page in ran.cells_of(lambda cell: is_code(cell) and stored(cell, "image/svg+xml")):
        picture = on_page.locator('[data-mime-type="image/svg+xml"]').locator("svg, img").first
        assert picture.is_visible() and picture.bounding_box()["width"] > 100, cell.source


def test_the_board_is_there_as_text_and_as_a_list(ran):
    for _, on_page in ran.cells_of(lambda cell: is_code(cell) and BOARD in cell.source):
        assert re.search(r"✓ a valid call +right", on_page.locator("pre").first.inner_text())
        assert re.search(r"\d+ of \d+ right", text_on_page(on_page))
        expect(on_page.get_by_role("radio").nth(4)).to_be_visible()
        expect(on_page.locator(".keel-board-card:visible")).to_contain_text("a valid call")


def test_every_question_has_its_buttons(ran):
    for cell, on_page in ran.cells_of(lambda cell: is_code(cell) and QUESTION.search(cell.source)):
        options = re.findall(r"(?m)^  ([a-z])\) ", cell.outputs[0].text)
        expect(on_page.locator("button.widget-button")).to_have_text(options)


def test_every_folded_answer_opens(ran):
    for cell, on_page in ran.cells_of(lambda cell: cell.cell_type == "markdown" and "<details>" in cell.source):
        folded = on_page.locator(".jp-RenderedMarkdown details")
        assert folded.count() == cell.source.count("<details>")
        for number in range(folded.count()):
            one = folded.nth(number)
            expect(one).not_to_have_attribute("open", "")
            one.locator("summary").click()
            expect(one).to_have_attribute("open", "")
            one.locator("summary").click()


def test_a_picture_of_the_whole_chapter(ran, shot):
    paths = shot(ran, ran.slug, schemes=["light"])
    assert all(path.stat().st_size > 5_000 for path in paths)


def test_after_a_reload_in_the_dark_and_run_all_everything_is_there_again(ran, shot):
    if os.environ.get("CI") and not ran.slug.startswith(BY_NIGHT):
        pytest.skip("in CI half a minute for each chapter is too much: those with a widget of their own are looked at")
    put_on(ran.page, "dark")
    widgets = ran.panel.locator(WIDGETS).count()
    ran.reload().run_all()
    assert ran.troubles() == []
    assert min(ran.run_counts()) > len(ran.run_counts()), "the kernel went on"
    expect(ran.panel.locator(WIDGETS)).to_have_count(widgets)
    expect(ran.panel.locator(".jp-RenderedMermaid img")).to_have_count(diagrams(ran))
    assert shot(ran, ran.slug, schemes=["dark"])
