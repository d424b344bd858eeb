"""Compiles a contract into a judge: a function that takes arguments and returns them, or says no.

There are two judges. One comes from a function's signature, through pydantic. The other, in
schemas.py, reads plain JSON Schema. Where the schema that is shown can say less or more than
pydantic's Python types do (dates, enums, tuples), both must agree: what is shown is what is enforced.
"""

from __future__ import annotations

import inspect
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic_core import SchemaValidator, to_json

from .contracts import ExecutionContext, Principal

MAX_PROBLEMS = 5

# What holds the schema of a collection's items; without it they may be anything.
_ITEMS = {
    **dict.fromkeys(("list", "set", "frozenset", "generator"), "items_schema"),
    "dict": "values_schema",
    "tuple": "items_schema",
}
# Keys of a core schema under which no other core schema stands.
_NO_SCHEMAS = ("metadata", "config", "default", "cls", "expected", "serialization")
# Core types on which pydantic's strict Python mode and the JSON Schema it shows say the same.
_PLAIN = {
    *("str", "int", "float", "bool", "none", "any", "list", "dict", "nullable", "union", "literal"),
    *("model", "model-fields", "model-field", "default", "definitions", "definition-ref"),
}
# Core types whose values pass their own validation again and stay what they are.
_AGAIN = _PLAIN | {
    *("date", "datetime", "time", "timedelta", "decimal", "enum", "uuid", "bytes", "tuple", "set", "frozenset"),
    *("dataclass", "dataclass-args", "dataclass-field", "typed-dict", "typed-dict-field", "tagged-union"),
}
# What makes a second validation another thing: names and steps that only the first one knows.
_FIRST_ONLY = ("validation_alias", "post_init", "custom_init", "init_only")


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


def copied(value: Any) -> Any:
    """A copy of a JSON value that shares no list and no object with it."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


Judge = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, eq=False)
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
        if is_context(parameter.annotation):
            if context_parameter is not None:
                raise TypeError(f"{context_parameter!r} and {parameter.name!r} both ask for the context; one is enough")
            context_parameter = parameter.name
        else:
            fields[parameter.name] = _field(parameter)
    config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())
    model = create_model("Arguments", __config__=config, **{_field_name(name): field for name, field in fields.items()})
    _refuse_unjudgeable(model.__pydantic_core_schema__)
    shown = model.model_json_schema(schema_generator=_shown_schema())
    shown.pop("title", None)
    json.dumps(shown, allow_nan=False, ensure_ascii=False).encode()  # what is shown must be JSON in UTF-8
    judge = _SignatureJudge(model, list(fields), shown)
    promised = Any if signature.return_annotation is inspect.Signature.empty else signature.return_annotation
    return Signature(shown, judge, context_parameter, Output(promised))


def is_context(annotation: Any) -> bool:
    """Whether a parameter of this annotation is filled by the harness, and never by a model."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation is ExecutionContext or annotation == ExecutionContext | None


def _refuse_unjudgeable(core: Any) -> None:
    """Raise TypeError for a type that would let a model write what is not its to write, or that changes text."""
    for part in _parts(core):
        kind, config = part["type"], part.get("config") or {}
        if isinstance(part.get("cls"), type) and issubclass(part["cls"], ExecutionContext | Principal):
            raise TypeError(f"{part['cls'].__name__} comes from the host, and a model must not send it")
        if kind in ("is-instance", "is-subclass", "callable"):
            raise TypeError("a class or a function is nothing that JSON could carry")
        if kind == "dict" and part.get("keys_schema", {"type": "str"})["type"] in ("int", "float", "date", "datetime"):
            raise TypeError("the keys of a JSON object are text, so those of a dict must be str")
        pattern = part.get("pattern")
        if isinstance(pattern, re.Pattern) and pattern.flags != re.UNICODE:
            raise TypeError("a pattern's flags cannot be shown in a schema; write (?i) and the like into the pattern")
        for change in ("strip_whitespace", "to_lower", "to_upper"):
            if part.get(change) or config.get(f"str_{change}"):
                raise TypeError(f"{change} changes what the model sent; let the body do that")
        if kind == "union" and _doubles(part, core):
            raise TypeError("a union of types that hold each other is judged again at each level; give a discriminator")


def _doubles(union: dict[str, Any], core: dict[str, Any]) -> bool:
    """Whether two choices of a union, both for objects or both for lists, lead back to that union.

    pydantic tries both, and at the next level both again: time would double with each level.
    """
    known = {part["ref"]: part for part in _parts(core) if "ref" in part}
    back = [_shape(one, known) for one in _choices(union) if _leads_to(union, one, known)]
    return len(back) > len(set(back)) or ("?" in back and len(back) > 1)


def _choices(union: dict[str, Any]) -> list[dict[str, Any]]:
    return [one[0] if isinstance(one, tuple) else one for one in union["choices"]]


def _leads_to(union: dict[str, Any], start: dict[str, Any], known: dict[str, Any]) -> bool:
    ahead, seen = [start], set()
    while ahead:
        for part in _parts(ahead.pop()):
            if part is union:
                return True
            reference = part.get("schema_ref")
            if part["type"] == "definition-ref" and reference not in seen:
                seen.add(reference)
                ahead.append(known[reference])
    return False


def _shape(part: dict[str, Any], known: dict[str, Any]) -> str:
    """Which JSON a type takes: an object, a list, or (`?`) not said here."""
    while part["type"] in ("definition-ref", "default", "nullable") or part.get("root_model"):
        part = known[part["schema_ref"]] if part["type"] == "definition-ref" else part["schema"]
    if part["type"] in ("model", "dataclass", "typed-dict", "dict"):
        return "object"
    return "list" if part["type"] in ("list", "tuple", "set", "frozenset") else "?"


@lru_cache(maxsize=1)
def _shown_schema() -> type:
    """pydantic's schema writer, without titles made from names, and closed where a dict's keys have a pattern."""
    from pydantic.json_schema import GenerateJsonSchema

    class Shown(GenerateJsonSchema):
        def field_title_should_be_set(self, schema) -> bool:
            return False

        def dict_schema(self, schema) -> dict[str, Any]:
            shown = super().dict_schema(schema)
            return {**shown, "additionalProperties": False} if "patternProperties" in shown else shown

    return Shown


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
        parts = list(_parts(core))
        fields, config = _without_model(core)
        self._validate = _validator(fields, config)
        self._validate_python = self._validate.validate_python
        self._names = frozenset(names)
        self._renamed = [(name, _field_name(name)) for name in names if name != _field_name(name)]
        self._open = any(map(_is_open, parts))  # then pydantic would hand on the model's own lists
        self._sets = any(part["type"] in ("set", "frozenset") for part in parts)
        # Beyond plain types the shown schema has the first word, and pydantic reads it as JSON.
        own_aliases = sum("validation_alias" in part for part in parts) > len(names)
        plain = all(map(_is_plain, parts)) and not own_aliases
        self._shown = None if plain else _schema_judge(shown)

    def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if len(arguments) > len(self._names):  # many extra keys would make many error records
            self._refuse_extra(arguments)
        try:
            if self._shown is None:
                arguments = copied(arguments) if self._open else arguments
                values = self._validate_python(arguments, strict=True)[0]
            else:
                self._shown.check(arguments)
                if self._sets:
                    _refuse_colliding(arguments, ())
                values = self._validate.validate_json(to_json(arguments), strict=True)[0]
        except ValidationError as error:
            raise Mismatch(_from_pydantic(error)) from None
        for name, field in self._renamed:
            values[name] = values.pop(field)
        return values

    def _refuse_extra(self, arguments: dict[str, Any]) -> None:
        extra = list(islice((key for key in arguments if key not in self._names), MAX_PROBLEMS))
        raise Mismatch([Problem((key,), "additionalProperties", arguments[key]) for key in extra])


def _schema_judge(shown: dict[str, Any]) -> Any:
    from .schemas import SchemaJudge

    return SchemaJudge(shown, formats=True)


def _without_model(core: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """A model's core schema without the model around its fields, for which nobody asks, and its config."""
    if core["type"] == "definitions":
        inner, config = _without_model(core["schema"])
        return {**core, "schema": inner}, config
    return core["schema"], core["config"]


_building = threading.Lock()


def _validator(core: Any, config: Any = None) -> SchemaValidator:
    """A validator for this core schema, tamed.

    pydantic would take the validator that it finds on each model's class, ready made, and never
    look at what this schema says of that model; so the classes are not ready for this moment.
    """
    classes = {part["cls"] for part in _parts(core) if "cls" in part and part["type"] in ("model", "dataclass")}
    with _building:
        ready = [one for one in classes if vars(one).get("__pydantic_complete__") is True]
        try:
            for one in ready:
                one.__pydantic_complete__ = False
            return SchemaValidator(_tame(core), config)
        finally:
            for one in ready:
                one.__pydantic_complete__ = True


_COLLIDING = 64  # as many items of a set may have one hash


def _refuse_colliding(value: Any, path: tuple[str | int, ...]) -> None:
    """Raise Mismatch for a list of numbers chosen so that Python hashes all of them to one value.

    A set of them would take quadratic time to make.
    """
    if isinstance(value, list):
        hashes = Counter(map(_hash, value))
        if len(value) > _COLLIDING and max(hashes.values()) > _COLLIDING and len(set(map(repr, value))) > _COLLIDING:
            raise Mismatch([Problem(path, "uniqueItems", value)])
    for key, item in enumerate(value) if isinstance(value, list) else value.items():
        if isinstance(item, list | dict):
            _refuse_colliding(item, (*path, key))


def _hash(value: Any) -> int:
    """The hash that an item has once it is in a set; dicts become objects that hash by themselves."""
    if isinstance(value, list):
        return hash(tuple(map(_hash, value)))
    return id(value) if isinstance(value, dict) else hash(value)


def _tame(node: Any) -> Any:
    """A core schema that stops at a collection's first wrong item, and looks into instances of models.

    Without the stop a long list of wrong items costs an error record each; without the look an
    instance that was changed after it was made would pass unseen. Patterns run on the linear engine.
    """
    if isinstance(node, list | tuple):
        return type(node)(map(_tame, node))
    if not isinstance(node, dict):
        return node
    tamed = {key: value if key in _NO_SCHEMAS else _tame(value) for key, value in node.items()}
    if node.get("type") in ("list", "tuple", "set", "frozenset", "dict"):
        tamed["fail_fast"] = True
    elif node.get("type") in ("model", "dataclass"):
        tamed["revalidate_instances"] = "always"
    elif node.get("type") == "str" and node.get("pattern") is not None:
        tamed["pattern"] = getattr(node["pattern"], "pattern", node["pattern"])
        tamed["regex_engine"] = "rust-regex"
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
    if part["type"] == "dict" and part.get("keys_schema", {"type": "any"}).keys() - {"strict"} != {"type"}:
        return False  # keys within limits
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
        # There the serializer's warnings must do, which cost more, and let None pass for anything.
        again = all(part["type"] in _AGAIN and not any(map(part.get, _FIRST_ONLY)) for part in parts)
        self._warnings = False if again else "error"
        self.validate = (_validator(adapter.core_schema) if again else adapter.validator).validate_python

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
    problems = []
    for record in error.errors(include_url=False, include_context=False)[:MAX_PROBLEMS]:
        said = record["type"]
        kind = _FROM_PYDANTIC.get(said, "type" if said.endswith("_type") else said)
        problems.append(Problem(tuple(record["loc"]), kind, record["input"], "" if kind != said else record["msg"]))
    return problems
