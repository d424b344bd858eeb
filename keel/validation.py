"""Are the arguments what the contract asks for? Strict, with nothing turned into something else."""

from __future__ import annotations

import json
from typing import Any

from .adapters import check_json, kind_of, printable, quoted
from .contracts import ErrorCode, ToolFailure
from .judges import MAX_PROBLEMS, Mismatch, Problem
from .registry import Tool

_QUOTE = 60  # characters of the model's own input that a message repeats
_PATH = 200  # characters of a path, whose keys are the model's own too
_DETAIL = 200  # characters of what a type of the tool's own says


def validate(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments as the tool's body takes them, defaults filled in.

    Raises ToolFailure `invalid_arguments` whose message says what is wrong, where, and what would
    do; `internal_error` if a type of the tool's own broke while judging.
    """
    check_json(arguments)
    try:
        return tool.judge(arguments)
    except Mismatch as mismatch:
        raise ToolFailure(ErrorCode.INVALID_ARGUMENTS, explain(tool.input_schema, mismatch.problems)) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ToolFailure(ErrorCode.INTERNAL_ERROR, f"The contract of {tool.name} could not be judged.") from error


def explain(schema: dict[str, Any], problems: list[Problem]) -> str:
    """One sentence or two for each problem, written for the model that has to mend it."""
    sentences = [_sentence(schema, problem) for problem in problems[:MAX_PROBLEMS]]
    return " ".join(dict.fromkeys(sentences))


def _sentence(schema: dict[str, Any], problem: Problem) -> str:
    where = _where(problem.path)
    parent = _part(schema, problem.path[:-1])
    if problem.kind == "additionalProperties":
        return f"{where}: no such argument. {_names(parent, str(problem.path[-1]))}"
    wanted = describe(_part(schema, problem.path))
    do = f" Give {wanted}." if wanted else ""
    if problem.kind == "depth":
        return f"{where}: {problem.detail}. Send something flatter."
    if problem.kind == "propertyNames":
        return f"{where}: no such name here. {_names_wanted(schema, parent)}"
    if problem.kind == "required":
        return f"{where}: is missing.{do}"
    if problem.kind == "type":
        return f"{where}: got {kind_of(problem.value)}{_shown(problem.value)}.{do}"
    why = problem.detail or ("" if wanted else problem.kind)
    because = f": {printable(why)[:_DETAIL]}" if why else ""
    return f"{where}: {_short(problem.value)} will not do{because}.{do}"


def _names_wanted(schema: dict[str, Any], parent: dict[str, Any]) -> str:
    wanted = describe({"type": "string", **_followed(schema, parent.get("propertyNames"))})
    return f"A name is {wanted}."


def _where(path: tuple[str | int, ...]) -> str:
    """A path as a program writes it: `items[3].name`; `arguments` for the whole."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            step = printable(step)
            text += ("." if text else "") + (step if len(step) <= _QUOTE else step[:_QUOTE] + "…")
    return (text if len(text) <= _PATH else f"{text[: _PATH // 2]} … {text[-_PATH // 2 :]}") or "arguments"


def _part(schema: Any, path: tuple[str | int, ...]) -> dict[str, Any]:
    """The part of a schema that judges what stands at path; {} where that cannot be told."""
    part = schema
    for step in path:
        part = _followed(schema, part)
        if isinstance(step, int):
            first = part.get("prefixItems", [])
            part = first[step] if step < len(first) else part.get("items")
        else:
            part = part.get("properties", {}).get(step, part.get("additionalProperties"))
    return _followed(schema, part)


def _followed(schema: dict[str, Any], part: Any) -> dict[str, Any]:
    """The part behind a reference to this schema's own definitions."""
    for _ in range(8):
        reference = part.get("$ref") if isinstance(part, dict) else None
        if not isinstance(reference, str):
            break
        part = schema
        for step in reference.removeprefix("#").strip("/").split("/"):
            part = part.get(step, {}) if isinstance(part, dict) else {}
    return part if isinstance(part, dict) else {}


def _names(part: dict[str, Any], asked: str) -> str:
    from difflib import get_close_matches

    known = list(part.get("properties", {}))
    if not known:
        return "Leave it out: nothing goes there."
    near = get_close_matches(asked[:_QUOTE], known, n=1)
    hint = f"Did you mean {near[0]}? " if near else ""
    return f"{hint}The names are: {', '.join(known[:20])}{', …' if len(known) > 20 else ''}."


def describe(part: dict[str, Any]) -> str:
    """What a part of a schema asks for, in words: "a string that matches ^INC-[0-9]{3}$"."""
    if "const" in part:
        return f"exactly {_short(part['const'])}"
    if "enum" in part:
        return "one of " + ", ".join(map(_short, part["enum"][:12])) + (", …" if len(part["enum"]) > 12 else "")
    for word in ("anyOf", "oneOf"):
        if word in part:
            return " or ".join(filter(None, (describe(one) for one in part[word] if isinstance(one, dict))))
    if "type" not in part:
        limits = _limits(part)
        return f"a value{limits}" if limits else ""
    kinds = [part["type"]] if isinstance(part["type"], str) else part["type"]
    return " or ".join(_KINDS.get(kind, kind) for kind in kinds) + _limits(part)


_KINDS = {
    "string": "a string", "integer": "an integer (no quotes, no fraction)", "number": "a number", "null": "null",
    "boolean": "true or false", "array": "a list", "object": "an object",
}  # fmt: skip

_LIMITS = {
    "pattern": "that matches {}", "format": "in the form of a {}",
    "minLength": "of at least {} characters", "maxLength": "of at most {} characters",
    "minItems": "of at least {} items", "maxItems": "of at most {} items",
    "minimum": "of at least {}", "maximum": "of at most {}",
    "exclusiveMinimum": "above {}", "exclusiveMaximum": "below {}",
    "multipleOf": "that is a multiple of {}",
}  # fmt: skip


def _limits(part: dict[str, Any]) -> str:
    limits = [words.format(part[key]) for key, words in _LIMITS.items() if key in part]
    if part.get("uniqueItems") is True:
        limits.append("without repetition")
    return (" " + ", ".join(limits)) if limits else ""


def _short(value: Any) -> str:
    """A value of the model's own, as JSON, cut: a message must not carry a megabyte back."""
    if isinstance(value, str):
        return quoted(value, _QUOTE)
    if isinstance(value, dict | list):
        return f"this {kind_of(value).split()[-1]}"
    text = json.dumps(value)
    return text if len(text) <= _QUOTE else text[:_QUOTE] + "…"


def _shown(value: Any) -> str:
    return "" if value is None or isinstance(value, dict | list) else f" ({_short(value)})"
