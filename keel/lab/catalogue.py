"""The words the lab shows: one catalogue per language, none of it in code.

A language is a folder `keel/lab/words/<language>/` of TOML files. A key is the file's name and the path inside it,
joined by dots: `words("exercises.passed", id="01-a")` reads `passed` in `exercises.toml`. Slots are those of
`str.format`, plain names only. KEEL_LANG chooses the language; what a language lacks is shown in English.
"""

from __future__ import annotations

import os
import string
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "words"
ENGLISH = "en"


class WordsError(LookupError):
    """A key that no catalogue has, or a slot that was not filled: a mistake in the lab, never in a learner's code."""


def words(key: str, **slots: Any) -> str:
    """The text of `key` in the chosen language, its slots filled.

    Raises WordsError for a key that does not exist and for a slot that was not given.
    """
    text = _catalogue(language()).get(key)
    if text is None:
        raise WordsError(f"the catalogue has no key {key!r}")
    missing = sorted(slots_of(text) - slots.keys())
    if missing:
        raise WordsError(f"the words of {key!r} need the slots {missing}")
    return text.format(**slots)


def words_under(prefix: str) -> dict[str, str]:
    """All words one step below `prefix`, as {last part of the key: text}, in the order of the English file.

    For lists such as the options of a question; their texts have no slots. Raises WordsError where there are none.
    """
    start = prefix + "."
    found = {
        key[len(start) :]: text.format()
        for key, text in _catalogue(language()).items()
        if key.startswith(start) and "." not in key[len(start) :]
    }
    if not found:
        raise WordsError(f"the catalogue has nothing under {prefix!r}")
    return found


def language() -> str:
    """The language in use: KEEL_LANG where a folder of that name exists (`zh_CN.UTF-8` finds `zh`), else English."""
    wanted = os.environ.get("KEEL_LANG", ENGLISH).replace("-", "_").split("_")[0].split(".")[0].lower()
    return wanted if wanted in languages() else ENGLISH


@lru_cache(maxsize=1)
def languages() -> tuple[str, ...]:
    """The languages there are, English among them."""
    return tuple(sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and any(path.glob("*.toml"))))


def slots_of(text: str) -> set[str]:
    """The names of the slots in a text: `{id}` gives {"id"}; doubled braces are no slot."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def entries(name: str) -> dict[str, str]:
    """One language's own words, flat, without the English fallback: {key: text}."""
    flat: dict[str, str] = {}
    for path in sorted((FOLDER / name).glob("*.toml")):
        _flatten(path.stem, tomllib.loads(path.read_text(encoding="utf-8")), flat)
    return flat


def _flatten(key: str, value: Any, flat: dict[str, str]) -> None:
    if isinstance(value, dict):
        for part, below in value.items():
            _flatten(f"{key}.{part}", below, flat)
    elif isinstance(value, str):
        flat[key] = value.strip("\n")
    else:
        raise WordsError(f"{key!r} holds a {type(value).__name__}; a catalogue holds texts only")


@lru_cache(maxsize=8)
def _catalogue(name: str) -> dict[str, str]:
    own = {} if name == ENGLISH else entries(name)
    return entries(ENGLISH) | own
