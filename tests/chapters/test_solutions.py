"""A chapter with all solutions put in passes from top to bottom: what the text asks for is what the check wants."""

from __future__ import annotations

import re

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell

from keel.lab.exercises.finding import all_exercises, find
from keel.lab.exercises.model import source_of
from tests.chapters.reading import PATHS, chapter_of, code_cells, read, shown

WITH_EXERCISES = [path for path in PATHS if chapter_of(path) in all_exercises()]
# The most that this kernel has held so far, in MB; only Linux tells.
MEMORY = """
from pathlib import Path
status = Path("/proc/self/status")
print(int(status.read_text().split("VmHWM:")[1].split()[0]) / 1000 if status.exists() else 0)
"""
CHECK = re.compile(r'check\("(?P<id>[0-9]{2}b?-[abc])", (?P<name>\w+)\)')


@pytest.mark.parametrize("path", WITH_EXERCISES, ids=lambda path: path.stem)
def test_a_chapter_with_all_solutions_put_in_passes(path):
    notebook, solved = read(path), {}
    for cell in code_cells(notebook):
        found = CHECK.search(cell.source)
        if found:
            exercise = find(found["id"])
            solved[found["id"]] = cell
            solution = source_of(exercise.solution, found["name"])
            cell.source = f"from keel.lab import check\n\n{solution}\n\n{found[0]}"
    assert list(solved) == [exercise.id for exercise in all_exercises()[chapter_of(path)]]
    notebook.cells.append(new_code_cell(MEMORY))
    options = {"timeout": 60, "kernel_name": "python3", "record_timing": False, "coalesce_streams": True}
    NotebookClient(notebook, resources={"metadata": {"path": str(path.parent)}}, **options).execute()
    for name, cell in solved.items():
        assert f"{name}: passed" in shown(cell), shown(cell)
    assert float(shown(notebook.cells[-1])) < 250, "a chapter's kernel stays under 250 MB"


@pytest.mark.parametrize("path", WITH_EXERCISES, ids=lambda path: path.stem)
def test_the_stubs_in_the_text_are_not_attempted(path):
    for cell in code_cells(read(path)):
        found = CHECK.search(cell.source)
        if found:
            assert f"{found['id']}: not attempted yet" in shown(cell)
