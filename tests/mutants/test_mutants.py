"""Sabotage: each small wrong change of keel must turn the one test red that is named for it.

Each mutant is a copy of the harness and its tests in a folder of its own, and only the named test
runs there. A mutant that no test notices is a hole in the tests, and not a harmless change.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MUTANTS = tomllib.loads((HERE / "mutants.toml").read_text(encoding="utf-8"))
PARTS = ("keel", "data", "tests/harness", "tests/models", "tests/security")

# Stands at the top of each copy: a test of a copy that used another keel would prove nothing.
GUARD = """
from pathlib import Path

import keel

assert Path(keel.__file__).is_relative_to(Path(__file__).parent), keel.__file__
"""


def copy_to(folder: Path) -> None:
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part)
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "conftest.py").write_text(GUARD, encoding="utf-8")


def run(folder: Path, *tests: str) -> subprocess.CompletedProcess:
    """Run these tests in the copy, away from whatever runs these lines."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV", "PYTHON"))}
    env |= {"PYTHONPATH": str(folder), "PYTHONUTF8": "1"}
    env |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1", "KEEL_FEWER_EXAMPLES": "25"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    command += [f"tests/{test}" for test in tests]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, encoding="utf-8", timeout=300)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught_by_the_test_named_for_it(name, tmp_path):
    mutant = MUTANTS[name]
    copy_to(tmp_path)
    sabotaged = tmp_path / "keel" / mutant["file"]
    text = sabotaged.read_text(encoding="utf-8")
    assert text.count(mutant["old"]) == 1, "what is to be replaced must stand there exactly once: mend the mutant"
    sabotaged.write_text(text.replace(mutant["old"], mutant["new"]), encoding="utf-8")
    done = run(tmp_path, mutant["test"])
    said = done.stdout + done.stderr
    assert done.returncode == 1 and "1 failed" in said and "error" not in said.splitlines()[-1], said[-3000:]
    assert f"FAILED tests/{mutant['test']}" in said, said[-3000:]


def test_the_named_tests_pass_where_nothing_is_sabotaged(tmp_path):
    copy_to(tmp_path)
    done = run(tmp_path, *sorted({mutant["test"] for mutant in MUTANTS.values()}))
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


def test_there_are_enough_mutants_and_each_changes_something():
    assert len(MUTANTS) >= 16
    assert all(mutant["old"] != mutant["new"] for mutant in MUTANTS.values())
