"""The judge of plain JSON Schema (draft 2020-12), through the jsonschema package.

Its keywords are chosen so that no argument can make judging slow: each looks at an argument once,
patterns run on pydantic's linear engine, and a reference is followed once for each value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any

from pydantic_core import SchemaError, SchemaValidator, core_schema

from .judges import MAX_PROBLEMS, Mismatch, Problem, copied

_MAX_FLOAT = int(1.7976931348623157e308)
_DATA = ("const", "enum", "default", "examples", "dependentRequired")  # keywords that hold values and no schemas
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")  # hold names, then schemas
_ONE = ("items", "contains", "propertyNames", "not", "if", "then", "else")  # hold one schema each


class SchemaJudge:
    """Judges arguments by a JSON Schema, and gives a copy of them: a body may change what it gets.

    Made from a schema that is unusable it raises ValueError: not a valid schema, a reference that
    leads out of it or nowhere, a pattern that pydantic's linear engine cannot run. `formats` says
    whether `format` is judged for dates, times and UUIDs, where the draft takes it for a remark.
    """

    def __init__(self, schema: dict[str, Any], *, formats: bool = False):
        self.schema = _plain_copy(schema)  # what is shown; what judges is a copy of its own
        self._validator = _compile(self.schema, formats)

    def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.check(arguments)
        return copied(arguments)

    def check(self, arguments: dict[str, Any]) -> None:
        """Raise Mismatch unless the arguments are what the schema asks for."""
        _judgement.set(_Judgement())
        try:
            problems = list(islice(map(_problem, self._validator.iter_errors(arguments)), MAX_PROBLEMS))
        except (_Endless, RecursionError):
            problems = [Problem((), "depth", detail="nested too deeply to be judged")]
        if problems:
            raise Mismatch(problems)


# Keywords that validation.py has words for; for the others a sentence of the judge's is passed on.
_OUR_WORDS = {
    *("required", "additionalProperties", "type", "enum", "const", "pattern", "minLength", "maxLength", "format"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems", "uniqueItems"),
    *("multipleOf", "anyOf", "oneOf", "propertyNames"),
}


def _problem(error: Any) -> Problem:
    detail = error.message if error.validator not in _OUR_WORDS and len(error.message) <= 200 else ""
    return Problem(tuple(error.absolute_path), error.validator, error.instance, detail)


def _plain_copy(schema: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(schema, allow_nan=False, ensure_ascii=False)
    text.encode()  # a half character would make every request that shows this schema unsendable
    return _without_dialect(json.loads(text))


def _compile(schema: dict[str, Any], formats: bool) -> Any:
    """A jsonschema validator for a schema whose every reference and pattern has been tried."""
    from jsonschema import exceptions
    from referencing import Registry

    validator_class = _validator_class()
    try:
        validator_class.check_schema(schema, format_checker=None)
    except exceptions.SchemaError as error:
        where = "/".join(map(str, error.absolute_path)) or "its top"
        raise ValueError(f"the schema is not valid JSON Schema 2020-12, at {where}: {error.message[:200]}") from None
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise ValueError("a tool's arguments are an object, so its schema must say type: object")
    schema = _without_false(copied(schema))
    nodes = list(_nodes(schema))
    validator = validator_class(schema, registry=Registry(), format_checker=_format_checker() if formats else None)
    known = {id(node) for node in nodes}
    for node in nodes:
        if node is not schema and isinstance(node.get("$id"), str):
            raise ValueError("an $id inside the schema would move its references elsewhere")
        _try_node(node, validator, known)
    return validator


def _parts(node: dict[str, Any]) -> Iterator[tuple[Any, Any, Any]]:
    """The places in a schema where another schema may stand: (the holder, its key, what stands there)."""
    for key, value in node.items():
        if key in _NAMED and isinstance(value, dict):
            yield from ((value, name, part) for name, part in value.items())
        elif isinstance(value, list) and key not in _DATA:
            yield from ((value, at, part) for at, part in enumerate(value))
        elif key not in _DATA:
            yield node, key, value


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every object in a schema that is, or may be, a schema itself."""
    yield node
    for _, _, part in _parts(node):
        if isinstance(part, dict):
            yield from _nodes(part)


def _without_dialect(node: Any) -> Any:
    """The schema without `$schema`: a part of it that names another draft would bring that draft's judge."""
    if isinstance(node, dict):
        for one in list(_nodes(node)):
            if isinstance(one.get("$schema"), str):
                del one["$schema"]
    return node


def _without_false(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with `false` as an object: jsonschema would quote the whole argument at each of them."""
    for node in list(_nodes(schema)):
        for holder, key, part in list(_parts(node)):
            if part is False and (holder is not node or key in _ONE):
                holder[key] = {"not": {}}
    return schema


def _try_node(node: dict[str, Any], validator: Any, known: set[int]) -> None:
    """Raise ValueError if this part of the schema could not be judged, or not in linear time."""
    for key in ("$ref", "$dynamicRef"):
        if isinstance(node.get(key), str):
            _try_reference(node[key], validator, known)
    patterns = [node["pattern"]] if isinstance(node.get("pattern"), str) else []
    if isinstance(node.get("patternProperties"), dict):
        patterns += node["patternProperties"]
    for pattern in patterns:
        try:
            _matcher(pattern)
        except SchemaError as error:
            raise ValueError(f"the pattern {pattern!r} cannot be run in linear time: {error}") from None
    for key in ("unevaluatedProperties", "unevaluatedItems"):
        if key in node:
            raise ValueError(f"{key} cannot be judged in linear time; say additionalProperties or items")


def _try_reference(reference: str, validator: Any, known: set[int]) -> None:
    from referencing.exceptions import Unresolvable

    try:
        target = validator._resolver.lookup(reference).contents if reference.startswith("#") else None
    except Unresolvable:
        target = None
    if not (isinstance(target, bool) or id(target) in known):
        raise ValueError(f"the reference {reference!r} leads to no schema inside this schema")
    try:
        validator.check_schema(target, format_checker=None)
    except Exception as error:  # jsonschema's SchemaError: under an unknown keyword anything may stand
        raise ValueError(f"the reference {reference!r} leads to something that is no schema: {error}") from None


@dataclass(slots=True)
class _Judgement:
    """What one judgement remembers, by the identity of values that live as long as it does."""

    fits: dict[tuple[str, int], bool | None] = field(default_factory=dict)  # None: being judged right now
    numbers: dict[str, int] = field(default_factory=dict)  # each text that was seen, counted
    short: dict[int, str] = field(default_factory=dict)  # what stands for a long value


_judgement: ContextVar[_Judgement] = ContextVar("_judgement")


class _Endless(Exception):
    """A reference leads back to itself for the same value."""


@lru_cache(maxsize=1)
def _validator_class() -> type:
    """jsonschema's validator for draft 2020-12, with every keyword in time linear in the argument."""
    from jsonschema import Draft202012Validator, validators

    checker = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    builtin = Draft202012Validator.VALIDATORS
    keywords = {
        **{name: _simple(fails, says) for name, (fails, says) in _SIMPLE.items()},
        **{name: _followed_once(builtin[name]) for name in ("$ref", "$dynamicRef")},
        "type": _type,
        "enum": _enum(builtin["const"]),
        "anyOf": _any_of,
        "oneOf": _one_of,
        "not": _not,
        "contains": _contains,
        "required": _required,
        "propertyNames": _property_names,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    }
    return validators.extend(Draft202012Validator, keywords, type_checker=checker)


def _error(message: str, **details: Any) -> Any:
    from jsonschema.exceptions import ValidationError

    return ValidationError(message, **details)


def _simple(fails: Callable[[Any, Any], bool], says: str) -> Callable:
    """A keyword that only looks at the value. jsonschema's own would quote the value, however long."""

    def keyword(validator, wanted, instance, schema):
        if fails(wanted, instance):
            yield _error(says.format(wanted))

    return keyword


def _no_multiple(of: int | float, value: Any) -> bool:
    """As pydantic has it, so that 0.3 is a multiple of 0.1."""
    if type(value) is int and of == int(of):
        return value % int(of) != 0
    if type(value) not in (int, float):
        return False
    return abs(value) > _MAX_FLOAT or not _multiples(float(of)).isinstance_python(float(value))


@lru_cache(maxsize=256)
def _multiples(of: float) -> SchemaValidator:
    return SchemaValidator(core_schema.float_schema(multiple_of=of))


@lru_cache(maxsize=4096)
def _matcher(pattern: str) -> Callable[[str], bool]:
    """Search for a pattern with the engine that pydantic uses: linear, and `$` is the end and no newline."""
    return SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python


_SIMPLE: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "pattern": (lambda pattern, value: isinstance(value, str) and not _matcher(pattern)(value), ""),
    "minLength": (lambda least, value: isinstance(value, str) and len(value) < least, ""),
    "maxLength": (lambda most, value: isinstance(value, str) and len(value) > most, ""),
    "minItems": (lambda least, value: isinstance(value, list) and len(value) < least, ""),
    "maxItems": (lambda most, value: isinstance(value, list) and len(value) > most, ""),
    "minProperties": (lambda least, value: isinstance(value, dict) and len(value) < least, "fewer than {} names"),
    "maxProperties": (lambda most, value: isinstance(value, dict) and len(value) > most, "more than {} names"),
    "multipleOf": (_no_multiple, ""),
    "uniqueItems": (
        lambda wanted, value: wanted and isinstance(value, list) and len(set(map(_text, value))) < len(value),
        "",
    ),
}


def _type(validator, types, instance, schema):
    types = [types] if isinstance(types, str) else types
    if not any(validator.is_type(instance, one) for one in types):
        yield _error("")
    elif type(instance) is int and "integer" not in types and abs(instance) > _MAX_FLOAT:
        yield _error("")  # a number that no double can hold: pydantic's float says no too


def _enum(const: Callable) -> Callable:
    def keyword(validator, values, instance, schema):
        if all(any(const(validator, one, instance, schema)) for one in values):
            yield _error("")

    return keyword


def _fits(validator: Any, subschema: Any, instance: Any) -> bool:
    return next(iter(validator.descend(instance, subschema)), None) is None


def _any_of(validator, several, instance, schema):
    if not any(_fits(validator, one, instance) for one in several):
        yield _error("")


def _one_of(validator, several, instance, schema):
    if len(list(islice((one for one in several if _fits(validator, one, instance)), 2))) != 1:
        yield _error("")


def _not(validator, subschema, instance, schema):
    if _fits(validator, subschema, instance):
        yield _error("not allowed")


def _contains(validator, subschema, instance, schema):
    if isinstance(instance, list):
        count = sum(_fits(validator, subschema, item) for item in instance)
        if not schema.get("minContains", 1) <= count <= schema.get("maxContains", count):
            yield _error("too few or too many of its items are what is asked for")


def _required(validator, names, instance, schema):
    if isinstance(instance, dict):
        yield from (_error("is missing", path=(name,)) for name in names if name not in instance)


def _property_names(validator, subschema, instance, schema):
    if isinstance(instance, dict):
        for key, value in instance.items():
            if not _fits(validator, subschema, key):
                yield _error("no such name", path=(key,), instance=value)


def _pattern_properties(validator, patterns, instance, schema):
    if isinstance(instance, dict):
        for pattern, subschema in patterns.items():
            matches = _matcher(pattern)
            for key, value in instance.items():
                if matches(key):
                    yield from validator.descend(value, subschema, path=key, schema_path=pattern)


def _additional_properties(validator, subschema, instance, schema):
    if not isinstance(instance, dict):
        return
    known = schema.get("properties", {})
    patterns = [_matcher(pattern) for pattern in schema.get("patternProperties", {})]
    for key, value in instance.items():
        if key in known or any(matches(key) for matches in patterns):
            continue
        if subschema is False:
            yield _error("no such property", path=(key,), instance=value)
        else:
            yield from validator.descend(value, subschema, path=key)


def _followed_once(keyword: Callable) -> Callable:
    """A reference, judged once for each value.

    References are the only way in which a schema can ask for more work than its own size: two
    alternatives that both lead back double the work with each level. No other base can be in
    force at a second visit, for a schema has no `$id` inside.
    """

    def follow(validator, reference, instance, schema):
        fits, seen = _judgement.get().fits, (reference, id(instance))
        if seen in fits:
            if fits[seen] is None:
                raise _Endless
            if fits[seen] is False:
                yield _error("not what is asked for")
            return
        fits[seen] = None
        for error in keyword(validator, reference, instance, schema) or ():
            fits[seen] = False
            yield error
        if fits[seen] is None:
            fits[seen] = True

    return follow


def _text(value: Any) -> str:
    """A JSON value as text, equal for equal values: 1 and 1.0 are, 1 and true are not.

    Text and no hash of numbers: a model can find as many integers with one hash as it likes. What is
    long stands as a number of its own, so that lists within lists are written out once.
    """
    if type(value) is float and value.is_integer():
        value = int(value)
    if not isinstance(value, list | dict | str) or (isinstance(value, str) and len(value) <= 64):
        return json.dumps(value)
    judgement = _judgement.get()
    if id(value) not in judgement.short:
        number = judgement.numbers.setdefault(_long_text(value), len(judgement.numbers))
        judgement.short[id(value)] = f"#{number}"
    return judgement.short[id(value)]


def _long_text(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{_text(key)}:{_text(value[key])}" for key in sorted(value)) + "}"
    return json.dumps(value)


# The forms that JSON Schema's formats have; pydantic alone would take "1704067200" for a date too.
_FORMATS = {
    "date": r"^\d{4}-\d{2}-\d{2}\Z",
    "date-time": r"^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}",
    "time": r"^\d{2}:\d{2}",
    "duration": r"^[+-]?P",
    "uuid": r"^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\Z",
}


@lru_cache(maxsize=1)
def _format_checker() -> Any:
    """Looks at the form of dates, times and UUIDs, and then asks pydantic whether there is such a one."""
    from jsonschema import FormatChecker

    kinds = {
        "date": core_schema.date_schema(),
        "date-time": core_schema.datetime_schema(),
        "time": core_schema.time_schema(),
        "duration": core_schema.timedelta_schema(),
        "uuid": core_schema.uuid_schema(),
    }
    checker = FormatChecker(formats=())
    for name, kind in kinds.items():
        checker.checks(name)(_in_form(re.compile(_FORMATS[name], re.ASCII), SchemaValidator(kind)))
    return checker


def _in_form(form: re.Pattern, judge: SchemaValidator) -> Callable[[Any], bool]:
    def holds(value: Any) -> bool:
        return not isinstance(value, str) or (form.match(value) is not None and judge.isinstance_python(value))

    return holds
