"""The rules for a chapter that a program can hold: a reader may rely on each of them."""

from __future__ import annotations

import re
import statistics
import sys
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from keel.lab.chapters import BUILT, CHAPTERS, position
from tests.chapters import reading
from tests.chapters.reading import PATHS, ROOT, chapter_of, code_cells, read, shown, tags, text_cells, word_count

each = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)

# The module of keel that each chapter builds. A chapter imports nothing that a later one builds.
BUILT_IN = dict(
    contracts="01",
    **dict.fromkeys(("adapters", "models"), "02"),
    **dict.fromkeys(("registry", "judges", "schemas"), "03"),
    validation="04",
    **dict.fromkeys(("rules", "output"), "05"),
    recovery="06",
    **dict.fromkeys(("canonical", "idempotency", "ledger", "owners", "sqlite_ledger", "workers"), "07"),
    settling="07b",
    turns="08",
    authorization="09",
    **dict.fromkeys(("approval", "questions"), "10"),
    workspace="11",
    loop="12",
    trace="13",
    harness="14",
)
SHOWN = {"pydantic", "jsonschema"}  # the two judges of chapter 04
# 00 and 01 may show the finished harness. From 07 on it is what a chapter drives: a ledger and a turn are parts of it.
LOOKS_AHEAD = {"00", "01", "07", "07b", "08", "09", "10", "11", "12", "13", "14"}
CHAPTER_SIZE = (40, 70, 1200)


def test_the_chapters_stand_in_the_order_of_the_course():
    assert [chapter_of(path) for path in PATHS] == [one for one in CHAPTERS if one in map(chapter_of, PATHS)]
    assert {"00", "01"} <= set(map(chapter_of, PATHS))


@each
def test_a_chapter_is_of_a_size_that_a_sitting_holds(path):
    notebook = read(path)
    fewest, most, words = CHAPTER_SIZE
    texts = [cell.source for cell in text_cells(notebook)]
    lines = [len(cell.source.splitlines()) for cell in code_cells(notebook)]
    assert fewest <= len(notebook.cells) <= most
    assert statistics.median(lines) <= 6 and max(lines) <= 25
    assert statistics.median(map(word_count, texts)) <= 40
    assert words <= sum(map(word_count, texts)) <= 2400
    assert sum(word_count(reading.folded(text)) for text in texts) <= 2000


@each
def test_every_cell_was_run_in_order_from_a_fresh_start(path):
    cells = [cell for cell in code_cells(read(path)) if cell.source.strip()]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))


@each
def test_nothing_went_wrong_but_what_was_meant_to(path):
    for cell in code_cells(read(path)):
        errors = [one for one in cell.outputs if one.output_type == "error"]
        assert bool(errors) == ("raises-exception" in tags(cell)), cell.source
        assert not [one for one in cell.outputs if one.get("name") == "stderr"], cell.source


@each
def test_outputs_are_the_same_on_every_machine_and_day(path):
    for cell in code_cells(read(path)):
        text = shown(cell)
        assert not re.search(r"\b0x[0-9a-fA-F]{6,}\b", text), f"an object's address: {cell.source}"
        assert not re.search(r"(?:/home/|/root/|/tmp/|/Users/|/usr/|[A-Z]:\\\\)\S*", text), f"a path: {cell.source}"
        assert not re.search(r"\b\d{1,2}:\d{2}:\d{2}\b", text), f"a clock time: {cell.source}"
        assert not re.search(r"\b[0-9a-f]{32}\b", text), f"a random id: {cell.source}"
        assert "errors.pydantic.dev" not in text, f"an address with a version: {cell.source}"


@each
def test_no_metadata_but_what_is_needed(path):
    notebook = read(path)
    assert set(notebook.metadata) <= {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in notebook.cells:
        assert set(cell.metadata) <= {"tags"}, cell.metadata
        for output in cell.get("outputs", ()):
            assert "application/vnd.jupyter.widget-view+json" not in output.get("data", {}), cell.source


@each
def test_cell_ids_are_there_and_no_two_are_the_same(path):
    ids = [cell.get("id") for cell in read(path).cells]
    assert all(ids) and len(set(ids)) == len(ids)


@each
def test_a_chapter_imports_nothing_that_a_later_chapter_builds(path):
    chapter = chapter_of(path)
    for module, name in reading.imports(read(path)):
        top, _, rest = module.partition(".")
        if top != "keel":
            assert top in sys.stdlib_module_names or top in SHOWN, f"{module} is no part of the course"
            continue
        part = rest.split(".")[0] or name.lower()
        if part in BUILT_IN and not (part == "harness" and chapter in LOOKS_AHEAD):
            assert position(BUILT_IN[part]) <= position(chapter), f"{module} is built in chapter {BUILT_IN[part]}"


@each
def test_links_lead_somewhere(path):
    for link in reading.links(read(path)):
        address = urlparse(link)
        if address.scheme in ("http", "https"):
            assert address.netloc, link
            continue
        assert (path.parent / unquote(address.path)).exists(), link


@each
def test_headings_are_in_order(path):
    found = reading.headings(read(path))
    assert [words for level, words in found if level == 1] == [found[0][1]], "one title, and it comes first"
    assert found[0][1].startswith(f"{chapter_of(path)} · ")
    for (before, _), (after, words) in pairwise(found):
        assert after <= before + 1, f"{words} skips a level"


@each
def test_live_cells_stand_alone_and_are_never_compared(path):
    for cell in code_cells(read(path)):
        assert ("live" in tags(cell)) <= ("nbval-skip" in tags(cell)), cell.source


@each
def test_a_chapter_speaks_its_language_in_text_and_not_in_code(path):
    """A second edition must be able to keep the code cells: no sentence in a comment, no question in a string."""
    for cell in code_cells(read(path)):
        for comment in re.findall(r"(?m)(?:^|\s)#\s*(.+)$", cell.source):
            assert word_count(comment) <= 12, comment


def test_a_chapter_has_what_every_chapter_has():
    for path in PATHS:
        if chapter_of(path) == "00":
            continue
        words = [heading for _, heading in reading.headings(read(path))]
        for needed in ("Exercises", "Self-test", "What changed"):
            assert needed in words, f"{path.stem} has no {needed}"
        code = "\n".join(cell.source for cell in code_cells(read(path)))
        for needed in ("stage_strip(", "predict(", "run_gauntlet(", "check(", "quiz("):
            assert needed in code, f"{path.stem} has no {needed}"


def test_the_table_in_chapter_00_and_the_readme_link_every_chapter_there_is():
    start = "\n".join(cell.source for cell in text_cells(read(PATHS[0])))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in PATHS:
        if chapter_of(path) != "00":
            assert f"({path.name})" in start
        assert f"(notebooks/{path.name})" in readme


def test_the_chapters_that_exist_are_chapters_that_are_built():
    assert set(map(chapter_of, PATHS)) <= BUILT


def test_the_project_speaks_of_itself_alone():
    """No path of a machine, no word that belongs to where it was made."""
    here = re.compile(re.escape(str(Path.home())) + r"/|/work/(?:main|shared)")
    for file in [*ROOT.glob("*.md"), *ROOT.glob("keel/**/*.py"), *PATHS]:
        assert not here.search(file.read_text(encoding="utf-8")), file


def test_the_picture_in_the_readme_shows_the_boards_as_they_are():
    from keel.lab.board import the_two_boards

    drawn = (ROOT / "docs" / "boards.svg").read_text(encoding="utf-8")
    assert drawn == the_two_boards().svg() + "\n", "run: python -m keel.lab.board > docs/boards.svg"
