"""Let a child work, and kill it where it stands. What it comes by is told through a pipe."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable


def killed_at(work: Callable[[Callable[[str], None]], object], number: int | None) -> list[str]:
    """Fork a child that does `work(at)`, and kill it at the step of that number; None lets it end.

    The work calls `at(step)` wherever it can be killed. Gives the steps that it came by.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        steps = []

        def at(step: str) -> None:
            steps.append(step)
            os.write(writing, f"{step}\n".encode())
            if len(steps) == number:
                os.close(writing)
                while True:
                    signal.pause()

        try:
            os.close(reading)
            work(at)
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        came_by = pipe.read().splitlines()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return came_by
