"""JupyterLab once for all browser tests, a page for each chapter that a module opens, pictures in artifacts/."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

import bootstrap
from tests.browser.chapter_page import PATIENCE_S, ChapterPage
from tests.browser.pictures import ARTIFACTS, photograph
from tests.browser.server import Server

MISSING = (
    "The browser tests need Chromium or Chrome, and none was found. On Debian or Ubuntu install it with "
    "`apt install chromium fonts-noto-cjk`; elsewhere install Chrome, or name the program with CHROMIUM=PATH."
)
# A browser without a window that asks nothing of the network. The sandbox does not start as root or in a container.
SWITCHES = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
SWITCHES += ["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"]

_open_pages: list[Page] = []
expect.set_options(timeout=PATIENCE_S * 1000)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, started once."""
    program = bootstrap.find_chromium()
    if program is None:
        pytest.fail(MISSING, pytrace=False)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=SWITCHES, timeout=120_000)
        yield started
        started.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """JupyterLab over a copy of the course, started once."""
    server = Server(tmp_path_factory.mktemp("lab"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """One visitor for all pages, so that JupyterLab's own files are fetched once."""
    one = browser.new_context(viewport={"width": 1280, "height": 1000}, locale="en-US", color_scheme="light")
    yield one
    one.close()


@pytest.fixture(scope="module")
def chapter(context: BrowserContext, lab: Server) -> Iterator[Callable[..., ChapterPage]]:
    """`chapter("01_….ipynb")` opens it and runs all; `run=False` only opens it. Closed when the module is done."""
    opened: list[ChapterPage] = []

    def open_chapter(name: str, run: bool = True) -> ChapterPage:
        one = ChapterPage(lab, context.new_page(), name)
        opened.append(one)
        _open_pages.append(one.page)
        one.open()
        return one.run_all() if run else one

    yield open_chapter
    for one in opened:
        _open_pages.remove(one.page)
        one.page.close()
        lab.end_sessions(one.name)


@pytest.fixture(scope="session")
def shot() -> Callable[..., list[Path]]:
    """`shot(chapter, "name")` takes the whole notebook, `shot(chapter, "name", cell)` one cell; light and dark."""
    return photograph


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """After a failure, keep a picture of what the reader would have seen."""
    report = yield
    if report.failed and "browser" in item.keywords and _open_pages:
        name = re.sub(r"\W+", "-", item.name).strip("-")
        path = ARTIFACTS / f"failed-{name}.png"
        try:
            _open_pages[-1].screenshot(path=path, timeout=10_000)
            report.sections.append(("picture", str(path)))
        except Exception as problem:  # the page may be what has failed
            report.sections.append(("picture", f"none could be taken: {problem}"))
    return report
