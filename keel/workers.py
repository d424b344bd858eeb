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
from contextvars import ContextVar, copy_context
from functools import lru_cache
from queue import Empty, SimpleQueue
from typing import Any

from .contracts import ErrorCode, ExecutionContext, ToolFailure
from .recovery import classify
from .registry import Tool

MAX_ABANDONED = 8
_IDLE_S = 10.0  # how long a worker without work is kept
_REACTION_S = 0.1  # how long a loop may take to begin a body before it counts as blocked


class TookTooLong(ToolFailure):
    """Raised when a body outlived its time: it may still be running, whatever the code says."""


class Job:
    """One body on its way: it ends, or it is left behind. Exactly one of the two comes first."""

    __slots__ = (
        "_begun", "_ended", "_first", "_late", "body", "cancel", "context", "count", "left", "raised", "returned",
    )  # fmt: skip

    def __init__(self, body: Callable[[], Any], late: Callable[[Job], None] | None, count: Callable[[int], None]):
        self.body, self._late, self.count = body, late, count
        self._begun = threading.Lock()  # taken once, by whoever is first: the beginning or the leaving
        self._first = threading.Lock()  # the same for the end and the leaving
        self._ended = threading.Lock()
        self._ended.acquire()
        self.context = copy_context()
        self.cancel: Callable[[], None] | None = None
        self.left = False
        self.returned: Any = None
        self.raised: BaseException | None = None

    def begin(self) -> bool:
        """Whether the body may begin. Not if it was left before."""
        return self._begun.acquire(blocking=False)

    def run(self) -> None:
        """Run the body here and now. Raises nothing, whatever comes out of the body."""
        if not self.begin():
            return
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
            self._tell()
        finally:
            self.count(-1)

    def wait(self, timeout_s: float | None) -> bool:
        """Whether the body ended within the time. If not it is left behind, also if the waiting was interrupted."""
        try:
            limit = -1 if timeout_s is None else min(max(timeout_s, 0), threading.TIMEOUT_MAX)
            return self._ended.acquire(timeout=limit) or not self._leave()
        except BaseException:
            self.forsake()
            raise

    def forsake(self) -> None:
        """Nobody will ask for the result, wherever the body stands: `late` is told, now or when it ends."""
        if not self._leave():
            self.left = True
            self._tell()

    def result(self) -> Any:
        """What the body returned. Raises what it raised."""
        raised, self.raised = self.raised, None  # kept here, it and the frames it knows would hold each other
        if raised is None:
            return self.returned
        try:
            raise raised
        finally:
            del raised

    def _leave(self) -> bool:
        """Leave the body behind: one that has not begun never will. False if it has ended."""
        if self.left:
            return True
        if self.begin():
            self.left, self.raised = True, TimeoutError()
            self._tell()
            return True
        if not self._first.acquire(blocking=False):
            return False
        self.left = True
        self.count(+1)
        if self.cancel is not None:
            self.cancel()
        return True

    def _tell(self) -> None:
        # Nobody is there to hear of an error, and a worker or a loop that it ended would take others with it.
        with suppress(BaseException):
            if self._late is not None:
                self._late(self)


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
        self._lock = threading.Lock()
        self._idle: deque[SimpleQueue] = deque()
        self._loop: _Loop | None = None
        self.abandoned = 0
        self._process = os.getpid()  # threads do not live on in a forked child

    def start(self, body: Callable[[], Any], late: Callable[[Job], None] | None = None) -> Job:
        """Begin a body in a worker.

        `late(job)` is called in a worker when a body that was left behind ends after all. Raises
        ToolFailure `unavailable` if too many are left behind already: then nothing ran.
        """
        job = self.job(body, late)
        self.begin(job)
        return job

    def job(self, body: Callable[[], Any], late: Callable[[Job], None] | None = None) -> Job:
        """A job of this pool that has not begun."""
        return Job(body, late, self._count)

    def begin(self, job: Job, *, on_loop: bool = False) -> None:
        """Begin a job in a worker, or, if its body is async, on the loop. Raises as `start` does."""
        if self._process != os.getpid():
            self._start_anew()
        if self.abandoned >= self.max_abandoned:
            raise ToolFailure(
                ErrorCode.UNAVAILABLE,
                f"{self.abandoned} calls took too long and have not ended yet. Nothing ran.",
                retryable=True,
            )
        try:
            if on_loop:
                self._on_loop(job)
            else:
                _hand(job, self._idle)
        except (RuntimeError, OSError) as error:  # a limit of the system, or the interpreter is ending
            raise ToolFailure(
                ErrorCode.UNAVAILABLE, "No worker can be started. Nothing ran.", retryable=True
            ) from error

    def _count(self, more: int) -> None:
        with self._lock:
            self.abandoned += more

    def _on_loop(self, job: Job) -> None:
        patience = _REACTION_S
        while True:
            with self._lock:
                loop = self._loop
                if loop is None or loop.thread is threading.current_thread():
                    loop = self._loop = _Loop(self._idle)
            if loop.start(job, patience):
                return
            patience *= 2
            with self._lock:
                if self._loop is loop:  # some body blocks it, or waits on it for a call of its own: it may keep it
                    self._loop = None


def _hand(job: Job, idle: deque[SimpleQueue]) -> None:
    """Give a job to a worker, a new one if none is idle."""
    try:
        inbox = idle.pop()  # the last one to rest: the others may reach their time and end
    except IndexError:
        inbox = SimpleQueue()
        threading.Thread(target=_work, args=(inbox, idle), name="keel-worker", daemon=True).start()
    inbox.put(job)


def _end_elsewhere(job: Job, idle: deque[SimpleQueue]) -> None:
    try:
        _hand(Job(job.end, None, job.count), idle)
    except RuntimeError:  # no worker can be started
        job.end()


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

    def __init__(self, idle: deque[SimpleQueue]):
        import asyncio

        self._idle = idle
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(_executor_of_workers()(idle))
        self._tasks: set[Any] = set()  # a loop holds its tasks but weakly; with them a thread holds this object
        closing = threading.Event()
        arguments = (self._loop, self._tasks, closing)
        self.thread = threading.Thread(target=_serve, args=arguments, name="keel-loop", daemon=True)
        try:
            self.thread.start()
        except BaseException:
            self._loop.close()
            raise
        # Not at exit: a loop that is stopped complains of the bodies that it leaves behind.
        weakref.finalize(self, _stop, self._loop, closing).atexit = False

    def start(self, job: Job, patience_s: float) -> bool:
        """Begin a job here. False if the loop does not come to it in time: then it does not begin here."""
        taken = threading.Lock()  # by whoever is first: the loop, or who lost patience
        begun = threading.Lock()
        begun.acquire()

        def begin() -> None:
            if taken.acquire(blocking=False):
                self._begin(job)
                begun.release()

        try:
            self._loop.call_soon_threadsafe(begin)
        except RuntimeError:  # a body has closed it
            return False
        return begun.acquire(timeout=patience_s) or not taken.acquire(blocking=False)

    def _begin(self, job: Job) -> None:
        if not job.begin():
            return
        parts = _Parts()
        job.context.run(_parts.set, parts)
        task = self._loop.create_task(job.run_async(), context=job.context)
        self._tasks.add(task)

        def over(task: Any) -> None:
            self._tasks.discard(task)
            if task.cancelled():  # before its first step
                job.raised = TimeoutError()
            if job.left:  # telling may take its time, and the loop has none
                parts.less(lambda: _end_elsewhere(job, self._idle))
            else:
                job.end()

        def cancel() -> None:
            with suppress(RuntimeError):  # a body has closed the loop
                self._loop.call_soon_threadsafe(task.cancel)

        task.add_done_callback(over)
        job.cancel = cancel
        if job.left:
            cancel()


class _Parts:
    """How much of an async body is at work: the coroutine, and what it gave to threads, which nothing can cancel."""

    def __init__(self):
        self._lock = threading.Lock()
        self._number = 1
        self._then: Callable[[], None] | None = None

    def more(self) -> None:
        with self._lock:
            self._number += 1

    def less(self, then: Callable[[], None] | None = None) -> None:
        """One part is over. With the last one `then` is called, if it has been given."""
        with self._lock:
            self._number -= 1
            self._then = self._then or then
            last = self._number == 0
        if last and self._then is not None:
            self._then()


_parts: ContextVar[_Parts | None] = ContextVar("keel_parts", default=None)


@lru_cache(1)
def _executor_of_workers() -> type:
    """What `asyncio.to_thread` is to use: an executor's own threads are few, and the interpreter waits for them."""
    from concurrent.futures import Future, ThreadPoolExecutor

    class Workers(ThreadPoolExecutor):
        def __init__(self, idle: deque[SimpleQueue]):
            super().__init__(1)
            self._idle_workers = idle

        def submit(self, function: Callable, /, *args: Any, **kwargs: Any) -> Future:
            future, parts = Future(), _parts.get() or _Parts()

            def body() -> None:
                try:
                    if future.set_running_or_notify_cancel():
                        future.set_result(function(*args, **kwargs))
                except BaseException as raised:
                    future.set_exception(raised)
                finally:
                    parts.less()

            parts.more()
            try:
                _hand(Job(body, None, _count_nothing), self._idle_workers)
            except BaseException:
                parts.less()
                raise
            return future

    return Workers


def _count_nothing(more: int) -> None:
    """For a job that nobody can leave."""


def _serve(loop: Any, tasks: set[Any], closing: threading.Event) -> None:
    import asyncio

    asyncio.set_event_loop(loop)
    while not (closing.is_set() or loop.is_closed()):
        # A body may stop the loop, or a task of its own may raise SystemExit through it: the others go on.
        with suppress(BaseException):
            loop.run_forever()
    loop.close()


def _stop(loop: Any, closing: threading.Event) -> None:
    closing.set()
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
    left = None
    if context.deadline is not None:
        left = context.deadline - time.monotonic()
        if not left > 0:  # a deadline of NaN has passed
            raise ToolFailure(ErrorCode.BUDGET_EXCEEDED, "The time for this run is used up. Nothing ran.")
    if runs_here(tool):
        try:
            return tool.call(values, context)
        except KeyboardInterrupt:
            raise
        except BaseException as raised:
            raise classify(tool, raised, call_id) from raised
    job = pool.job(_body(tool, values, context, call_id), late)
    at_deadline = left is not None and (tool.timeout_s is None or left < tool.timeout_s)
    try:
        pool.begin(job, on_loop=tool.is_async)
        in_time = job.wait(left if at_deadline else tool.timeout_s)
    except ToolFailure:
        raise
    except BaseException:
        job.forsake()
        raise
    if not in_time:
        raise _too_late(tool, call_id, at_deadline)
    return job.result()


def _body(tool: Tool, values: dict[str, Any], context: ExecutionContext, call_id: str) -> Callable[[], Any]:
    """The body as it runs away from the caller. What it raises is judged there too, for an exception may be a trap."""

    def judged(raised: BaseException) -> ToolFailure:
        try:
            return classify(tool, raised, call_id)
        except KeyboardInterrupt:  # not the caller's
            return classify(tool, KeyboardInterrupt(), call_id)

    def body() -> Any:
        try:
            return tool.call(values, context)
        except BaseException as raised:
            raise judged(raised) from raised

    async def async_body() -> Any:
        try:
            return await tool.call(values, context)
        except BaseException as raised:
            raise judged(raised) from raised

    return async_body if tool.is_async else body


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
