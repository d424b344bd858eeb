"""One text for one value: what two calls are compared by, whatever order or spelling they were sent in."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from decimal import Decimal
from hashlib import sha256
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def canonical(value: Any) -> str:
    """The value as JSON text of one form: keys sorted, no spaces, an integral float as an integer.

    Takes what a judge gives: JSON values, and the dates, decimals, enums, sets and models that a
    signature makes of them. Integers are written in full and never pass through a double, text
    stands as it is. Raises ValueError or TypeError for what JSON cannot carry, NaN and infinities among it.

    Sorted keys and no spaces are what RFC 8785 does too; but it writes numbers as doubles, so that
    2**53 and 2**53 + 1 would be one value there. Here they are two.
    """
    return _encode(_plain(value))


def digest(value: Any) -> str:
    """SHA-256 of the canonical text in UTF-8, as 64 hexadecimal digits."""
    return digest_of(canonical(value))


def digest_of(text: str) -> str:
    """The digest of a text that is canonical already."""
    return sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is dict:
        return {key if type(key) is str else _key(key): _plain(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [_plain(item) for item in value]
    if kind is float:
        return int(value) if value.is_integer() else value
    return _plain_object(value)


def _plain_object(value: Any) -> Any:
    """What a signature's types make of JSON. Every field counts, also one that the model does not dump."""
    if isinstance(value, BaseModel):
        return _plain(dict(iter(value)))
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=canonical)
    if isinstance(value, Decimal) and value.is_finite():
        return _plain_decimal(value)
    plain = to_jsonable_python(value)
    if type(plain) is type(value):
        raise TypeError(f"{type(value).__name__} has no canonical form")
    return _plain(plain)


def _plain_decimal(value: Decimal) -> str:
    """Digits and exponent without zeros at the end: 1, 1.0 and 1e0 are one number, and no digit is lost."""
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    short = text.rstrip("0")
    return f"{'-' * sign}{short}e{exponent + len(text) - len(short)}" if short else "0e0"


def _key(key: Any) -> str:
    plain = to_jsonable_python(key)
    return plain if type(plain) is str else canonical(plain)
