"""Bodies that may take too long: run them in a worker that can be left behind, for a thread cannot be killed.

A `Pool` keeps its workers. `start` gives a `Job`; whoever waits for it too long abandons it. The body
goes on, counted and bounded; what it comes to in the end is told to `late`.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any

from .contracts import ErrorCode, ExecutionContext, ToolFailure
from .recovery import classify
from .registry import Tool

MAX_ABANDONED = 8
_IDLE_S = 10.0  # how long a worker without work is kept
_REACTION_S = 0.1  # how long the loop may take to notice a cancellation before it counts as blocked


class TookTooLong(ToolFailure):
    """Raised when a body outlived its time: it may still be running, whatever the code says."""


class Job:
    """One body on its way: it ends, or it is abandoned. Exactly one of the two comes first."""

    __slots__ = ("_ended", "_first", "_late", "body", "cancel", "context", "count", "raised", "returned")

    def __init__(self, body: Callable[[], Any], late: Callable[[Job], None] | None, count: Callable[[int], None]):
        self.body, self._late, self.count = body, late, count
        self._first = threading.Lock()  # taken once, by whoever is first: the end or the abandoning
        self._ended = threading.Lock()
        self._ended.acquire()
        self.context = copy_context()
        self.cancel: Callable[[], None] | None = None
        self.returned: Any = None
        self.raised: BaseException | None = None

    def run(self) -> None:
        """Run the body here and now. Raises nothing, whatever comes out of the body."""
        try:
            self.returned = self.context.run(self.body)
        except BaseException as raised:
            self.raised = raised
        self.end()

    async def run_async(self) -> None:
        """The same for an async body, on a loop. Whoever started it calls `end`."""
        try:
            self.returned = await self.body()
        except BaseException as raised:  # SystemExit too, or it would end the loop
            self.raised = raised

    def end(self) -> None:
        """The body is over: tell whoever waits, or, if nobody does any more, `late`."""
        if self._first.acquire(blocking=False):
            self._ended.release()
            return
        try:
            if self._late is not None:
                self._late(self)
        finally:
            self.count(-1)

    def wait(self, timeout_s: float | None) -> bool:
        """Whether the body ended within the time. If not it is abandoned, also if the waiting was interrupted."""
        try:
            limit = -1 if timeout_s is None else min(max(timeout_s, 0), threading.TIMEOUT_MAX)
            return self._ended.acquire(timeout=limit) or not self._abandon()
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> bool:
        """Leave the body behind. False if it ended in this very moment."""
        if not self._first.acquire(blocking=False):
            return False
        self.count(+1)
        if self.cancel is not None:
            self.cancel()
        return True


class Pool:
    """Daemon workers that are kept, and one loop for async bodies. Both are started when first needed.

    Every body gets a worker at once, a new one if all are busy: so a body that calls the harness
    waits for nobody. What is bounded is how many are left behind: with `max_abandoned` of them no
    new body is begun.
    """

    def __init__(self, max_abandoned: int = MAX_ABANDONED):
        self.max_abandoned = max_abandoned
        self._start_anew()

    def _start_anew(self) -> None:
        self._process = os.getpid()  # threads do not live on in a forked child
        self._lock = threading.Lock()
        self._idle: deque[SimpleQueue] = deque()
        self._loop: _Loop | None = None
        self.abandoned = 0

    def start(
        self, body: Callable[[], Any], late: Callable[[Job], None] | None = None, *, on_loop: bool = False
    ) -> Job:
        """Begin a body in a worker, or, if it is async, on the loop.

        `late(job)` is called in the body's own thread when an abandoned body ends after all.
        Raises ToolFailure `unavailable` if too many are left behind already: then nothing ran.
        """
        if self._process != os.getpid():
            self._start_anew()
        if self.abandoned >= self.max_abandoned:
            raise ToolFailure(
                ErrorCode.UNAVAILABLE,
                f"{self.abandoned} calls took too long and have not ended yet. Nothing ran.",
                retryable=True,
            )
        job = Job(body, late, self._count)
        try:
            (self._on_loop if on_loop else self._in_worker)(job)
        except RuntimeError as error:  # no thread to be had: a limit of the system, or the interpreter is ending
            raise ToolFailure(
                ErrorCode.UNAVAILABLE, "No worker can be started. Nothing ran.", retryable=True
            ) from error
        return job

    def _count(self, more: int) -> None:
        with self._lock:
            self.abandoned += more

    def _in_worker(self, job: Job) -> None:
        try:
            inbox = self._idle.pop()  # the last one to rest: the others may reach their time and end
        except IndexError:
            inbox = SimpleQueue()
            threading.Thread(target=_work, args=(inbox, self._idle), name="keel-worker", daemon=True).start()
        inbox.put(job)

    def _on_loop(self, job: Job) -> None:
        with self._lock:
            loop = self._loop
            if loop is None or loop.blocked or loop.thread is threading.current_thread():
                # A body that blocks the loop, or waits on it for a call of its own, keeps that loop to itself.
                loop = self._loop = _Loop()
        loop.start(job)


def _work(inbox: SimpleQueue, idle: deque[SimpleQueue]) -> None:
    """What a worker does: run what comes in, rest in between, and end when it has rested long."""
    while True:
        try:
            job = inbox.get(timeout=_IDLE_S)
        except Empty:
            try:
                idle.remove(inbox)
            except ValueError:  # somebody has just taken it: the job is on its way
                job = inbox.get()
            else:
                return
        job.run()
        del job  # or a resting worker would keep the last result alive
        idle.append(inbox)


class _Loop:
    """An asyncio loop in a daemon thread: an environment such as Jupyter has one of its own in the main thread."""

    def __init__(self):
        import asyncio

        self._loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=_serve, args=(self._loop,), name="keel-loop", daemon=True)
        self.thread.start()
        self._answered = threading.Event()
        self._answered.set()
        weakref.finalize(self, _stop, self._loop)

    @property
    def blocked(self) -> bool:
        """Whether a body on this loop does not let go of it, so that nothing else there can go on."""
        return not self._answered.wait(_REACTION_S)

    def start(self, job: Job) -> None:
        """Begin a job here, and let it be cancelled from any thread."""
        tasks: set[Any] = set()  # held until it is done: a loop holds its tasks but weakly

        def begin() -> None:
            task = self._loop.create_task(job.run_async(), context=job.context)
            tasks.add(task)
            task.add_done_callback(over)

        def over(task: Any) -> None:
            tasks.clear()
            if task.cancelled():  # before its first step
                job.raised = TimeoutError()
            job.end()

        def cancel() -> None:
            self._answered.clear()
            self._loop.call_soon_threadsafe(stop)

        def stop() -> None:
            self._answered.set()
            for task in tasks:
                task.cancel()

        job.cancel = cancel
        self._loop.call_soon_threadsafe(begin)


def _serve(loop: Any) -> None:
    import asyncio

    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


def _stop(loop: Any) -> None:
    with suppress(RuntimeError):  # it is closed already
        loop.call_soon_threadsafe(loop.stop)


def run(
    pool: Pool,
    tool: Tool,
    values: dict[str, Any],
    context: ExecutionContext,
    call_id: str,
    late: Callable[[Job], None] | None = None,
) -> Any:
    """Run a tool's body and give what it returns: in the caller's thread, in a worker, or on the loop.

    Raises ToolFailure: what `keel.recovery.classify` makes of an exception out of the body;
    `budget_exceeded` if the context's deadline has passed, then nothing ran; `unavailable`, the
    same; TookTooLong if the body outlives the tool's timeout or the deadline. `late(job)` is told
    when such a body ends after all. A body in the caller's thread cannot be left, and has no limit.
    """
    left = None if context.deadline is None else context.deadline - time.monotonic()
    if left is not None and not left > 0:  # a deadline of NaN has passed
        raise ToolFailure(ErrorCode.BUDGET_EXCEEDED, "The time for this run is used up. Nothing ran.")
    if runs_here(tool):
        try:
            return tool.call(values, context)
        except KeyboardInterrupt:
            raise
        except BaseException as raised:
            raise classify(tool, raised, call_id) from raised
    job = pool.start(lambda: tool.call(values, context), late, on_loop=tool.is_async)
    at_deadline = left is not None and (tool.timeout_s is None or left < tool.timeout_s)
    if not job.wait(left if at_deadline else tool.timeout_s):
        raise _too_late(tool, call_id, at_deadline)
    if job.raised is not None:
        raise classify(tool, job.raised, call_id) from job.raised
    return job.returned


def runs_here(tool: Tool) -> bool:
    """Whether this tool's body runs in the caller's thread."""
    return tool.timeout_s is None and not tool.is_async


def _too_late(tool: Tool, call_id: str, at_deadline: bool) -> TookTooLong:
    """A read that takes too long has failed. A write may happen yet, and nobody can call it back."""
    if not tool.read_only:
        return TookTooLong(
            ErrorCode.OUTCOME_UNKNOWN,
            f"{tool.name} took too long, and it may have happened or not. The operator can look up call {call_id}.",
        )
    if at_deadline:
        return TookTooLong(ErrorCode.BUDGET_EXCEEDED, f"The time for this run was used up while {tool.name} ran.")
    return TookTooLong(ErrorCode.TIMEOUT, f"{tool.name} took longer than {tool.timeout_s:g} s.", retryable=True)
