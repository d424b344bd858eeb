"""Which tools exist, under which names, with which contracts. What is not in here cannot be called."""

from __future__ import annotations

import inspect
import json
import re
import threading
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from .adapters import printable, quoted
from .contracts import NAME_LENGTH, NAME_PATTERN, ErrorCode, ExecutionContext, Principal, ToolFailure
from .judges import Judge, Output, is_context, read_signature

DEFAULT_TIMEOUT_S = 30.0
_NAME = re.compile(NAME_PATTERN.removesuffix("$") + r"\Z")
_VIEWS = 64  # how many different sets of permissions are remembered
_NEAR = 5  # how many names a model is told


class RegistrationError(ValueError):
    """A tool's contract is unusable. Raised while tools are added, so when the program starts."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tool:
    """One tool: the contract that is shown, the judge made from it, and the function behind it.

    `read_only`, `destructive` and `idempotent` have MCP's meanings. `permission` is what a
    principal needs; None lets anyone read. `approver_permission` is what whoever approves needs,
    the desk's own if None; with `four_eyes` nobody approves a call of their own. `judge`, `output`
    and `context_parameter` are compiled from the contract; `spread` says whether the function takes
    its arguments by name, `is_async` whether it is a coroutine function.
    """

    name: str
    version: str
    description: str
    input_schema: dict[str, Any]
    function: Callable[..., Any]
    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    permission: str | None = None
    needs_approval: bool = True
    approver_permission: str | None = None
    four_eyes: bool = False
    policies: tuple[Callable, ...] = ()
    rules: tuple[Callable, ...] = ()
    errors: frozenset[str] = frozenset()
    timeout_s: float | None = DEFAULT_TIMEOUT_S
    idempotency_key: Callable | None = None
    check_status: Callable | None = None
    shared: bool = False
    judge: Judge = field(repr=False)
    output: Output = field(repr=False)
    context_parameter: str | None = field(default=None, repr=False)
    spread: bool = field(default=True, repr=False)
    is_async: bool = field(default=False, repr=False)

    def call(self, values: dict[str, Any], context: ExecutionContext) -> Any:
        """Call the body with its judged arguments, and with the harness's context where it wants one."""
        if self.spread:
            if self.context_parameter is None:
                return self.function(**values)
            return self.function(**values, **{self.context_parameter: context})
        if self.context_parameter is None:
            return self.function(values)
        return self.function(values, **{self.context_parameter: context})


class ToolRegistry:
    """A closed list of tools. `tool` adds a Python function, `add_schema_tool` a plain JSON Schema."""

    def __init__(self):
        self._tools: dict[str, Tool] = {}
        self._shown: dict[str, dict[str, Any]] = {}  # each tool as a model is told of it, made once
        self._views: OrderedDict[frozenset[str], _View] = OrderedDict()
        self._lock = threading.Lock()

    def tool(self, function: Callable | None = None, /, *, name: str | None = None, **options: Any) -> Callable:
        """Decorate a function into a tool and give it back unchanged. Options are Tool's fields.

        The input schema comes from the parameters' types, the output contract from the return
        annotation, the description from the docstring. Raises RegistrationError.
        """
        if function is None:
            return lambda function: self.tool(function, name=name, **options)
        name = name or getattr(function, "__name__", "")
        try:
            signature = read_signature(function)
        except Exception as error:  # pydantic has many ways to say that a type cannot be judged
            raise RegistrationError(f"{name}: {error}") from error
        options.setdefault("description", inspect.getdoc(function) or "")
        self._add(
            name=name,
            function=function,
            input_schema=signature.input_schema,
            judge=signature.judge,
            output=signature.output,
            context_parameter=signature.context_parameter,
            **options,
        )
        return function

    def add_schema_tool(
        self, *, name: str, description: str, input_schema: dict[str, Any], function: Callable, **options: Any
    ) -> None:
        """Add a tool whose contract is plain JSON Schema, from MCP or OpenAPI. Options are Tool's fields.

        Its function gets the arguments as one dict, and the ExecutionContext where a parameter is
        annotated so. Hints from outside are not believed: what is not stated here is a write.
        Raises RegistrationError.
        """
        from .schemas import SchemaJudge

        try:
            judge = SchemaJudge(input_schema)
            signature = inspect.signature(function, eval_str=True)
            contexts = [one.name for one in signature.parameters.values() if is_context(one.annotation)][:1]
            signature.bind({}, **dict.fromkeys(contexts))
        except Exception as error:
            raise RegistrationError(f"{name}: {error}") from error
        self._add(
            name=name,
            description=description,
            input_schema=judge.schema,
            function=function,
            judge=judge,
            output=Output(Any),
            context_parameter=contexts[0] if contexts else None,
            spread=False,
            **options,
        )

    def _add(self, *, name: str, version: str = "1.0", read_only: bool = False, **options: Any) -> None:
        options.setdefault("destructive", not read_only)
        options.setdefault("needs_approval", not read_only)
        try:
            for several in ("policies", "rules"):
                options[several] = tuple(options.get(several, ()))
            if isinstance(options.get("errors"), str):
                raise TypeError("errors is a list of codes, not one text")
            options["errors"] = frozenset(options.get("errors", ()))
            is_async = _is_async(options["function"])
            tool = Tool(name=name, version=version, read_only=read_only, is_async=is_async, **options)
        except TypeError as error:
            raise RegistrationError(f"{name}: {error}") from None
        _check(tool)
        shown = _as_shown(tool)
        with self._lock:
            if name in self._tools:
                raise RegistrationError(f"{name}: there is a tool of this name already")
            self._tools[name], self._shown[name] = tool, shown
            self._views.clear()

    def lookup(self, name: str, principal: Principal | None = None) -> Tool:
        """The tool of this name. Raises ToolFailure `unknown_tool` that names the nearest few.

        With a principal only the names that it may use are given away.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise ToolFailure(ErrorCode.UNKNOWN_TOOL, self.unknown(name, principal))
        return tool

    def find(self, name: str) -> Tool | None:
        """The tool of this name, or None."""
        return self._tools.get(name)

    def unknown(self, name: str, principal: Principal | None = None) -> str:
        """The sentence for a name that no tool has, in time that does not grow with their number."""
        view = self._view(principal)
        near = view.nearest(name)
        if not near:
            return f"There is no tool {quoted(name)}, and none that you may use."
        word = "The tools are" if len(near) == len(view.tools) else "The nearest are"
        return f"There is no tool {quoted(name)}. {word}: {', '.join(near)}."

    def schemas(self, principal: Principal | None = None) -> list[dict[str, Any]]:
        """The list for a request's `tools=`: what this principal may use. Kept until a tool is added.

        Each caller gets a copy of its own: what one provider wants changed in it changes no contract.
        """
        return self._view(principal).schemas()

    def shown(self, principal: Principal | None = None) -> list[dict[str, Any]]:
        """The same list at no cost, however many tools there are: one for all who ask, and closed.

        Whoever tries to change it gets a TypeError; `copy.deepcopy` gives a plain list that may be changed.
        """
        return self._view(principal).shown

    def names(self) -> list[str]:
        """All names, in the order in which they were added."""
        return list(self._tools)

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    def __len__(self) -> int:
        return len(self._tools)

    def _view(self, principal: Principal | None) -> _View:
        key = None if principal is None else principal.permissions
        with self._lock:
            view = self._views.get(key)
            if view is None:
                usable = [tool for tool in self._tools.values() if principal is None or permitted(tool, principal)]
                view = self._views[key] = _View(usable, self._shown)
                if len(self._views) > _VIEWS:
                    self._views.popitem(last=False)
            self._views.move_to_end(key)
            return view


def bind(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """Do the arguments fit the tool's parameters by name? None missing, none that it does not have.

    That is shape and no more: it says nothing of types. Raises ToolFailure `invalid_arguments`.
    """
    known, wanted = tool.input_schema.get("properties", {}), tool.input_schema.get("required", [])
    missing = [name for name in wanted if name not in arguments]
    extra = [quoted(name) for name in islice((name for name in arguments if name not in known), _NEAR)]
    if missing or extra:
        said = f"Missing: {', '.join(missing)}. " if missing else ""
        said += f"No such argument: {', '.join(extra)}. " if extra else ""
        names = ", ".join(known) or "none"
        raise ToolFailure(ErrorCode.INVALID_ARGUMENTS, f"{said}The names are: {names}.")
    return arguments


def permitted(tool: Tool, principal: Principal) -> bool:
    """Whether this principal may use the tool at all."""
    return tool.permission is None or tool.permission in principal.permissions


def _is_async(function: Any) -> bool:
    own_call = type(function).__call__  # of an object that is called like a function
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(own_call)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and printable(value) == value


def _check(tool: Tool) -> None:
    """Raise RegistrationError for a contract that contradicts itself or protects nothing."""

    def refuse(why: str) -> None:
        raise RegistrationError(f"{tool.name}: {why}")

    if not (isinstance(tool.name, str) and len(tool.name) <= NAME_LENGTH and _NAME.match(tool.name)):
        refuse(f"a name is lower-case letters, digits and underscores, at most {NAME_LENGTH}, a letter first")
    for flag in ("read_only", "destructive", "idempotent", "needs_approval", "four_eyes", "shared"):
        if type(getattr(tool, flag)) is not bool:
            refuse(f"{flag} is True or False: what only looks like one could let a write pass for a read")
    for what in ("version", "description", "permission", "approver_permission"):
        text = getattr(tool, what)
        if not (_is_text(text) or (what.endswith("permission") and text is None)) or (what == "version" and not text):
            refuse(f"{what} is text")
    if inspect.isgeneratorfunction(tool.function) or inspect.isasyncgenfunction(tool.function):
        refuse("a body answers once: return a list in the place of yielding")
    if not tool.read_only and not tool.permission:
        refuse("a write needs a permission; say permission=… or read_only=True")
    if not tool.needs_approval and (tool.four_eyes or tool.approver_permission):
        refuse("four_eyes and approver_permission are for tools that need approval")
    if tool.read_only and tool.destructive:
        refuse("a tool that only reads destroys nothing; leave one of the two out")
    for code in tool.errors:
        if code in set(ErrorCode) or not (isinstance(code, str) and len(code) <= NAME_LENGTH and _NAME.match(code)):
            refuse(f"{code!r} is no business code: the reserved codes are the harness's own")
    if tool.timeout_s is not None and not (isinstance(tool.timeout_s, int | float) and tool.timeout_s > 0):
        refuse("timeout_s is a number of seconds above 0, or None")
    several = (*tool.policies, *tool.rules, *filter(None, (tool.idempotency_key, tool.check_status)))
    if not all(callable(one) and not _is_async(one) for one in several):
        refuse("policies, rules, idempotency_key and check_status are plain functions")


class _View:
    """What one set of permissions may use: its schemas, and an index to find near names fast."""

    def __init__(self, tools: Iterable[Tool], shown: dict[str, dict[str, Any]]):
        self.tools = {tool.name: tool for tool in tools}
        self.shown = _ClosedList(shown[name] for name in self.tools)
        self._schemas: str | None = None  # as JSON text, the fastest of deep copies
        self._grams: dict[str, list[str]] | None = None

    def schemas(self) -> list[dict[str, Any]]:
        if self._schemas is None:
            self._schemas = json.dumps(self.shown)
        return json.loads(self._schemas)

    def nearest(self, name: str) -> list[str]:
        """The few names most like this one, the nearest first; all of them where there are few."""
        from difflib import SequenceMatcher

        if len(self.tools) <= _NEAR:
            return list(self.tools)
        candidates = self._candidates(name[:NAME_LENGTH])
        likeness = {one: SequenceMatcher(None, name[:NAME_LENGTH], one).ratio() for one in candidates}
        return sorted(likeness, key=lambda one: (-likeness[one], one))[:_NEAR]

    def _candidates(self, name: str) -> list[str]:
        """At most a dozen names that share the rarest letter triples with this one."""
        if self._grams is None:
            grams = defaultdict(list)
            for known in self.tools:
                for gram in _triples(known):
                    grams[gram].append(known)
            self._grams = grams
        lists = sorted((self._grams[gram] for gram in _triples(name) if gram in self._grams), key=len)
        shared: Counter[str] = Counter()
        for names in lists[:16]:
            shared.update(names[:32])
        return [one for one, _ in shared.most_common(12)] or list(self.tools)[:_NEAR]


def _triples(name: str) -> set[str]:
    padded = f"__{name}__"
    return {padded[at : at + 3] for at in range(len(padded) - 2)}


def _as_shown(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return _closed(json.loads(json.dumps({"type": "function", "function": function})))


def _closed(value: Any) -> Any:
    """The same JSON value, in lists and dicts of its own that cannot be changed."""
    if isinstance(value, dict):
        return _ClosedDict({key: _closed(item) for key, item in value.items()})
    return _ClosedList(map(_closed, value)) if isinstance(value, list) else value


def _refuse(self: Any, *_: Any, **__: Any) -> Any:
    raise TypeError("this list of tools is one for all who ask, and is not changed: change a copy.deepcopy of it")


class _ClosedList(list):
    """A list for all purposes but changing it. Its copies are plain lists."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return list, (list(self),)  # what is copied or pickled comes back as what it was made from


class _ClosedDict(dict):
    """A dict for all purposes but changing it. Its copies are plain dicts."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return dict, (dict(self),)
