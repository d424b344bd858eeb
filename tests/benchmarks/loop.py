"""What a turn of the loop costs when a run gets long, and when there are many tools.

Ratios of time, from minima measured in turns, and of memory. Model and `keep` cost the same in
every turn here, so that whatever grows is the loop's own.
"""

from __future__ import annotations

import gc
import itertools
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from keel import ExecutionContext, Harness
from keel.adapters import ModelTurn
from keel.contracts import ToolRequest
from keel.loop import Agent, Budget, Run

Make = Callable[[int], tuple[Harness, ExecutionContext]]  # a harness that has lookup_incident among so many tools
PIECE, LONG = 10, 1_000  # turns
ROUNDS = 15
LOOKUP = ToolRequest(provider_id="call_1", name="lookup_incident", arguments={"incident_id": "INC-001"})


class Always:
    """A model that proposes the same call in every turn, and notes the time whenever a piece of a run begins."""

    def __init__(self):
        self.turn, self.began, self.asked = ModelTurn(requests=(LOOKUP,)), [], 0

    def complete(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] = ()) -> ModelTurn:
        if self.asked % PIECE == 0:
            self.began.append(time.perf_counter())
        self.asked += 1
        return self.turn


def run(side: tuple[Harness, ExecutionContext], turns: int) -> tuple[Run, list[float]]:
    """A run that its turns end, so that each turn has a call; and the seconds of each ten turns of it."""
    harness, context = side
    agent = Agent(Always(), harness, Budget(turns=turns, calls=None))
    start = time.perf_counter()
    done = agent.run("What is wrong?", context)
    marks = [start, *agent.model.began[1:], time.perf_counter()]
    assert (done.turns, done.calls) == (turns, turns)
    return done, [after - before for before, after in itertools.pairwise(marks)]


def least(*sides: Callable[[], list[float]]) -> list[float]:
    """The time of each side, measured in turns: the smallest of each of its pieces, added up."""
    rounds: list[list[list[float]]] = [[] for _ in sides]
    for _ in range(ROUNDS):
        for at, side in enumerate(sides):
            gc.collect()  # what one side leaves behind is not the next one's to clear away
            rounds[at].append(side())
    return [sum(map(min, zip(*one, strict=True))) for one in rounds]


def length(make: Make) -> float:
    """The time of a turn in a run of 1,000 turns against one in a run of 10."""
    side = make(10)
    short, long = least(
        lambda: [piece for _ in range(LONG // PIECE) for piece in run(side, PIECE)[1]], lambda: run(side, LONG)[1]
    )
    return long / short


def memory(make: Make) -> float:
    """What a turn leaves in memory, in a run of 1,000 turns against one of 10: as tracemalloc counts it."""
    side = make(10)
    run(side, PIECE)  # what is made once and kept is made now
    kept = []
    tracemalloc.start()
    for turns in (PIECE, LONG):
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        done, _ = run(side, turns)
        gc.collect()
        kept.append((tracemalloc.get_traced_memory()[0] - before) / done.turns)
    tracemalloc.stop()
    return kept[1] / kept[0]


def tools(make: Make) -> float:
    """The time of a turn with 10,000 tools against one with 10."""
    few, many = (make(count) for count in (10, 10_000))
    run(many, PIECE)  # the list is made once, and kept until a tool is added
    little, much = least(lambda: run(few, LONG // 2)[1], lambda: run(many, LONG // 2)[1])
    return much / little


def rows(make: Make) -> list[tuple[str, float, float]]:
    """What was measured, the figure, the limit."""
    return [
        ("a turn of a run of 1,000 turns, against one of 10", length(make), 1.1),
        ("memory that a turn of 1,000 keeps, against one of 10", memory(make), 1.1),
        ("a turn among 10,000 tools, against 10", tools(make), 1.2),
    ]
