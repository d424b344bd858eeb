"""Other answers to chapter 03's exercises."""

import difflib
import inspect

from keel.contracts import ToolFailure

# --- 03-a ---


class TryRegistry:
    def __init__(self):
        self._known = {}

    def register(self, name, function):
        if self._known.setdefault(name, function) is not function:
            raise ValueError(name)

    def lookup(self, name):
        try:
            return self._known[name]
        except KeyError:
            raise ToolFailure("unknown_tool", f"no {name}") from None


class DictRegistry(dict):
    def register(self, name, function):
        class Taken(ValueError):
            pass

        if name in self:
            raise Taken(name)
        self[name] = function
        return function

    def lookup(self, name):
        found = self.get(name)
        if found is None:
            raise ToolFailure("unknown_tool", "There is no such tool.")
        return found


class ListRegistry:
    def __init__(self, tools=()):
        self.tools = list(tools)

    def register(self, name, function):
        for known, _ in self.tools:
            if known == name:
                raise ValueError("taken")
        self.tools.append((name, function))

    def lookup(self, name):
        for known, function in self.tools:
            if known == name:
                return function
        raise ToolFailure(code="unknown_tool", message=name)


class ClassDictRegistry:
    tools = {}

    def register(self, name, function):
        if name in self.tools:
            raise ValueError(name)
        self.tools[name] = function

    def lookup(self, name):
        if name not in self.tools:
            raise ToolFailure("unknown_tool", name)
        return self.tools[name]


class GlobalsRegistry(TryRegistry):
    def lookup(self, name):
        found = self._known.get(name) or vars(__builtins__ if inspect.ismodule(__builtins__) else inspect).get(name)
        found = found or (print if name == "print" else None)
        if not found:
            raise ToolFailure("unknown_tool", name)
        return found


class LastRegistry(ListRegistry):
    def lookup(self, name):
        return self.tools[-1][1] if self.tools else None


class AsksAfterwards(DictRegistry):
    def register(self, name, function):
        taken = name in self
        self[name] = function
        if taken:
            raise ValueError(name)


class CallsIt(TryRegistry):
    def lookup(self, name):
        return super().lookup(name)()


class ReturnsFailure(TryRegistry):
    def lookup(self, name):
        return self._known.get(name) or ToolFailure("unknown_tool", name)


# --- 03-b ---


def call_bound(function, arguments):
    signature = inspect.signature(function)
    try:
        bound = signature.bind(**arguments)
    except TypeError as error:
        raise ToolFailure("invalid_arguments", f"{function.__name__}: {error}") from error
    bound.apply_defaults()
    return function(*bound.args, **bound.kwargs)


def call_by_sets(function, arguments):
    parameters = inspect.signature(function).parameters
    needed = {name for name, one in parameters.items() if one.default is inspect.Parameter.empty}
    missing, extra = needed - arguments.keys(), arguments.keys() - parameters.keys()
    if missing or extra:
        raise ToolFailure("invalid_arguments", f"missing {sorted(missing)}, extra {sorted(extra)}")
    return function(**arguments)


def call_by_flag(function, arguments):
    problem = None
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        problem = error
    if problem is not None:
        raise ToolFailure("invalid_arguments", "These arguments do not fit.")
    result = function(**arguments)
    return result


def call_only_missing(function, arguments):
    for name, one in inspect.signature(function).parameters.items():
        if name not in arguments and one.default is one.empty:
            raise ToolFailure("invalid_arguments", name)
    return function(**arguments)


def call_drops_extra(function, arguments):
    known = inspect.signature(function).parameters
    return call_bound(function, {name: value for name, value in arguments.items() if name in known})


def call_both_in_the_try(function, arguments):
    try:
        bound = inspect.signature(function).bind(**arguments)
        return function(*bound.args, **bound.kwargs)
    except TypeError as error:
        raise ToolFailure("invalid_arguments", str(error)) from None


def call_catches_all(function, arguments):
    try:
        return function(**arguments)
    except Exception as error:
        raise ToolFailure("invalid_arguments", str(error)) from None


def call_wants_text(function, arguments):
    if any(name == "path" and not isinstance(value, str) for name, value in arguments.items()):
        raise ToolFailure("invalid_arguments", "path: give a text.")
    return call_bound(function, arguments)


def call_runs_then_binds(function, arguments):
    try:
        returned = function(**arguments)
    except TypeError:
        inspect.signature(function).bind(**arguments)
        raise
    return returned


def call_returns_the_failure(function, arguments):
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        return ToolFailure("invalid_arguments", str(error))
    return function(**arguments)


def call_ignores_defaults_given(function, arguments):
    known = inspect.signature(function).parameters
    needed = {name: value for name, value in arguments.items() if known.get(name, known) and name != "limit"}
    return call_bound(function, needed)


# --- 03-c ---


def suggest_by_distance(name, tools):
    def distance(one, other):
        row = list(range(len(other) + 1))
        for i, a in enumerate(one, 1):
            before, row[0] = row[0], i
            for j, b in enumerate(other, 1):
                before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
        return row[-1]

    nearest = min(tools, key=lambda known: (distance(name, known), known))
    return f"{name} is no tool. The nearest is {nearest}."


def suggest_few(name, tools):
    ratio = {known: difflib.SequenceMatcher(None, name, known).ratio() for known in tools}
    best = sorted(ratio, key=ratio.get, reverse=True)[:3]
    return "Unknown tool '" + name + "'. Try one of: " + ", ".join(f"`{one}`" for one in best) + "."


def suggest_bare(name, tools):
    matches = difflib.get_close_matches(name, list(tools), n=3, cutoff=0)
    return matches[0]


def suggest_prefix(name, tools):
    near = [known for known in tools if known.startswith(name[:4])]
    return f"No {name}. Near: {', '.join(near)[:100]}"


def suggest_nothing_far(name, tools):
    near = difflib.get_close_matches(name, tools)
    return f"There is no tool {name}. Did you mean {near[0]}?" if near else f"There is no tool {name}."


def suggest_a_list(name, tools):
    return difflib.get_close_matches(name, tools, n=3) or list(tools)[:3]


def suggest_raises(name, tools):
    raise ToolFailure("unknown_tool", f"There is no tool {name}. Did you mean lookup_incident?")


def suggest_runs_and_says(name, tools):
    near = difflib.get_close_matches(name, tools, n=1, cutoff=0)[0]
    return f"There is no {name}, so {near} ran: {tools[near]()}"


def suggest_the_first(name, tools):
    return f"There is no tool {name}. Try {next(iter(tools))}."


RIGHT = {
    "03-a": [TryRegistry, DictRegistry, ListRegistry],
    "03-b": [call_bound, call_by_sets, call_by_flag],
    "03-c": [suggest_by_distance, suggest_few, suggest_bare],
}

WRONG = {
    "03-a": [
        (ClassDictRegistry, "mistake.shared"),
        (GlobalsRegistry, "case.builtin"),
        (LastRegistry, "case.finds_each"),
        (AsksAfterwards, "case.twice"),
        (CallsIt, "case.finds"),
        (ReturnsFailure, "case.unknown"),
    ],
    "03-b": [
        (call_only_missing, "mistake.escapes"),
        (call_drops_extra, "case.extra"),
        (call_both_in_the_try, "mistake.catches_round"),
        (call_catches_all, "mistake.catches_round"),
        (call_wants_text, "case.wrong_type"),
        (call_runs_then_binds, "mistake.escapes"),
        (call_returns_the_failure, "case.missing"),
        (call_ignores_defaults_given, "case.default_given"),
    ],
    "03-c": [
        (suggest_prefix, "mistake.offers_none"),
        (suggest_nothing_far, "case.far"),
        (suggest_a_list, "case.plural"),
        (suggest_raises, "case.plural"),
        (suggest_runs_and_says, "mistake.runs"),
        (suggest_the_first, "case.longer"),
    ],
}
