"""The service of the README and of docs/service.py does what the README says of it."""

import asyncio
import importlib.util
import re
import sys
from pathlib import Path

import pytest

import bootstrap
from keel import ErrorCode, Principal, ToolRequest

ROOT = Path(bootstrap.ROOT)
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHOWN = re.search(r"## In a service\n.*?```python\n(.*?)```", README, flags=re.DOTALL)[1]

AMIRA = Principal(id="amira", permissions=["tickets:write"])
JONAS = Principal(id="jonas", permissions=["approvals:decide"])
OPEN_ONE = ToolRequest(name="create_ticket", arguments={"title": "Printer on fire"})


class Tickets:
    """The other side: it opens whatever it is asked to, as often as it is asked."""

    def __init__(self):
        self.opened = []

    def create(self, title, key):
        self.opened.append(title)
        return f"T-{len(self.opened)}"


@pytest.fixture
def started(tmp_path, monkeypatch):
    """What starts the service with the README's own lines, each time over the same files."""
    spec = importlib.util.spec_from_file_location("service", ROOT / "docs" / "service.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "service", module)
    monkeypatch.chdir(tmp_path)
    services = []

    def start(tickets):
        names = {"tickets": tickets}
        exec(compile(SHOWN, "README.md", "exec"), names)
        services.append(names["service"])
        return services[-1]

    yield start
    for service in services:
        service.ledger.close()
        service.trace.close()


def code(answer):
    return "ok" if answer["ok"] else answer["error"]["code"]


async def agreed(service):
    """Send a request that needs a yes, and have Jonas say it."""
    assert code(await service.call(AMIRA, "r-1", OPEN_ONE)) == ErrorCode.APPROVAL_REQUIRED
    (question,) = await service.waiting(JONAS)
    assert await service.decide(JONAS, question["id"], True, "it burns") == "approved"


def test_a_request_waits_for_a_person_runs_once_and_is_replayed_after_a_restart(started):
    tickets = Tickets()

    async def before():
        service = started(tickets)
        await agreed(service)
        return await service.call(AMIRA, "r-1", OPEN_ONE)

    first = asyncio.run(before())
    restarted = started(tickets)
    again = asyncio.run(restarted.call(AMIRA, "r-1", OPEN_ONE))
    assert (first["data"], again["data"], tickets.opened) == ("T-1", "T-1", ["Printer on fire"])
    noted = [(event.stage, event.outcome) for event in restarted.trace.events]
    assert [outcome for stage, outcome in noted if stage == "answer"] == [ErrorCode.APPROVAL_REQUIRED, "ok", "ok"]
    assert [stage for stage, outcome in noted if outcome == "replayed"] == ["recall"]


def test_a_yes_that_was_given_before_a_restart_holds_after_it(started):
    tickets = Tickets()
    asyncio.run(agreed(started(tickets)))
    answer = asyncio.run(started(tickets).call(AMIRA, "r-1", OPEN_ONE))
    assert (code(answer), tickets.opened) == ("ok", ["Printer on fire"])


def test_a_yes_is_for_one_request_and_for_one_user(started):
    tickets, other = Tickets(), Principal(id="other", permissions=["tickets:write"])

    async def run():
        service = started(tickets)
        await agreed(service)
        return [await service.call(AMIRA, "r-2", OPEN_ONE), await service.call(other, "r-1", OPEN_ONE)]

    assert [code(one) for one in asyncio.run(run())] == [ErrorCode.APPROVAL_REQUIRED] * 2
    assert tickets.opened == []


def test_who_may_not_decide_sees_no_question_and_is_refused(started):
    async def run():
        service = started(Tickets())
        await service.call(AMIRA, "r-1", OPEN_ONE)
        (question,) = await service.waiting(JONAS)
        assert question["tool"] == "create_ticket" and "Printer on fire" in question["arguments"]
        assert await service.waiting(AMIRA) == []
        with pytest.raises(PermissionError):
            await service.decide(AMIRA, question["id"], True, "")
        with pytest.raises(LookupError):
            await service.decide(JONAS, "no-such-question", True, "")
        assert await service.decide(JONAS, question["id"], False, "no") == "denied"
        with pytest.raises(ValueError):
            await service.decide(JONAS, question["id"], True, "")
        return await service.call(AMIRA, "r-1", OPEN_ONE)

    assert code(asyncio.run(run())) == ErrorCode.APPROVAL_DENIED


def test_the_same_request_sent_many_times_at_once_opens_one_ticket(started):
    tickets = Tickets()

    async def run():
        service = started(tickets)
        await agreed(service)
        return await asyncio.gather(*(service.call(AMIRA, "r-1", OPEN_ONE) for _ in range(8)))

    codes = {code(one) for one in asyncio.run(run())}
    assert "ok" in codes and codes <= {"ok", ErrorCode.IN_PROGRESS}
    assert tickets.opened == ["Printer on fire"]


def test_tending_looks_at_the_start_and_goes_on_after_a_failure(started, caplog):
    looked = []

    async def run():
        service = started(Tickets())
        twice = asyncio.Event()
        loop = asyncio.get_running_loop()

        def reconcile():
            looked.append(1)
            if len(looked) == 2:
                loop.call_soon_threadsafe(twice.set)
            raise OSError("the disk is away")

        service.harness.reconcile = reconcile
        task = asyncio.create_task(service.tend(every_s=0))
        await asyncio.wait_for(twice.wait(), 30)
        task.cancel()

    asyncio.run(run())
    assert len(looked) >= 2
    assert "the ledger could not be tended" in caplog.text


def test_the_file_is_as_short_as_the_readme_says():
    assert len((ROOT / "docs" / "service.py").read_text(encoding="utf-8").splitlines()) < 60
