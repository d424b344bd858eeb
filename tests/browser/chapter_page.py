"""A chapter open in JupyterLab, and what a reader does with it. Every wait is for a condition, never for a time."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import ConsoleMessage, Locator, Page
from playwright.sync_api import TimeoutError as TooLate

from tests.browser.server import ROOT, Server

# One machine runs JupyterLab, the kernel and Chromium, and may be busy with more.
PATIENCE_S = 120
PANEL = ".jp-NotebookPanel:not(.lm-mod-hidden)"
PROMPTS = f"{PANEL} .jp-CodeCell .jp-InputArea-prompt"
# What nobody should ever see, as a selector or as words.
ERROR_BOXES = '[data-mime-type="application/vnd.jupyter.stderr"], [data-mime-type="application/vnd.jupyter.error"]'
ERROR_WORDS = re.compile(r"Loading widget|Error displaying widget|Error creating widget|Javascript Error")


class ChapterPage:
    """One notebook in one page. Cells are found by a piece of their source."""

    def __init__(self, server: Server, page: Page, name: str) -> None:
        self.server, self.page, self.name = server, page, name
        self.panel = page.locator(PANEL)
        self.cells = self.panel.locator(".jp-Notebook .jp-Cell")
        self.browser_errors: list[str] = []
        page.set_default_timeout(PATIENCE_S * 1000)
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.browser_errors.append(str(error)))

    @property
    def slug(self) -> str:
        """The chapter's name as a file's name."""
        return self.name.removesuffix(".ipynb").replace("/", "-")

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.browser_errors.append(f"{message.text} ({message.location.get('url', '')})")

    # --- opening and running ---

    def open(self) -> ChapterPage:
        """Open the chapter as committed, with a kernel of its own."""
        self.server.end_sessions(self.name)
        path = self.server.put_back(self.name)
        self.source_cells: list[Any] = nbformat.read(path, as_version=4).cells
        self.page.goto(self.server.address(self.name, f"test-{time.monotonic_ns()}"))
        return self._ready()

    def reload(self) -> ChapterPage:
        """Load the page again. The kernel goes on."""
        self.page.reload()
        return self._ready()

    def _ready(self) -> ChapterPage:
        count = len(self.source_cells)
        self.until(lambda: self.cells.count() == count, f"all {count} cells are on the page")
        self.until(self.kernel_is_idle, "the kernel is connected and idle")
        return self

    def kernel_is_idle(self) -> bool:
        """Whether the server knows a connected kernel of this chapter that has nothing to do."""
        kernels = [one["kernel"] for one in self.server.sessions(self.name)]
        return any(one["connections"] >= 1 and one["execution_state"] == "idle" for one in kernels)

    def run_all(self) -> ChapterPage:
        """Clear all outputs, run all cells, and wait until each has run."""
        self.menu("Edit", "editmenu:clear-all")
        self.menu("Run", "runmenu:run-all")
        return self._has_run()

    def restart_and_run_all(self) -> ChapterPage:
        """The same in a new kernel."""
        self.menu("Edit", "editmenu:clear-all")
        self.menu("Run", "runmenu:restart-and-run-all")
        self.page.locator(".jp-Dialog .jp-mod-accept").click()
        return self._has_run()

    def _has_run(self) -> ChapterPage:
        self.until(lambda: self.unrun() == 0 or self._broke_off(), "every cell has an execution count")
        assert self.unrun() == 0, f"running broke off:\n{self.error_text()}"
        self.until(self.kernel_is_idle, "the kernel is idle")
        return self

    def run_counts(self) -> list[int | None]:
        """The numbers in front of the code cells that hold code; None where one has not been run to its end."""
        prompts = self.page.locator(PROMPTS).all_text_contents()
        sources = [one.source for one in self.source_cells if one.cell_type == "code"]
        numbers = [re.search(r"\d+", prompt) for prompt in prompts]
        return [int(one.group()) if one else None for one, text in zip(numbers, sources, strict=True) if text.strip()]

    def unrun(self) -> int:
        """How many code cells have not been run to their end."""
        return self.run_counts().count(None)

    def _broke_off(self) -> bool:
        running = any("*" in prompt for prompt in self.page.locator(PROMPTS).all_text_contents())
        return not running and bool(self.error_text())

    def error_text(self) -> str:
        """What the error boxes say, first lines."""
        return "\n".join(text[-800:] for text in self.panel.locator(ERROR_BOXES).all_inner_texts())

    def menu(self, name: str, command: str) -> None:
        """Choose an entry of the menu bar with the mouse."""
        self.page.get_by_role("menuitem", name=name, exact=True).click()
        self.page.locator(f'.lm-Menu-item[data-command="{command}"]').click()
        self.page.locator(".lm-Menu").first.wait_for(state="hidden")

    # --- cells ---

    def cell(self, piece: str) -> Locator:
        """The one code cell whose source, as committed, has this piece in it."""
        found = [at for at, one in enumerate(self.source_cells) if one.cell_type == "code" and piece in one.source]
        assert len(found) == 1, f"{len(found)} code cells of {self.name} hold {piece!r}"
        return self.cells.nth(found[0])

    def cells_of(self, wanted: Callable[[Any], bool]) -> list[tuple[Any, Locator]]:
        """Every cell that is wanted, as committed and as it is on the page."""
        return [(one, self.cells.nth(at)) for at, one in enumerate(self.source_cells) if wanted(one)]

    def run_cell(self, cell: Locator) -> None:
        """Run the cell in which the cursor stands, and wait until it has run."""
        before = cell.locator(".jp-InputArea-prompt").inner_text()
        self.page.keyboard.press("Control+Enter")
        ran = re.compile(r"\[\d+\]")
        prompt = cell.locator(".jp-InputArea-prompt")
        self.until(lambda: ran.search(now := prompt.inner_text()) and now != before, "the cell has run")

    def retype_line(self, cell: Locator, beginning: str, text: str) -> None:
        """Put the cursor into the line that begins so, and type another in its place, key by key."""
        cell.locator(".cm-line").filter(has_text=re.compile(f"^{re.escape(beginning)}")).click()
        self.page.keyboard.press("End")
        self.page.keyboard.press("Shift+Home")
        self.page.keyboard.type(text)

    # --- the keyboard ---

    def tab_to(self, target: Locator, at_most: int = 40) -> None:
        """Press Tab until the target has the focus."""
        for _ in range(at_most):
            self.page.keyboard.press("Tab")
            if has_focus(target):
                return
        raise AssertionError(f"{at_most} times Tab, and the focus never came to {target}")

    def select(self, cell: Locator) -> None:
        """Choose a cell as a whole, as a reader does who walks through the notebook with the arrow keys."""
        cell.locator(".jp-InputArea-prompt").first.click()
        if not has_focus(cell):  # it was chosen already, and the keyboard stays inside it
            self.page.keyboard.press("ArrowUp")
            self.page.keyboard.press("ArrowDown")
        self.until(lambda: has_focus(cell), "the cell is chosen")

    # --- waiting and looking ---

    def until(self, holds: Callable[[], Any], what: str) -> None:
        """Wait until something holds that the page alone cannot tell."""
        end = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() > end:
                raise TooLate(f"{self.name}: waited {PATIENCE_S} s until {what}\n{self.state()}")
            self.page.wait_for_timeout(100)  # lets the page's events be heard between two looks

    def state(self) -> str:
        """Where things stand, for the report of a failure."""
        dialogs = self.page.locator(".jp-Dialog").all_inner_texts()
        kernels = [one["kernel"] for one in self.server.sessions(self.name)]
        facts = {"kernels": kernels, "dialogs": dialogs, "browser": self.browser_errors[-5:]}
        return json.dumps(facts, default=str) + "\n" + self.error_text() + "\n" + self.server.log_tail()

    def troubles(self) -> list[str]:
        """Every sign on the page that something is broken, in words."""
        allowed = [at for at, one in enumerate(self.source_cells) if "raises-exception" in one.metadata.get("tags", ())]
        found = []
        for at in range(self.cells.count()):
            boxes = [] if at in allowed else self.cells.nth(at).locator(ERROR_BOXES).all_inner_texts()
            found += [f"cell {at} shows an error: {text[-300:]}" for text in boxes]
        found += [f"words of a broken widget: {words}" for words in ERROR_WORDS.findall(self.panel.inner_text())]
        found += [f"a dialog: {text}" for text in self.page.locator(".jp-Dialog").all_inner_texts()]
        return found + [f"the browser's console: {text}" for text in self.browser_errors]


def has_focus(target: Locator) -> bool:
    """Whether the keyboard is at this element."""
    return target.evaluate("element => element === document.activeElement")


FOCUS_SHOWS = """element => {
    const style = getComputedStyle(element);
    const line = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
    return element.matches(':focus-visible') && (line || style.boxShadow !== 'none');
}"""


def focus_shows(target: Locator) -> bool:
    """Whether a reader sees that the keyboard is at this element: a line or a shadow around it."""
    return target.evaluate(FOCUS_SHOWS)


def chapter_paths() -> list[Path]:
    """Every committed chapter, other languages' too."""
    return sorted(path for path in (ROOT / "notebooks").rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)


def chapter_name(number: str) -> str:
    """The file of a chapter: `01_….ipynb` for "01"."""
    return next(path.name for path in chapter_paths() if path.name.startswith(f"{number}_"))
