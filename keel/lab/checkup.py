"""`doctor()`: does everything run here, and what mends it if not.

On a healthy machine the printed lines are the same everywhere: no versions, no paths. `doctor(verbose=True)` shows
those. Of a model key it says only whether one is set, and never any part of it.
"""

from __future__ import annotations

import html
import importlib.metadata
import os
import sys
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from keel.lab import progress_file
from keel.lab.catalogue import words
from keel.lab.display import in_kernel, show_widget, widgets_on, wrapped

ROOT = Path(__file__).resolve().parents[2]
OLDEST_PYTHON = (3, 11)
KEYS = ("DEEPSEEK_API_KEY", "OPENAI_API_KEY", "KEEL_LOCAL_MODEL")


@dataclass(frozen=True)
class Finding:
    """What one check found. `detail` may name versions and paths; `mend` is empty where nothing is wrong."""

    name: str
    fine: bool
    detail: str
    mend: str = ""


@dataclass(frozen=True, repr=False)
class Checkup:
    """All findings, and the names of the model keys that are set."""

    findings: tuple[Finding, ...]
    keys_set: tuple[str, ...]

    @property
    def fine(self) -> bool:
        """Whether nothing needs mending. A missing key is no fault: no chapter needs one."""
        return all(finding.fine for finding in self.findings)

    def __repr__(self) -> str:
        wrong = sum(not finding.fine for finding in self.findings)
        return words("doctor.troubles", number=wrong) if wrong else words("doctor.all_fine")


def doctor(verbose: bool = False) -> Checkup:
    """Check this machine, print what was found and what mends it, and return it as data. Never raises.

    The line on model keys differs from machine to machine. In a notebook it is therefore shown as a widget, which
    is no part of the stored output; elsewhere it is printed last.
    """
    checkup = examine()
    for finding in checkup.findings:
        print(finding_text(finding, verbose))
    if widgets_on():
        show_widget(_key_widget(checkup), words("doctor.keys_live"))
    else:
        print(keys_text(checkup))
    return checkup


def examine() -> Checkup:
    """All checks, as data. A check that itself breaks is a finding too."""
    checks = {
        "python": check_python,
        "packages": check_packages,
        "kernel": check_kernel,
        "widgets": check_widgets,
        "notebooks": check_notebooks,
        "progress": check_progress,
    }
    findings = tuple(_safely(name, check) for name, check in checks.items())
    return Checkup(findings, tuple(name for name in KEYS if os.environ.get(name, "").strip()))


def finding_text(finding: Finding, verbose: bool = False) -> str:
    """One finding as lines: fine, or what is wrong and its mend; with `verbose`, versions and paths."""
    label = words(f"doctor.name.{finding.name}")
    if not finding.fine:
        wrong = words("doctor.wrong", name=label, detail=finding.detail)
        return "\n".join([wrapped(wrong, "", "  "), wrapped(words("doctor.mend", mend=finding.mend), "  ", "  ")])
    if verbose:
        return wrapped(words("doctor.fine_with_detail", name=label, detail=finding.detail), "", "  ")
    return words("doctor.fine", name=label)


def keys_text(checkup: Checkup) -> str:
    """Whether a model key is set, by the variable's name alone."""
    if checkup.keys_set:
        return wrapped(words("doctor.keys_set", names=", ".join(checkup.keys_set)))
    return wrapped(words("doctor.keys_none"))


def check_python() -> Finding:
    """Is this Python new enough?"""
    running, oldest = ".".join(map(str, sys.version_info[:3])), ".".join(map(str, OLDEST_PYTHON))
    fine = sys.version_info[:2] >= OLDEST_PYTHON
    return Finding("python", fine, running, "" if fine else words("doctor.mend_python", oldest=oldest))


def check_packages() -> Finding:
    """Is everything that a learner needs installed, and new enough?"""
    from packaging.requirements import Requirement

    wrong: list[str] = []
    right: list[str] = []
    for requirement in map(Requirement, requirements()):
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            wrong.append(words("doctor.missing", name=requirement.name))
            continue
        if requirement.specifier.contains(version, prereleases=True):
            right.append(f"{requirement.name} {version}")
        else:
            spec = str(requirement.specifier)
            wrong.append(words("doctor.too_old", name=requirement.name, version=version, wanted=spec))
    mend = words("doctor.mend_packages") if wrong else ""
    return Finding("packages", not wrong, ", ".join(wrong or right), mend)


def requirements() -> list[str]:
    """What keel and its course need, as pyproject.toml says; where there is none, as keel was installed."""
    declared = ROOT / "pyproject.toml"
    if declared.is_file():
        project = tomllib.loads(declared.read_text(encoding="utf-8"))["project"]
        return project["dependencies"] + project["optional-dependencies"]["course"]
    found = importlib.metadata.requires("keel") or []
    plain = [line for line in found if "extra ==" not in line]
    return plain + [line.split(";")[0] for line in found if "course" in line.partition("extra ==")[2]]


def check_kernel() -> Finding:
    """Does this code run in the environment that was made for it, and not in another Python's kernel?"""
    running = Path(sys.prefix).resolve()
    own = ROOT / ".venv"
    named = [os.environ.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    meant = [Path(path).resolve() for path in named if path] + ([own.resolve()] if own.is_dir() else [])
    if meant and running not in meant:
        detail = words("doctor.other_environment", running=sys.executable, meant=meant[-1])
        return Finding("kernel", False, detail, words("doctor.mend_kernel"))
    kind = words("doctor.in_kernel") if in_kernel() else words("doctor.no_kernel")
    return Finding("kernel", True, f"{sys.executable}, {kind}")


def check_widgets() -> Finding:
    """Are the two halves of the widgets here, and do they fit each other?"""
    from packaging.requirements import Requirement

    mend = words("doctor.mend_widgets")
    try:
        versions = {name: importlib.metadata.version(name) for name in ("ipywidgets", "jupyterlab_widgets")}
    except importlib.metadata.PackageNotFoundError as problem:
        return Finding("widgets", False, words("doctor.missing", name=problem.name), mend)
    detail = ", ".join(f"{name} {version}" for name, version in versions.items())
    for line in importlib.metadata.requires("ipywidgets") or []:
        wanted = Requirement(line)
        if wanted.name.replace("-", "_") == "jupyterlab_widgets":
            fits = wanted.specifier.contains(versions["jupyterlab_widgets"], prereleases=True)
            return Finding("widgets", fits, detail, "" if fits else mend)
    return Finding("widgets", True, detail)


def check_notebooks() -> Finding:
    """Can the notebooks be saved where they are?"""
    return _writable("notebooks", Path.cwd(), words("doctor.mend_notebooks"))


def check_progress() -> Finding:
    """Can the learner's progress be kept?"""
    place = progress_file.place()
    if place is None:
        return Finding("progress", True, words("doctor.progress_off"))
    return _writable("progress", place.parent, words("doctor.mend_progress"))


def _writable(name: str, folder: Path, mend: str) -> Finding:
    """Whether a file can be made in a folder, or in the nearest folder above it that exists."""
    there = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    try:
        with tempfile.TemporaryFile(dir=there):
            return Finding(name, True, str(folder))
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        detail = words("doctor.unwritable", folder=folder, reason=reason)
        return Finding(name, False, detail, mend)


def _safely(name: str, check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except Exception as problem:
        detail = words("doctor.broke", problem=f"{type(problem).__name__}: {problem}")
        return Finding(name, False, detail, words("doctor.mend_packages"))


def _key_widget(checkup: Checkup) -> object:
    import ipywidgets

    return ipywidgets.HTML(f"<div>{html.escape(keys_text(checkup))}</div>")
