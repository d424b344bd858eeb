"""What happened: one event for each stage of each call, kept in memory, as JSON Lines, or sent on.

An event says who, which call, which stage, how it came out and how long it took. What was said stays
out: arguments, results and the texts of exceptions may hold secrets, and are kept only if asked for.

A trace is evidence of what the harness did. It is no evidence of what became of an effect: that is
with the ledger and the world. It never breaks a call either: what cannot be written is counted in `lost`.

Names are those of OpenTelemetry's conventions for generative AI, and `keel.` for what those have no name for.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import to_json

from .adapters import printable
from .contracts import NAME_LENGTH, NAME_PATTERN, ExecutionContext, ToolCall, ToolFailure, ToolRequest, ToolResult
from .ledger import over
from .registry import Tool

CONTENT_BYTES = 64 * 1024  # of one content that was asked for
HIDDEN = "[hidden]"
CUT = " … (cut)"  # at the end of what was too long
UNSHOWN = " while it was written down]"  # at the end of what stands for a content that could not be shown
OPERATIONS = {"model": "chat", "start": "invoke_agent", "stop": "invoke_agent"}  # of other stages: execute_tool

_FIELDS = {  # of an event, and what they are called in a line
    "time_ns": "time_unix_nano",
    "duration_ns": "duration_nano",
    "stage": "keel.stage",
    "outcome": "keel.outcome",
    "run_id": "gen_ai.conversation.id",
    "call_id": "gen_ai.tool.call.id",
    "tool": "gen_ai.tool.name",
}
ARGUMENTS, RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
VERSION, REPLAYED = "keel.tool.version", "keel.replayed.call.id"
REQUEST_NAME, REQUEST_PROBLEM = "keel.request.name", "keel.request.problem"
INTERRUPTED = "interrupted"

Stages = tuple[Callable[..., Any], ...]  # of the line, from lookup to complete
# When the next stage in order ended, if it passed; else which one ended, when, its outcome, what more there is to say,
# and, of an answer, the tool's version. It is small because there is one for every stage.
_Mark = (
    int | tuple[str, int, str, Mapping[str, Any] | None] | tuple[str, int, str, Mapping[str, Any] | None, str | None]
)
# When a call began, its marks, their order, run id, call id, name, principal, and its arguments if they are wanted.
_Record = tuple[int, list[_Mark], tuple[str, ...], str, str, str, str, dict[str, Any] | None]
_OF_READS = ("lookup", "permission", "validate", "policies", "rules", "run", "output")
_OF_WRITES = (*_OF_READS[:4], "recall", "rules", "claim", "run", "output", "complete")


class Event(NamedTuple):
    """One stage that has ended. `time_ns`: when it did, in nanoseconds since 1970; `duration_ns`: how long it took.

    `stage` is one of the line's (`lookup`, `permission`, …), or `read` (a request became a call), `answer`
    (the call has its result), `late` (a body that was left behind has ended), `settle` (the world was
    asked), `model` (a turn of the model), `start` and `stop` (of a run). `outcome` is "ok", "replayed", an
    error code, "interrupted", why a run stopped, or as what a write was settled. `more` holds the rest,
    under its names in a line.
    """

    time_ns: int
    duration_ns: int
    stage: str
    outcome: str
    run_id: str | None = None
    call_id: str | None = None
    tool: str | None = None
    more: Mapping[str, Any] = {}

    @property
    def failed(self) -> bool:
        """Whether the stage ended with an error code."""
        return self.stage not in ("start", "stop", "settle") and self.outcome not in ("ok", "replayed")

    def attributes(self) -> dict[str, Any]:
        """The event by the conventions' names, without what it does not have."""
        named = {"gen_ai.operation.name": OPERATIONS.get(self.stage, "execute_tool")}
        named |= {name: getattr(self, field) for field, name in _FIELDS.items() if getattr(self, field) is not None}
        return named | ({"error.type": self.outcome} if self.failed else {}) | dict(self.more)

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Event:
        """The event of a line that was read back. Raises ValueError for a line that is none."""
        own = {field: line.get(name) for field, name in _FIELDS.items()}
        if not (type(own["time_ns"]) is type(own["duration_ns"]) is int):
            raise ValueError("an event has a time and a duration, both in nanoseconds")
        if not all(isinstance(own[field], str) for field in ("stage", "outcome")):
            raise ValueError("an event has a stage and an outcome")
        if not all(isinstance(own[field], str | None) for field in ("run_id", "call_id", "tool")):
            raise ValueError("the ids and the name of an event are texts")
        known = {*_FIELDS.values(), "gen_ai.operation.name", "error.type"}
        return cls(**own, more={name: value for name, value in line.items() if name not in known})


def read_trace(path: str | os.PathLike[str]) -> list[Event]:
    """The events of a trace file, in the order in which they were written. Lines that are none are passed over.

    A process that was killed, or a disk that was full, may leave half a line. Raises OSError.
    """
    events = []
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                events.append(Event.of(json.loads(line)))
            except (ValueError, AttributeError, RecursionError):
                continue
    return events


_SECRET_NAME = r"pass(?:word|wd|phrase)|secret|token|api[_-]?key|private[_-]?key|authori[sz]ation|credential|cookie"
_SECRET_KEY = re.compile(_SECRET_NAME, re.IGNORECASE)
_SECRET_TEXT = re.compile(
    # password=…, "token": "…", token = 'a b', Authorization: Bearer …
    rf"(?:{_SECRET_NAME})[\"']?\s{{0,9}}[:=]\s{{0,9}}"
    r"(?:\"(?:\\.|[^\"\\])*\"?|'(?:\\.|[^'\\])*'?|(?:(?:bearer|basic|digest|token)\s+)?[^\s\"',;&]+)"
    r"|\bbearer\s+\S+"
    r"|(?<=://)[^\s/@:]{0,99}:[^\s/@]{1,999}(?=@)"  # https://user:password@host; bounded, or it could be made slow
    r"|\b(?:sk|pk|ghp|gho|xox[abp]|glpat|AKIA)[-_]?[A-Za-z0-9_-]{12,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*-----|$)",
    re.IGNORECASE | re.DOTALL,
)


def redact(value: Any) -> Any:
    """A copy of a JSON value without what looks like a secret: by the key it stands under, or by its form.

    It finds the usual ones. No such list finds them all, and so content is kept only if asked for.
    """
    if isinstance(value, str):
        return _SECRET_TEXT.sub(HIDDEN, value)
    if isinstance(value, Mapping):
        return {
            redact(str(key)): HIDDEN if _SECRET_KEY.search(str(key)) and one is not None else redact(one)
            for key, one in value.items()
        }
    return [redact(one) for one in value] if isinstance(value, list | tuple) else value


class Trace:
    """Where events go: into memory, or into a JSON Lines file that is appended to; and to `send`, if it is given.

    `content` keeps arguments and results, through `redact` and up to 64 KiB each; `texts` keeps what
    exceptions say. A tool's name is kept as the model gave it, if a tool could have that name. In memory it
    holds the last `keep` calls. `send(event)` is called in the thread of the call. `clock` gives nanoseconds
    since 1970. A file is written line by line, each with one call to the system, and is readable at any
    moment; it is not forced to the disk, so a power loss may cost its last lines. It is made for its
    owner's eyes alone.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        content: bool = False,
        texts: bool = False,
        redact: Callable[[Any], Any] = redact,
        keep: int = 100_000,
        send: Callable[[Event], None] | None = None,
        clock: Callable[[], int] = time.time_ns,
    ):
        self.path = None if path is None else Path(path)
        self.content, self.texts, self.redact = content, texts, redact
        self.send, self.clock = send, clock
        self.lost = 0
        self._kept: deque[Event | _Record] = deque(maxlen=keep)
        self._file: int | None = None
        # In memory alone, an event is made when somebody looks. Else each is made, and goes out, as it happens.
        self._at_once = path is not None or send is not None

    @property
    def events(self) -> list[Event]:
        """All events so far: of memory in the order of time, of a file as they were written. Raises OSError."""
        if self.path is not None:
            return read_trace(self.path) if self.path.exists() else []
        kept = [one for item in self._kept.copy() for one in ((item,) if isinstance(item, Event) else _events(item))]
        return sorted(kept, key=lambda event: event.time_ns)

    def close(self) -> None:
        """Close the file. The next event opens it again: after it was moved away, a new one is made."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def watching(self, line: Callable[[ToolCall, ExecutionContext, Stages], ToolResult], stages: Stages) -> Watch:
        """What lets calls walk this line with these stages, and notes how each comes through."""
        return Watch(self, line, stages)

    def note(
        self,
        stage: str,
        outcome: str,
        run_id: str | None = None,
        call_id: str | None = None,
        tool: str | None = None,
        *,
        began_ns: int | None = None,
        **more: Any,
    ) -> None:
        """Note one thing that is no stage of the line: it ends now, and began at `began_ns` of this trace's clock."""
        now = self.clock()
        spent = 0 if began_ns is None else max(0, now - began_ns)
        self._put(Event(now, spent, stage, str(outcome), run_id, call_id, _name(tool), more))

    def note_read(
        self, request: ToolRequest, read: ToolCall | ToolResult, context: ExecutionContext, began_ns: int
    ) -> None:
        """Note that a request was read: a call, or the result of one that could not be."""
        more = {"user.id": context.principal.id}
        if self.content:
            more |= {ARGUMENTS: self.shown(request.arguments), REQUEST_NAME: self.shown(request.name)}
            more |= {} if request.problem is None else {REQUEST_PROBLEM: request.problem}
        named, outcome = (read.name, "ok") if isinstance(read, ToolCall) else (read.tool_name, read.error.code)
        self.note("read", outcome, context.run_id, read.call_id, named, began_ns=began_ns, **more)

    def shown(self, value: Any) -> str:
        """A content as JSON text, redacted and cut."""
        try:
            text = to_json(self.redact(value), inf_nan_mode="constants").decode()
        except Exception as error:  # a redaction of the host's own, or what a model sent and JSON cannot hold
            return json.dumps(f"[{printable(type(error).__name__)}{UNSHOWN}")
        return text if len(text) <= CONTENT_BYTES else json.dumps(f"{text[:CONTENT_BYTES]}{CUT}")

    def _put(self, event: Event) -> None:
        if self.path is None:
            self._kept.append(event)
        if self._at_once:
            try:
                if self.path is not None:
                    self._write(json.dumps(event.attributes(), ensure_ascii=False, default=str) + "\n")
                if self.send is not None:
                    self.send(event)
            except Exception:  # a full disk, an exporter of the host's: a call must not fail because of its trace
                self.lost += 1

    def _write(self, line: str) -> None:
        if self._file is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
            self._file = os.open(self.path, flags, 0o600)
        data = line.encode("utf-8", "replace")
        written = os.write(self._file, data)
        if written < len(data):  # the disk is full: what comes next begins on a line of its own
            os.write(self._file, b"\n")
            self.lost += 1


class Watch:
    """Executes calls as the line would, and notes what comes of them in a trace."""

    def __init__(self, trace: Trace, line: Callable[[ToolCall, ExecutionContext, Stages], ToolResult], stages: Stages):
        self._trace, self._line, self._stages = trace, line, stages
        self._idle: dict[bool, deque[_Walk]] = {True: deque(), False: deque()}

    def execute(self, call: ToolCall, context: ExecutionContext, tool: Tool | None) -> ToolResult:
        """Let a call of this tool walk the line. A read that nobody need agree to has no claim to tell of."""
        keeps_nothing = tool is not None and tool.read_only and not tool.needs_approval
        idle = self._idle[keeps_nothing]
        try:
            walk = idle.pop()
        except IndexError:
            walk = _Walk(self._trace, self._stages, keeps_nothing)
        walk.begin(call, context)
        result = None
        try:
            result = self._line(call, context, walk.watched)
        finally:
            walk.end(result)
        idle.append(walk)
        return result


class _Walk:
    """One call at a time on its way through the line; it is used again, for it costs more to make than to use.

    `watched` are the stages, each of which says how it ended. A claim says nothing when it stands, for
    an interrupt at that moment would lose it: `run` says it.
    """

    __slots__ = ("_before", "_mark", "_order", "_record", "_trace", "watched")

    def __init__(self, trace: Trace, stages: Stages, keeps_nothing: bool):
        self._trace, self._order = trace, _OF_READS if keeps_nothing else _OF_WRITES
        lookup, permission, validate, policies, name, recall, rules, approve, claim, run, output, complete = stages
        passed, run = self._passed, self._passed("run", run)
        looked = (passed("lookup", lookup), passed("permission", permission), passed("validate", validate))
        judged, ruled, put_out = passed("policies", policies), passed("rules", rules), passed("output", output)
        if keeps_nothing:
            self.watched = (*looked, judged, name, recall, ruled, approve, claim, run, put_out, complete)
            return
        kept, agreed = (self._blamed("recall", name), self._recalled(recall)), self._agreed(approve)
        ends = (self._claimed(claim), self._after_claim(run), put_out, passed("complete", complete))
        self.watched = (*looked, judged, *kept, ruled, agreed, *ends)

    def begin(self, call: ToolCall, context: ExecutionContext) -> None:
        """Another call sets out."""
        trace, marks, user = self._trace, [], context.principal.id
        wanted = call.arguments if trace.content else None  # what is kept in memory is kept alive
        began = self._before = trace.clock()
        self._record = (began, marks, self._order, context.run_id, call.call_id, call.name, user, wanted)
        if trace._at_once:
            self._mark = self._tell
        else:
            self._mark = marks.append
            trace._kept.append(self._record)

    def _passed(self, name: str, stage: Callable) -> Callable:
        clock, failed = self._trace.clock, self._failed

        def of_two(a: Any, b: Any) -> Any:
            try:
                returned = stage(a, b)
            except BaseException as raised:
                failed(name, raised)
                raise
            self._mark(clock())
            return returned

        def of_three(a: Any, b: Any, c: Any) -> Any:
            try:
                returned = stage(a, b, c)
            except BaseException as raised:
                failed(name, raised)
                raise
            self._mark(clock())
            return returned

        def of_five(a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
            try:
                returned = stage(a, b, c, d, e)
            except BaseException as raised:
                failed(name, raised)
                raise
            self._mark(clock())
            return returned

        # With * for the arguments, each would take half as long again.
        return of_five if name == "run" else of_three if name in ("policies", "rules", "complete") else of_two

    def _blamed(self, name: str, stage: Callable) -> Callable:
        def watched(*args: Any) -> Any:
            try:
                return stage(*args)
            except BaseException as raised:
                self._failed(name, raised)
                raise

        return watched

    def _recalled(self, stage: Callable) -> Callable:
        recall = self._blamed("recall", stage)

        def watched(*args: Any) -> Any:
            settled = recall(*args)
            now = self._trace.clock()
            self._mark(now if settled is None else ("recall", now, "replayed", {REPLAYED: settled.call_id}))
            return settled

        return watched

    def _agreed(self, stage: Callable) -> Callable:
        approve = self._blamed("approve", stage)

        def watched(*args: Any) -> Any:
            using = approve(*args)
            if using is not None:  # else nobody need be asked
                self._mark(("approve", self._trace.clock(), "ok", None))
            return using

        return watched

    def _claimed(self, stage: Callable) -> Callable:
        def watched(ledger: Any, tool: Any, action: Any, using: Any) -> Any:
            try:
                return stage(ledger, tool, action, using)
            except BaseException as raised:
                self._failed("claim", raised)
                raise

        return watched

    def _after_claim(self, run: Callable) -> Callable:
        def watched(*args: Any) -> Any:
            try:
                self._mark(self._trace.clock())
            except BaseException:  # interrupted: the claim stands, and its body will not begin
                if (claimed := args[-1]) is not None:
                    over(claimed.token)
                raise
            return run(*args)

        return watched

    def _failed(self, stage: str, raised: BaseException) -> None:
        failure = isinstance(raised, ToolFailure)
        cause = raised.__cause__ if failure else raised
        more = {} if cause is None or isinstance(cause, ToolFailure) else _exception(cause, self._trace.texts)
        if (judge := getattr(raised, "decided_by", None)) is not None:  # a policy's name stays inside, and is kept here
            more["keel.decided_by"] = printable(str(judge))
        self._mark((stage, self._trace.clock(), raised.error.code if failure else INTERRUPTED, more))

    def end(self, result: ToolResult | None) -> None:
        """The call has its result, or was interrupted."""
        trace, content = self._trace, None
        if result is None:
            self._mark(("answer", trace.clock(), INTERRUPTED, None, None))
            return
        error = result.error
        if trace.content:
            given = result.data if error is None else error.message
            content = {ARGUMENTS: trace.shown(self._record[-1]), RESULT: trace.shown(given)}
        outcome = "ok" if error is None else error.code
        self._mark(("answer", trace.clock(), outcome, content, result.tool_version))

    def _tell(self, mark: _Mark) -> None:
        _, marks, order, *_ = self._record
        marks.append(mark)
        name = order[sum(isinstance(one, int) for one in marks) - 1]
        self._trace._put(_event(self._record, mark, name, self._before))
        self._before = self._trace.clock()  # what the writing took is no part of the next stage


def _events(record: _Record) -> Iterator[Event]:
    """What was noted of one call, as events."""
    before, marks, order, *_ = record
    names = iter(order)
    for mark in marks.copy():
        event = _event(record, mark, next(names) if isinstance(mark, int) else "", before)
        before = event.time_ns
        yield event


def _event(record: _Record, mark: _Mark, name: str, before: int) -> Event:
    """One mark as an event; `name` is that of a stage that passed."""
    began, _, _, run_id, call_id, tool, user, _ = record
    stage, at, outcome, more, *version = (name, mark, "ok", None) if isinstance(mark, int) else mark
    if stage == "answer":
        before, more = began, {"user.id": user, VERSION: version[0], **(more or {})}
    return Event(at, max(0, at - before), stage, outcome, run_id, call_id, tool, more or {})


def _name(name: str | None) -> str | None:
    """A tool's name as it may stand in a trace: one that no tool can have is a text of the model's."""
    fits = name is not None and len(name) <= NAME_LENGTH and re.fullmatch(NAME_PATTERN, name)
    return name if fits else None


def _exception(raised: BaseException, texts: bool) -> dict[str, Any]:
    """Of what type an exception is and where it was raised; what it says only with `texts`."""
    try:
        kind, told = type(raised), {}
        at = raised.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        if at is not None:
            code = at.tb_frame.f_code
            told["code.function.name"] = f"{at.tb_frame.f_globals.get('__name__', '?')}.{code.co_qualname}"
            told["code.line.number"] = at.tb_lineno
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        told["exception.type"] = printable(f"{module}{kind.__qualname__}")
        if texts:
            told["exception.message"] = printable(str(raised))[:CONTENT_BYTES]
        return told
    except Exception:  # an exception may be a trap
        return {"exception.type": "unknown"}


def calls_of(events: Iterable[Event]) -> dict[str, list[Event]]:
    """The events of each call, by its id, in the order in which the calls were first seen."""
    calls: dict[str, list[Event]] = {}
    for event in events:
        if event.call_id is not None:
            calls.setdefault(event.call_id, []).append(event)
    return calls
