"""The two floors: the harness knows nothing of the course, and no module knows of one that is built later."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import keel

HOUSE = Path(keel.__file__).parent
MODULES = sorted(path.stem for path in HOUSE.glob("*.py"))

CHAPTERS = {
    "contracts": 1,
    "adapters": 2,
    "models": 2,
    "structured": 2,
    "judges": 3,
    "schemas": 3,
    "registry": 3,
    "validation": 4,
    "rules": 5,
    "output": 5,
    "recovery": 6,
    "canonical": 7,
    "questions": 7,  # a ledger keeps them; chapter 10 asks them
    "owners": 7,
    "ledger": 7,
    "sqlite_ledger": 7,
    "workers": 7,
    "idempotency": 7,
    "settling": 7.5,  # chapter 07b
    "turns": 8,
    "authorization": 9,
    "approval": 10,
    "workspace": 11,
    "history": 12,
    "loop": 12,
    "trace": 13,
    "replay": 13,
    "telemetry": 13,
    "harness": 99,
    "__init__": 99,
    "__main__": 99,
}


def tree(module: str) -> ast.Module:
    return ast.parse((HOUSE / f"{module}.py").read_text(encoding="utf-8"))


def imported(module: str) -> set[str]:
    """Every module that this one imports, wherever in its text: `keel.x` for those of the package."""
    found = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ("keel." if node.level else "") + (node.module or "")
            found |= {base.rstrip(".")} | {f"{base.rstrip('.')}.{one.name}" for one in node.names}
    return found


def siblings(module: str) -> set[str]:
    parts = [name.split(".") for name in imported(module) if name.startswith("keel.")]
    return {part[1] for part in parts if part[1] in MODULES}


def test_every_module_has_its_chapter():
    assert set(MODULES) <= set(CHAPTERS)


@pytest.mark.parametrize("module", MODULES)
def test_no_module_imports_one_of_a_later_chapter(module):
    # What drives the finished harness.
    stands_on = {"loop": {"harness"}, "replay": {"harness"}}.get(module, set())
    later = {other for other in siblings(module) if CHAPTERS[other] > CHAPTERS[module]}
    assert later <= stands_on


def test_the_registry_compiles_judges_and_does_not_judge():
    assert "judges" in siblings("registry")
    assert not siblings("registry") & {"validation", "rules", "output", "harness"}
    assert not siblings("adapters") & {"output", "registry"}


@pytest.mark.parametrize("module", [one for one in MODULES if one != "__main__"])
def test_the_harness_knows_nothing_of_the_lab(module):
    assert not [name for name in imported(module) if name.startswith("keel.lab")]
    assert not imported(module) & {"ipywidgets", "IPython", "nbformat", "matplotlib"}


def test_no_function_is_longer_than_forty_lines():
    long = [
        f"{path.name}: {node.name} ({node.end_lineno - node.lineno + 1} lines)"
        for path in sorted(HOUSE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno - node.lineno + 1 > 40
    ]
    assert not long


def test_the_harness_stays_small():
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in HOUSE.glob("*.py")}
    assert sum(lines.values()) <= 6700, lines
    assert max(lines.values()) < 500, lines


HEAVY = ["openai", "ipywidgets", "IPython", "asyncio", "jsonschema", "referencing", "matplotlib", "keel.lab"]


def loaded_by(program: str) -> set[str]:
    program = f"import json, sys\n{program}\nprint(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=HOUSE.parent)
    return set(json.loads(done.stdout))


def test_importing_the_harness_loads_nothing_heavy():
    assert loaded_by("import keel") == set()


def test_a_plain_tool_needs_nothing_heavy_either():
    assert (
        loaded_by(
            "import keel\n"
            "registry = keel.ToolRegistry()\n"
            "@registry.tool(read_only=True)\n"
            "def add(a: int, b: int) -> int:\n"
            "    return a + b\n"
            "context = keel.ExecutionContext(principal=keel.Principal(id='a'))\n"
            "call = keel.ToolRequest(name='add', arguments={'a': 2, 'b': 3})\n"
            "assert keel.Harness(registry).handle(call, context).data == 5\n"
        )
        == set()
    )
