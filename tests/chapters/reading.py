"""Chapters as data: their cells, their words, and what a rule needs to look at."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))


def read(path: Path) -> Any:
    """The notebook as nbformat gives it."""
    return nbformat.read(path, as_version=4)


def chapter_of(path: Path) -> str:
    """`07b` of `07b_when_nobody_knows.ipynb`."""
    return path.stem.split("_")[0]


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def text_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "markdown"]


def tags(cell: Any) -> set[str]:
    return set(cell.metadata.get("tags", ()))


def word_count(text: str) -> int:
    return len(text.split())


def folded(text: str) -> str:
    """The text without what is folded or drawn: details and diagrams."""
    return re.sub(r"(?s)<details>.*?</details>|```mermaid.*?```", "", text)


def shown(cell: Any) -> str:
    """All text that a cell's outputs show, in whatever form."""
    parts = []
    for output in cell.get("outputs", ()):
        parts += [output.get("text", ""), *output.get("traceback", ())]
        parts += [value for value in output.get("data", {}).values() if isinstance(value, str)]
    return "\n".join(parts)


def imports(notebook: Any) -> list[tuple[str, str]]:
    """(module, name) of every import in the code cells; the name is empty for `import module`."""
    found: list[tuple[str, str]] = []
    for cell in code_cells(notebook):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Import):
                found += [(alias.name, "") for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                found += [(node.module or "", alias.name) for alias in node.names]
    return found


def links(notebook: Any) -> list[str]:
    """Every link target in the text cells, pictures included."""
    text = "\n".join(cell.source for cell in text_cells(notebook))
    return re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"(?:href|src)=\"([^\"]+)\"", text)


def headings(notebook: Any) -> list[tuple[int, str]]:
    """(level, words) of every heading outside of code fences."""
    found = []
    for cell in text_cells(notebook):
        text = re.sub(r"(?s)```.*?```", "", cell.source)
        found += [(len(marks), words) for marks, words in re.findall(r"(?m)^(#+) (.+)$", text)]
    return found
