"""A trace on disk: a line an event, its owner's alone, readable whatever was killed or full."""

import json
import os
import signal
import stat
import sys

import pytest

from keel import SqliteLedger, Trace
from keel.trace import read_trace

from .kit import AMIRA, call, code
from .test_approval_once import in_child
from .test_trace import READ, WRITE, ask, stages, world

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork and no SIGKILL")
ends_alone = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace.jsonl"


def test_there_is_one_line_of_json_for_each_event(path):
    ask(world(trace=Trace(path)), "order")
    lines = path.read_text(encoding="utf-8").split("\n")
    assert lines.pop() == "" and [json.loads(line)["keel.stage"] for line in lines] == WRITE


def test_what_is_read_back_is_what_was_sent_on(path):
    sent = []
    trace = Trace(path, send=sent.append, content=True)
    ask(world(trace=trace), "order", text="line\nbreak \u2028 ü")
    assert [dict(one._asdict()) for one in read_trace(path)] == [dict(one._asdict()) for one in sent]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps no such modes")
def test_it_is_its_owners_alone(path):
    before = os.umask(0)
    try:
        ask(world(trace=Trace(path)), "look")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_second_trace_goes_on_where_the_first_ended(path):
    for _ in range(2):
        trace = Trace(path)
        ask(world(trace=trace), "look")
        trace.close()
    assert stages(read_trace(path)) == READ * 2


def test_after_it_was_moved_away_and_closed_a_new_one_is_made(path, tmp_path):
    trace = Trace(path)
    harness = world(trace=trace)
    ask(harness, "look")
    trace.close()
    path.rename(tmp_path / "old")
    ask(harness, "look")
    assert stages(read_trace(tmp_path / "old")) == READ == stages(read_trace(path))


@pytest.mark.parametrize("torn", ['{"keel.stage": "ru', "", "[]", "null", "\ud7ff", "{}", "[" * 100_000])
def test_what_is_no_event_is_passed_over(torn, path):
    ask(world(trace=Trace(path)), "look")
    with open(path, "a", encoding="utf-8") as file:
        file.write(torn)
    assert stages(read_trace(path)) == READ


@forks
@ends_alone
def test_a_process_killed_in_a_body_leaves_a_trace_that_ends_with_the_claim(path, tmp_path):
    def work():
        end = lambda: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
        ask(world(SqliteLedger(tmp_path / "ledger.db"), Trace(path), end), "order")

    _, status = os.waitpid(in_child(work), 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    events = read_trace(path)
    assert stages(events) == WRITE[: WRITE.index("claim") + 1] and events[-1].outcome == "ok"
    later = world(SqliteLedger(tmp_path / "ledger.db"), Trace(path))
    assert code(ask(later, "order")) == "outcome_unknown"


@forks
@ends_alone
def test_two_processes_that_write_at_once_leave_only_whole_lines(path):
    def work(name):
        harness = world(trace=Trace(path, content=True))
        for turn in range(50):
            one = call({"text": name * 5_000}, "look").model_copy(update={"call_id": f"{name}-{turn}"})
            harness.execute(one, AMIRA)
        os._exit(0)

    children = [in_child(lambda name=name: work(name)) for name in "ab"]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 100 * len(READ) == len([json.loads(line) for line in lines])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a disk that is always full")
def test_a_full_disk_changes_no_result_and_is_counted():
    trace = Trace("/dev/full")
    assert code(ask(world(trace=trace), "order")) == "ok" and trace.lost == len(WRITE)


def test_a_folder_that_is_not_there_changes_no_result_and_is_counted(tmp_path):
    trace = Trace(tmp_path / "gone" / "t.jsonl")
    assert code(ask(world(trace=trace), "order")) == "ok" and trace.lost == len(WRITE) and trace.events == []


def test_half_a_line_is_ended_so_that_the_next_one_can_be_read(path, monkeypatch):
    trace, write = Trace(path), os.write
    harness = world(trace=trace)
    short = iter([10])
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[: next(short, len(data))]))
    ask(harness, "look")
    assert stages(read_trace(path)) == READ[1:] and trace.lost == 1


@pytest.mark.parametrize("timeout_s", [None, 30])
def test_an_interrupt_while_a_claim_is_noted_leaves_none_that_seems_to_live(timeout_s):
    ticks = iter(range(7))  # when the call began, and six stages

    def clock():
        tick = next(ticks, None)
        if tick is None:
            raise KeyboardInterrupt
        return tick

    harness = world(trace=Trace(clock=clock), timeout_s=timeout_s)
    with pytest.raises(KeyboardInterrupt):
        ask(harness, "order")
    (entry,) = harness.ledger.entries()
    assert (entry.state, entry.live) == ("unknown", False)
