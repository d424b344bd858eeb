"""Every test of the lab starts as a new kernel does: English, nothing remembered, nothing saved."""

import pytest

from keel.lab import progress_file
from keel.lab.exercises.verbs import forget_hints


@pytest.fixture(autouse=True)
def fresh_lab(monkeypatch):
    monkeypatch.setenv("KEEL_PROGRESS", "off")
    for name in ("KEEL_LANG", "KEEL_SOLUTIONS", "KEEL_WIDGETS"):
        monkeypatch.delenv(name, raising=False)
    progress_file.forget_memory()
    forget_hints()
    yield
    progress_file.forget_memory()
    forget_hints()
