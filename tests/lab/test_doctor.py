"""The doctor: the same words on every healthy machine, the mend for each trouble, and no part of any key."""

import importlib.metadata
import os
import sys
from collections import namedtuple

import pytest

from keel.lab import checkup
from keel.lab.checkup import KEYS, doctor, examine, finding_text, keys_text, requirements

HEALTHY = """\
Python: fine
Packages: fine
Kernel: fine
Widgets: fine
Notebooks can be saved: fine
Progress can be kept: fine
"""


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in (*KEYS, "VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(checkup, "ROOT", checkup.ROOT)


def finding(name):
    return next(one for one in examine().findings if one.name == name)


def test_a_healthy_machine_prints_the_same_everywhere(capsys, monkeypatch):
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    result = doctor()
    assert result.fine and repr(result) == "Everything runs here."
    out = capsys.readouterr().out
    assert out.startswith(HEALTHY)
    assert out[len(HEALTHY) :].startswith("Model key: none set")


def test_verbose_names_versions_and_places(capsys):
    doctor(verbose=True)
    out = capsys.readouterr().out
    assert importlib.metadata.version("pydantic") in out and sys.executable in out.replace("\n  ", "")


@pytest.mark.parametrize("name", KEYS)
def test_a_key_is_named_and_never_shown(monkeypatch, capsys, name):
    monkeypatch.setenv(name, "sk-very-secret-123")
    result = doctor(verbose=True)
    shown = capsys.readouterr().out + repr(result) + str(vars(result))
    assert name in shown
    assert "secret" not in shown and "sk-" not in shown
    monkeypatch.setenv(name, "  ")
    assert examine().keys_set == ()
    assert "none is needed" in keys_text(examine())


def test_an_old_python(monkeypatch):
    version = namedtuple("version_info", "major minor micro")
    monkeypatch.setattr(checkup.sys, "version_info", version(3, 10, 4)[:])
    assert not finding("python").fine
    assert "3.11" in finding("python").mend


def test_missing_and_old_packages_are_named_with_their_mend(monkeypatch):
    real = importlib.metadata.version

    def version(name):
        if name == "openai":
            raise importlib.metadata.PackageNotFoundError(name)
        return "1.0" if name == "pydantic" else real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    found = finding("packages")
    assert found.detail == "openai is missing, pydantic 1.0 is installed, >=2.12 is needed" or (
        "openai is missing" in found.detail and "pydantic 1.0" in found.detail
    )
    text = finding_text(found)
    assert "Mend: run `make lab`" in text and text.startswith("Packages: ")


def test_the_requirements_are_those_of_the_project():
    names = [line.partition(">")[0] for line in requirements()]
    assert {"pydantic", "jsonschema", "openai", "jupyterlab", "ipywidgets"} <= set(names)
    assert "nbval" not in names


def test_the_requirements_of_an_installed_keel(monkeypatch, tmp_path):
    monkeypatch.setattr(checkup, "ROOT", tmp_path)
    lines = ["pydantic>=2", 'jupyterlab>=4; extra == "course"', 'nbval>=0.1; extra == "test"']
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: lines)
    assert requirements() == ["pydantic>=2", "jupyterlab>=4"]


def test_another_environments_kernel(monkeypatch, tmp_path):
    (tmp_path / ".venv").mkdir()
    monkeypatch.setattr(checkup, "ROOT", tmp_path)
    found = finding("kernel")
    assert not found.fine and sys.executable in found.detail and "Change Kernel" in found.mend
    monkeypatch.setenv("CONDA_PREFIX", sys.prefix)
    assert finding("kernel").fine
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path))
    assert not finding("kernel").fine


def test_widgets_that_do_not_fit_or_are_missing(monkeypatch):
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda n: "1.1.0" if n == "jupyterlab_widgets" else real(n))
    assert not finding("widgets").fine
    assert "KEEL_WIDGETS=off" in finding("widgets").mend

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert finding("widgets").detail == "ipywidgets is missing"


def test_unwritable_places(monkeypatch, tmp_path):
    def refuses(dir):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setenv("KEEL_PROGRESS", str(tmp_path / "not yet" / "there"))
    assert finding("progress").fine
    monkeypatch.setattr(checkup.tempfile, "TemporaryFile", refuses)
    for name in ("notebooks", "progress"):
        assert "Permission denied" in finding(name).detail and finding(name).mend
    assert os.listdir(tmp_path) == []


def test_progress_that_is_off_is_fine():
    assert finding("progress").fine


def test_a_check_that_breaks_is_a_finding(monkeypatch, capsys):
    def breaks():
        raise RuntimeError("odd")

    monkeypatch.setattr(checkup, "requirements", breaks)
    result = doctor()
    assert "RuntimeError: odd" in capsys.readouterr().out
    assert not result.fine and repr(result) == "To be mended: 1."
