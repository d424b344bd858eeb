"""make peers, and what make bench says with and without it. Nothing here takes a time or needs a network."""

import json
import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import bootstrap

ROOT = Path(bootstrap.ROOT)


@pytest.fixture
def benchmarks(monkeypatch):
    """The benchmarks' folder where a script that is started in it would look for modules."""
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "benchmarks"))
    for name in ("peers", "table"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def copy(tmp_path):
    """A checkout with locks and no environment."""
    for name in ("pyproject.toml", "requirements.lock", "requirements.peers.lock"):
        (tmp_path / name).write_text("probe==1.0\n", encoding="utf-8")
    return bootstrap.Place(str(tmp_path))


def pins(name):
    """Return package → (version, whether it is hashed) of a lock."""
    entries = re.split(r"\n(?=\S)", (ROOT / name).read_text(encoding="utf-8").strip())
    heads = [(Requirement(entry.split(" \\\n")[0].strip()), "--hash=sha256:" in entry) for entry in entries]
    return {head.name: (str(head.specifier), hashed) for head, hashed in heads}


def test_without_the_other_frameworks_the_table_has_one_line_that_says_how_to_get_them(benchmarks, tmp_path):
    import peers
    import table

    ours = [table.Row("a dispatch", 2.0, 2.5)]
    others, note = peers.rows(copy(tmp_path))
    assert others == []
    alone, told = (table.table(ours, note).splitlines() for note in (None, note))
    assert told[:-1] == alone
    assert "`make peers`" in told[-1]


def test_a_row_of_another_framework_has_no_limit_and_says_what_it_judged(benchmarks):
    import table

    head, ours, theirs = table.table(
        [table.Row("a dispatch", 2.0, 2.5), table.Row("dispatch by other 1.0", 12.5, None, "schema")]
    ).splitlines()
    assert ours.split()[-2:] == ["2.00", "2.50"]
    assert theirs.split()[-3:] == ["12.50", "-", "schema"]
    for column, below in (("limit", "-"), ("judged for", "schema")):
        at = head.index(column)
        assert theirs[at : at + len(column)].strip() == below


ROW = ["dispatch by other 1.0", 6.5, None, "name, schema"]


@pytest.mark.skipif(sys.platform == "win32", reason="a small shell script stands for the other environment's Python")
@pytest.mark.parametrize(
    ("script", "rows", "told"),
    [(f"echo '{json.dumps([ROW])}'", [ROW], ""), ("echo no such module >&2; exit 1", [], "no such module")],
)
def test_the_table_gets_what_the_other_environment_measures(benchmarks, tmp_path, monkeypatch, script, rows, told):
    import peers

    place = copy(tmp_path)
    beside = bootstrap.peers_place(place)
    Path(beside.python).parent.mkdir(parents=True)
    # A key of the reader's own is no business of any framework that is measured.
    check = '[ -z "$OPENAI_API_KEY$LANGSMITH_TRACING" ] || exit 2'
    Path(beside.python).write_text(f"#!/bin/sh\n{check}\n{script}\n", encoding="utf-8")
    Path(beside.python).chmod(0o755)
    bootstrap.write_text(beside.stamp, bootstrap.digest(beside))
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    found, note = peers.rows(place)
    assert [list(one) for one in found] == rows
    assert note is None if not told else note.endswith(told)


def test_an_environment_from_another_lock_is_not_measured(benchmarks, tmp_path):
    import peers

    place = copy(tmp_path)
    beside = bootstrap.peers_place(place)
    Path(beside.python).parent.mkdir(parents=True)
    Path(beside.python).touch()
    bootstrap.write_text(beside.stamp, "of an older lock")
    assert peers.rows(place) == ([], peers.MISSING)


def test_make_peers_installs_what_its_lock_names_and_nothing_else_into_an_environment_of_its_own(tmp_path, monkeypatch):
    place, asked = copy(tmp_path), []
    monkeypatch.setattr(bootstrap, "rebuild", lambda place: Path(place.venv).mkdir())
    monkeypatch.setattr(bootstrap, "run_quietly", asked.append)
    assert bootstrap.COMMANDS["peers"](place, []) == 0
    (command,) = asked
    beside = bootstrap.peers_place(place)
    assert command[0] == beside.python and beside.venv != place.venv
    assert {"--require-hashes", "--no-deps"} <= set(command) and command[-1] == beside.lock
    assert not Path(beside.unfinished).exists()
    bootstrap.clean(place, [])
    assert not Path(beside.venv).exists()


def test_the_lock_holds_what_was_asked_for_exactly_and_hashed():
    locked = pins("requirements.peers.lock")
    text = (ROOT / "requirements.peers.in").read_text(encoding="utf-8")
    asked = [Requirement(line) for line in text.splitlines() if line and not line.startswith("#")]
    assert asked and all(requirement.specifier.contains(locked[requirement.name][0][2:]) for requirement in asked)
    assert all(version.startswith("==") and hashed for version, hashed in locked.values())
    raw = (ROOT / "requirements.peers.lock").read_text(encoding="utf-8")
    assert "://" not in raw and not re.search(r"^-", raw, flags=re.MULTILINE)


def test_both_environments_stand_on_the_same_versions():
    ours, theirs = pins("requirements.lock"), pins("requirements.peers.lock")
    assert {"pydantic", "pydantic-core", "jsonschema", "referencing"} <= set(ours) & set(theirs)
    assert {name: theirs[name][0] for name in set(ours) & set(theirs)} == {
        name: ours[name][0] for name in set(ours) & set(theirs)
    }
