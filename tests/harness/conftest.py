"""The tests of the harness draw the same examples on every run: a red test stays red until it is mended."""

import signal
import threading

import pytest
from hypothesis import HealthCheck, settings

from keel import MemoryLedger, SqliteLedger, Workspace
from keel import workspace as workspace_module

from .workspace_place import WAYS, Place

# A shell that starts a program in the background has it ignore Ctrl-C, and so would the tests about Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "keel",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("keel")


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request, tmp_path):
    """Each ledger in turn: what holds for one holds for the other."""
    return MemoryLedger() if request.param == "memory" else SqliteLedger(tmp_path / "ledger.db")


@pytest.fixture
def gate():
    """What a hanging body waits for. It opens at the latest when the test is over."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture(params=WAYS, ids=["handles" if way else "no handles" for way in WAYS])
def way(request, monkeypatch):
    """With handles of folders, and without: as on Windows."""
    monkeypatch.setattr(workspace_module, "_HANDLES", request.param)
    return request.param


@pytest.fixture
def place(tmp_path, way, monkeypatch):
    place = Place(tmp_path)
    monkeypatch.chdir(tmp_path / "cwd")
    return place


@pytest.fixture
def workspace(place):
    return Workspace(place.root)
