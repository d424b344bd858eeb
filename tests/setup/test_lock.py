"""pyproject.toml is the one place for dependencies: the lock, environment.yml and the README follow it."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

import bootstrap

ROOT = Path(bootstrap.ROOT)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
CONDA = (ROOT / "environment.yml").read_text(encoding="utf-8")


def declared():
    """Return name → Requirement for all that pyproject.toml asks for at run time, in the course and in tests."""
    texts = list(PROJECT["project"]["dependencies"])
    for extra in PROJECT["project"]["optional-dependencies"].values():
        texts += extra
    return {canonicalize_name(Requirement(text).name): Requirement(text) for text in texts}


def pins():
    """Return the lock's entries as (Requirement, hashes)."""
    entries = re.split(r"\n(?=\S)", LOCK.strip())
    return [
        (Requirement(entry.split(" \\\n")[0].strip()), re.findall(r"--hash=sha256:([0-9a-f]{64})\b", entry))
        for entry in entries
    ]


def test_every_requirement_is_satisfied_by_the_lock():
    pinned = {}
    for requirement, _ in pins():
        pinned.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    build = [Requirement(text) for text in PROJECT["build-system"]["requires"]]
    for requirement in [*declared().values(), *build]:
        versions = [str(pin.specifier).removeprefix("==") for pin in pinned[canonicalize_name(requirement.name)]]
        assert versions and all(requirement.specifier.contains(version) for version in versions), requirement


def test_every_pin_is_exact_and_hashed():
    for requirement, hashes in pins():
        assert [clause.operator for clause in requirement.specifier] == ["=="], requirement
        assert hashes, requirement


def test_the_lock_names_no_server_and_no_option():
    assert "://" not in LOCK
    assert not re.search(r"^-", LOCK, flags=re.MULTILINE)


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
@pytest.mark.parametrize("system", ["Linux", "Darwin", "Windows"])
def test_the_lock_holds_for_every_python_and_system(python, system):
    platform = {"Linux": "linux", "Darwin": "darwin", "Windows": "win32"}[system]
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.1",
        "platform_system": system,
        "sys_platform": platform,
        "os_name": "nt" if system == "Windows" else "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    chosen = [
        canonicalize_name(requirement.name)
        for requirement, _ in pins()
        if requirement.marker is None or requirement.marker.evaluate(environment)
    ]
    assert len(chosen) == len(set(chosen))
    assert set(declared()) <= set(chosen)


def test_what_builds_the_package_is_in_the_group_that_is_locked():
    assert PROJECT["dependency-groups"]["build"] == PROJECT["build-system"]["requires"]


def test_bootstrap_and_pyproject_agree_on_the_oldest_python():
    oldest = ".".join(map(str, bootstrap.NEEDED))
    assert PROJECT["project"]["requires-python"] == f">={oldest}"
    assert f"Programming Language :: Python :: {oldest}" in PROJECT["project"]["classifiers"]


def test_conda_users_get_the_same_packages_with_the_same_bounds():
    lines = re.findall(r"^\s+- ([A-Za-z][^\s:]*)$", CONDA.split("dependencies:")[1], flags=re.MULTILINE)
    listed = {canonicalize_name(Requirement(line).name): Requirement(line).specifier for line in lines}
    assert listed.pop("python") == SpecifierSet(PROJECT["project"]["requires-python"])
    assert listed.pop("pip") == SpecifierSet()
    assert listed == {name: requirement.specifier for name, requirement in declared().items()}
    assert re.search(r"^\s+- -e \.$", CONDA, flags=re.MULTILINE)


def test_bounds_are_lower_bounds():
    for requirement in declared().values():
        clauses = list(requirement.specifier)
        assert [clause.operator for clause in clauses] == [">="], requirement
        Version(clauses[0].version)


def test_the_readme_names_only_commands_that_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`)(?:make|(?:py|python) bootstrap\.py) ([a-z][a-z-]*)", text, flags=re.MULTILINE))
    assert {"lab", "test"} <= named <= set(bootstrap.COMMANDS)


def test_the_readme_links_lead_somewhere():
    text = re.sub(r"```.*?```", "", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert "://" in target or (ROOT / target).exists(), target
