"""The optional cells: ask a real model if one is connected, else replay a recorded run and say how to connect one."""

from __future__ import annotations

from typing import Any

from keel.adapters import ModelFailure, assistant_message, to_message
from keel.harness import Harness
from keel.models import Model, ScriptedModel, connect
from keel.output import capped
from keel.registry import ToolRegistry

from .catalogue import words
from .display import wrapped
from .recordings import recording
from .world import World, course_registry, everything, seeded_mint

MAX_TURNS = 6


def live(goal: str, registry: ToolRegistry | None = None, recorded: tuple[str, ...] = ("one_call", "answer")) -> None:
    """Print what a real model does with a goal and these tools (the course's, if none are given), turn by turn.

    Without a model it says in one line how to connect one, and replays the recorded replies. Never
    raises for what a provider or a network does.
    """
    harness = Harness(course_registry(World()) if registry is None else registry, mint=seeded_mint())
    try:
        model: Model | None = connect()
        if model is None:
            print(wrapped(words("live.how")))
            model = ScriptedModel([recording(name) for name in recorded])
        for message in hand_loop(model, harness, goal):
            print(_line(message))
    except ModelFailure as failure:
        print(words("live.failed", why=str(failure)))


def hand_loop(model: Model, harness: Harness, goal: str) -> Any:
    """Yield the messages of a run as they come, at most MAX_TURNS turns long."""
    history: list[dict[str, Any]] = [{"role": "user", "content": goal}]
    yield history[0]
    context = everything()
    for _ in range(MAX_TURNS):
        turn = model.complete(history, harness.registry.schemas(context.principal))
        answers = [to_message(request, capped(harness.handle(request, context))) for request in turn.requests]
        history += [assistant_message(turn), *answers]
        yield from history[-1 - len(answers) :]
        if not turn.requests:
            return
    yield {"role": "user", "content": words("live.stopped", turns=MAX_TURNS)}


def _line(message: dict[str, Any]) -> str:
    calls = [one["function"] for one in message.get("tool_calls", ())]
    text = " ".join(f"{call['name']} {call['arguments']}" for call in calls) or str(message.get("content") or "")
    return f"{message['role']:<9} | {' '.join(text.split())[:300]}"
