"""Pictures of what a reader sees, in a light and in a dark JupyterLab, for people to look at: artifacts/."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Locator, Page

from tests.browser.chapter_page import ChapterPage
from tests.browser.server import ROOT

ARTIFACTS = ROOT / "artifacts"
SCHEMES = ("light", "dark")
# A taller picture is cut into sheets, so that its text can still be read.
SHEET = 2000


def photograph(
    chapter: ChapterPage, name: str, part: Locator | None = None, schemes: Iterable[str] = SCHEMES
) -> list[Path]:
    """Take the whole notebook, or one part of it; leave the page in the theme it had. Returns the pictures' paths.

    A diagram keeps the colours of the theme in which it was drawn: for a dark chapter `put_on` dark, then reload.
    """
    ARTIFACTS.mkdir(exist_ok=True)
    paths: list[Path] = []
    before = worn(chapter.page)
    with _tall_enough(chapter):
        for scheme in schemes:
            put_on(chapter.page, scheme)
            paths += _sheets(chapter, f"{name}-{scheme}") if part is None else [_part(part, f"{name}-{scheme}")]
        put_on(chapter.page, before)
    return paths


def worn(page: Page) -> str:
    """The theme that JupyterLab wears now."""
    return "light" if page.evaluate("document.body.dataset.jpThemeLight") == "true" else "dark"


def put_on(page: Page, scheme: str) -> None:
    """Have the browser ask for a light or a dark page, and wait until JupyterLab wears it."""
    page.emulate_media(color_scheme=scheme)
    light = "true" if scheme == "light" else "false"
    page.wait_for_function("light => document.body.dataset.jpThemeLight === light", arg=light)
    page.locator("#jupyterlab-splash").wait_for(state="hidden")  # the veil over a page that changes its theme


# How much taller the notebook is than its place in the window; the empty space beneath it does not count.
MISSING = """panel => {
    const place = panel.querySelector('.jp-WindowedPanel-outer');
    const last = [...panel.querySelectorAll('.jp-Cell')].at(-1);
    place.scrollTop = 0;
    return Math.ceil(last.getBoundingClientRect().bottom - place.getBoundingClientRect().bottom);
}"""


@contextmanager
def _tall_enough(chapter: ChapterPage) -> Iterator[None]:
    """Make the window as tall as the notebook, and then as it was."""
    page, before = chapter.page, chapter.page.viewport_size
    missing = chapter.panel.evaluate(MISSING)
    page.set_viewport_size({"width": before["width"], "height": max(before["height"], before["height"] + missing + 20)})
    chapter.until(lambda: chapter.panel.evaluate(MISSING) <= 0, "the window is as tall as the notebook")
    yield
    page.set_viewport_size(before)


def _sheets(chapter: ChapterPage, name: str) -> list[Path]:
    box = chapter.panel.bounding_box()
    paths = []
    for number, top in enumerate(range(0, int(box["height"]), SHEET), 1):
        clip = {**box, "y": box["y"] + top, "height": min(SHEET, box["height"] - top)}
        paths.append(ARTIFACTS / f"{name}-{number}.png")
        chapter.page.screenshot(path=paths[-1], clip=clip)
    return paths


def _part(part: Locator, name: str) -> Path:
    path = ARTIFACTS / f"{name}.png"
    part.screenshot(path=path)
    return path
