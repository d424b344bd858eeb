"""Compiles a contract into a judge: a function that takes arguments and returns them, or says no.

There are two judges. One comes from a function's signature, through pydantic. The other reads
plain JSON Schema (draft 2020-12). Where the schema that is shown can say less or more than
pydantic's Python types do (dates, enums, tuples), both must agree: what is shown is what is enforced.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic_core import SchemaError, SchemaValidator, core_schema, to_json

from .contracts import ExecutionContext

MAX_PROBLEMS = 5
_REF_BUDGET = 20_000  # followed references per judgement: a schema can ask for exponentially many

# Core types on which pydantic's strict Python mode and the JSON Schema it shows say the same.
# What holds the schema of a collection's items; without it they may be anything.
_ITEMS = {
    **dict.fromkeys(("list", "set", "frozenset", "generator"), "items_schema"),
    "dict": "values_schema",
    "tuple": "items_schema",
}
# Keys of a core schema under which no other core schema stands.
_NO_SCHEMAS = ("metadata", "config", "default", "cls", "expected", "serialization")
_PLAIN = {
    *("str", "int", "float", "bool", "none", "any", "list", "dict", "nullable", "union", "literal"),
    *("model", "model-fields", "model-field", "default", "definitions", "definition-ref"),
}


@dataclass(frozen=True)
class Problem:
    """One thing wrong with the arguments: `path` leads to it, `kind` is a JSON Schema keyword."""

    path: tuple[str | int, ...]
    kind: str
    value: Any = None  # what stood there
    detail: str = ""  # what pydantic or jsonschema said, for kinds that we have no words for


class Mismatch(Exception):
    """Raised by a judge: the arguments are not what the contract asks for. Holds the problems."""

    def __init__(self, problems: list[Problem]):
        self.problems = problems
        super().__init__(f"{len(problems)} problem(s)")


Judge = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Signature:
    """What a function's signature comes to: the schema to show, the judge, the context's parameter."""

    input_schema: dict[str, Any]
    judge: Judge
    context_parameter: str | None
    output: Output


def read_signature(function: Callable) -> Signature:
    """Compile a function's parameters. Raises TypeError or ValueError that say which one cannot be judged."""
    signature = inspect.signature(function, eval_str=True)
    context_parameter, fields = None, {}
    for parameter in signature.parameters.values():
        if parameter.annotation in (ExecutionContext, ExecutionContext | None):
            context_parameter = parameter.name
        else:
            fields[parameter.name] = _field(parameter)
    config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())
    model = create_model("Arguments", __config__=config, **{_field_name(name): field for name, field in fields.items()})
    shown = model.model_json_schema(schema_generator=_untitled())
    shown.pop("title", None)
    judge = _SignatureJudge(model, list(fields), shown)
    promised = Any if signature.return_annotation is inspect.Signature.empty else signature.return_annotation
    return Signature(shown, judge, context_parameter, Output(promised))


@lru_cache(maxsize=1)
def _untitled() -> type:
    """pydantic's schema writer without the titles that it makes from names: they tell a model nothing new."""
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        def field_title_should_be_set(self, schema) -> bool:
            return False

    return Untitled


def _field(parameter: inspect.Parameter) -> tuple[Any, Any]:
    """A parameter as pydantic's create_model wants it, under its own name as the alias."""
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise TypeError(f"parameter {parameter.name!r}: a tool's arguments are named, each by itself")
    if parameter.annotation is parameter.empty:
        raise TypeError(f"parameter {parameter.name!r} has no type, so nothing could judge it")
    default = ... if parameter.default is parameter.empty else parameter.default
    return parameter.annotation, Field(default, alias=parameter.name)


def _field_name(parameter: str) -> str:
    """A name that a model's field may have: `schema` and `copy` are methods, `_x` would be private."""
    taken = parameter.startswith(("_", "model_", "p_")) or hasattr(BaseModel, parameter)
    return f"p_{parameter}" if taken else parameter


class _SignatureJudge:
    """Judges arguments for a Python function: strict, nothing extra, nothing turned into something else."""

    def __init__(self, model: type[BaseModel], names: list[str], shown: dict[str, Any]):
        core = model.__pydantic_core_schema__
        self._validate = SchemaValidator(_tame(core))
        self._validate_python = self._validate.validate_python
        self._names = frozenset(names)
        self._renamed = [(name, _field_name(name)) for name in names if name != _field_name(name)]
        # Beyond plain types the shown schema has the first word, and pydantic reads it as JSON.
        self._shown = None if all(map(_is_plain, _parts(core))) else SchemaJudge(shown)

    def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if len(arguments) > len(self._names):  # many extra keys would make many error records
            self._refuse_extra(arguments)
        try:
            if self._shown is None:
                values = self._validate_python(arguments, strict=True).__dict__
            else:
                self._shown(arguments)
                values = self._validate.validate_json(to_json(arguments), strict=True).__dict__
        except ValidationError as error:
            raise Mismatch(_from_pydantic(error)) from None
        for name, field in self._renamed:
            values[name] = values.pop(field)
        return values

    def _refuse_extra(self, arguments: dict[str, Any]) -> None:
        extra = list(islice((key for key in arguments if key not in self._names), MAX_PROBLEMS))
        raise Mismatch([Problem((key,), "additionalProperties", arguments[key]) for key in extra])


def _tame(node: Any) -> Any:
    """A core schema that stops at a collection's first wrong item, and looks into instances of models.

    Without the stop a long list of wrong items costs an error record each; without the look an
    instance that was changed after it was made would pass unseen.
    """
    if isinstance(node, list | tuple):
        return type(node)(map(_tame, node))
    if not isinstance(node, dict):
        return node
    tamed = {key: value if key in _NO_SCHEMAS else _tame(value) for key, value in node.items()}
    if node.get("type") in ("list", "tuple", "set", "frozenset", "dict"):
        tamed["fail_fast"] = True
    elif node.get("type") == "model":
        tamed["revalidate_instances"] = "always"
    return tamed


def _parts(node: Any) -> Iterator[dict[str, Any]]:
    """A core schema and every core schema within it."""
    if isinstance(node, dict) and isinstance(node.get("type"), str):
        yield node
    if isinstance(node, list | tuple):
        for item in node:
            yield from _parts(item)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key not in _NO_SCHEMAS:
                yield from _parts(value)


def _is_plain(part: dict[str, Any]) -> bool:
    if part["type"] == "literal":
        return all(type(one) is str for one in part["expected"])
    return part["type"] in _PLAIN


def _is_open(part: dict[str, Any]) -> bool:
    """Whether this core schema lets any object through."""
    kind = part["type"]
    if kind in ("any", "object", "is-instance") or (kind in _ITEMS and _ITEMS[kind] not in part):
        return True
    return (part.get("config") or {}).get("extra_fields_behavior") == "allow"


class Output:
    """What a return annotation promises: `validate` looks at the value, `dump` turns it into JSON.

    `open` says that the annotation promises nothing, or leaves a part of the value open.
    """

    def __init__(self, promised: Any):
        adapter = TypeAdapter(promised)
        parts = list(_parts(adapter.core_schema))
        self.open = any(map(_is_open, parts))
        self._serializer = adapter.serializer
        # A model with aliases or validators of its own cannot be validated again from its own values.
        # There the serializer's warnings must do, which cost more.
        again = all(map(_is_plain, parts)) and not any("validation_alias" in part for part in parts)
        self._warnings = False if again else "error"
        self.validate = (SchemaValidator(_tame(adapter.core_schema)) if again else adapter.validator).validate_python

    def dump(self, value: Any, mode: str = "json") -> Any:
        """The value with its models and dates written out. Raises if it is not what was promised."""
        return self._serializer.to_python(value, mode=mode, warnings=self._warnings)


_FROM_PYDANTIC = {
    "missing": "required",
    "extra_forbidden": "additionalProperties",
    "string_pattern_mismatch": "pattern",
    "string_too_short": "minLength",
    "string_too_long": "maxLength",
    "too_short": "minItems",
    "too_long": "maxItems",
    "literal_error": "enum",
    "enum": "enum",
    "greater_than": "exclusiveMinimum",
    "greater_than_equal": "minimum",
    "less_than": "exclusiveMaximum",
    "less_than_equal": "maximum",
    "multiple_of": "multipleOf",
}


def _from_pydantic(error: ValidationError) -> list[Problem]:
    records = error.errors(include_url=False, include_context=False)
    return [
        Problem(
            path=tuple(record["loc"]),
            kind=_FROM_PYDANTIC.get(record["type"], "type" if record["type"].endswith("_type") else record["type"]),
            value=record["input"],
            detail=record["msg"],
        )
        for record in records[:MAX_PROBLEMS]
    ]


class SchemaJudge:
    """Judges arguments by a JSON Schema, draft 2020-12, through the jsonschema package.

    Made from a schema that is unusable it raises ValueError: not a valid schema, a reference that
    leads out of it or nowhere, a pattern that pydantic's linear engine cannot run.
    """

    def __init__(self, schema: dict[str, Any]):
        self._validator = _compile(schema)
        self.schema = self._validator.schema  # a copy of what was given, and what is shown

    def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        _refs_left.set(_REF_BUDGET)
        try:
            problems = list(islice(map(_from_jsonschema, self._validator.iter_errors(arguments)), MAX_PROBLEMS))
        except (_TooCostly, RecursionError):
            problems = [Problem((), "depth", detail="nested too deeply to be judged")]
        if problems:
            raise Mismatch(problems)
        return arguments


# Keywords that validation.py has words for; for the others jsonschema's own sentence is passed on.
_OUR_WORDS = {
    *("required", "additionalProperties", "type", "enum", "const", "pattern", "minLength", "maxLength"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems", "uniqueItems"),
}


def _from_jsonschema(error: Any) -> Problem:
    kind = "not allowed" if error.validator is None else error.validator  # None: the schema `false`
    detail = error.message if kind not in _OUR_WORDS and len(error.message) <= 200 else ""
    return Problem(tuple(error.absolute_path), kind, error.instance, detail)


def _compile(schema: dict[str, Any]) -> Any:
    """A jsonschema validator for a schema whose every reference and pattern has been tried."""
    from jsonschema import exceptions
    from referencing import Registry

    schema = _without_dialect(json.loads(json.dumps(schema, allow_nan=False)))
    validator_class = _validator_class()
    try:
        validator_class.check_schema(schema, format_checker=None)
    except exceptions.SchemaError as error:
        where = "/".join(map(str, error.absolute_path)) or "its top"
        raise ValueError(f"the schema is not valid JSON Schema 2020-12, at {where}: {error.message[:200]}") from None
    if schema.get("type", "object") != "object":
        raise ValueError("a tool's arguments are an object, so its schema must say type: object")
    validator = validator_class(schema, registry=Registry())
    for node in _nodes(schema, top=True):
        _try_node(node, validator)
    return validator


def _without_dialect(node: Any) -> Any:
    """The schema without `$schema`: a part of it that names another draft would bring that draft's judge."""
    if isinstance(node, list):
        return [_without_dialect(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {key: value for key, value in node.items() if not (key == "$schema" and isinstance(value, str))}
    return {key: value if key in _DATA else _without_dialect(value) for key, value in kept.items()}


_DATA = ("const", "enum", "default", "examples")  # keywords that hold values and no schemas


def _nodes(node: Any, top: bool = False) -> Iterator[dict[str, Any]]:
    """Every object in a schema that may be a schema itself."""
    if isinstance(node, dict):
        if not top and isinstance(node.get("$id"), str):
            raise ValueError("an $id inside the schema would move its references elsewhere")
        yield node
    if isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            if key not in _DATA:
                yield from _nodes(value)


def _try_node(node: dict[str, Any], validator: Any) -> None:
    """Raise ValueError if this part of the schema could not be judged, or not in linear time."""
    for key in ("$ref", "$dynamicRef"):
        reference = node.get(key)
        if isinstance(reference, str):
            _try_reference(reference, validator)
    patterns = [node["pattern"]] if isinstance(node.get("pattern"), str) else []
    if isinstance(node.get("patternProperties"), dict):
        patterns += node["patternProperties"]
    for pattern in patterns:
        try:
            _matcher(pattern)
        except SchemaError as error:
            raise ValueError(f"the pattern {pattern!r} cannot be run in linear time: {error}") from None
    for key in ("unevaluatedProperties", "unevaluatedItems"):
        if key in node and isinstance(node[key], dict | bool):
            raise ValueError(f"{key} cannot be judged in linear time; say additionalProperties or items")


def _try_reference(reference: str, validator: Any) -> None:
    from referencing.exceptions import Unresolvable

    try:
        if not reference.startswith("#"):
            raise ValueError
        target = validator._resolver.lookup(reference).contents
        if not isinstance(target, dict | bool):
            raise ValueError
        validator.check_schema(target, format_checker=None)
    except (Unresolvable, ValueError):
        raise ValueError(f"the reference {reference!r} leads to no schema inside this schema") from None
    except Exception as error:  # jsonschema's SchemaError: the target is no schema
        raise ValueError(f"the reference {reference!r} leads to something that is no schema: {error}") from None


_refs_left: ContextVar[int] = ContextVar("_refs_left")


class _TooCostly(Exception):
    """A judgement followed more references than any honest argument needs."""


@lru_cache(maxsize=1)
def _validator_class() -> type:
    """jsonschema's validator for draft 2020-12, with every keyword in time linear in the argument."""
    from jsonschema import Draft202012Validator, validators

    checker = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    keywords = {
        "$ref": _counted(Draft202012Validator.VALIDATORS["$ref"]),
        "$dynamicRef": _counted(Draft202012Validator.VALIDATORS["$dynamicRef"]),
        "additionalProperties": _additional_properties,
        "pattern": _pattern,
        "required": _required,
        "patternProperties": _pattern_properties,
        "uniqueItems": _unique_items,
    }
    return validators.extend(Draft202012Validator, keywords, type_checker=checker)


def _counted(keyword: Callable) -> Callable:
    """A reference is the only way in which a schema can ask for more than its own size in work."""

    def follow(validator, reference, instance, schema):
        left = _refs_left.get()
        if left == 0:
            raise _TooCostly
        _refs_left.set(left - 1)
        yield from keyword(validator, reference, instance, schema)

    return follow


@lru_cache(maxsize=4096)
def _matcher(pattern: str) -> Callable[[str], bool]:
    """Search for a pattern with the engine that pydantic uses: linear, and `$` is the end and no newline."""
    return SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python


def _pattern(validator, pattern, instance, schema):
    from jsonschema.exceptions import ValidationError as Error

    if isinstance(instance, str) and not _matcher(pattern)(instance):
        yield Error("does not match")


def _required(validator, names, instance, schema):
    from jsonschema.exceptions import ValidationError as Error

    if isinstance(instance, dict):
        yield from (Error("is missing", path=(name,)) for name in names if name not in instance)


def _pattern_properties(validator, patterns, instance, schema):
    if isinstance(instance, dict):
        for pattern, subschema in patterns.items():
            matches = _matcher(pattern)
            for key, value in instance.items():
                if matches(key):
                    yield from validator.descend(value, subschema, path=key, schema_path=pattern)


def _additional_properties(validator, subschema, instance, schema):
    from jsonschema.exceptions import ValidationError as Error

    if not isinstance(instance, dict):
        return
    known = schema.get("properties", {})
    patterns = [_matcher(pattern) for pattern in schema.get("patternProperties", {})]
    for key, value in instance.items():
        if key in known or any(matches(key) for matches in patterns):
            continue
        if subschema is False:
            yield Error("no such property", path=(key,), instance=value)
        else:
            yield from validator.descend(value, subschema, path=key)


def _unique_items(validator, wanted, instance, schema):
    from jsonschema.exceptions import ValidationError as Error

    if wanted and isinstance(instance, list) and len({_text(item) for item in instance}) < len(instance):
        yield Error("has an item twice")


def _text(value: Any) -> str:
    """A JSON value as text, equal for equal values: 1 and 1.0 are, 1 and true are not.

    Text and no hash of numbers: a model can find as many integers with one hash as it likes.
    """
    if type(value) is float and value.is_integer():
        value = int(value)
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{_text(value[key])}" for key in sorted(value)) + "}"
    return json.dumps(value)
