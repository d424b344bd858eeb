"""The catalogue: every key in code exists, none is idle, slots match, and languages agree."""

import ast
import re
from pathlib import Path

import pytest

from keel.lab import catalogue
from keel.lab.catalogue import WordsError, entries, languages, slots_of, words, words_under

LAB = Path(catalogue.__file__).parent
ENGLISH = entries("en")


def uses():
    """Every words(...) and words_under(...) in the lab's code: (place, function, pattern of the key, slots or None)."""
    found = []
    for path in sorted(LAB.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            if node.func.id in ("words", "words_under") and node.args:
                slots = None if any(k.arg is None for k in node.keywords) else {k.arg for k in node.keywords}
                for key in written(node.args[0], tree):
                    found.append((f"{path.name}:{node.lineno}", node.func.id, pattern(key), slots))
    return found


def written(node, tree):
    """The expressions that a key may come from: both arms of a choice, and what a name is set to in the same file."""
    if isinstance(node, ast.IfExp):
        return [*written(node.body, tree), *written(node.orelse, tree)]
    if isinstance(node, ast.Name):
        targets = [
            n for n in ast.walk(tree) if isinstance(n, ast.Assign) and node.id in [ast.unparse(t) for t in n.targets]
        ]
        return [key for n in targets for key in written(n.value, tree)] or [node]
    return [node]


def pattern(node):
    """A key as written in code, as a regular expression: what an f-string fills in is one part without dots."""
    if isinstance(node, ast.Constant):
        return re.escape(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(re.escape(v.value) if isinstance(v, ast.Constant) else "[^.]+" for v in node.values)
    return None


def test_the_scan_finds_the_uses():
    assert len(uses()) > 30


@pytest.mark.parametrize("place, function, key, slots", uses(), ids=lambda value: value if type(value) is str else "")
def test_every_key_in_code_exists_and_gets_its_slots(place, function, key, slots):
    assert key is not None, f"{place}: write the key inside the call, as a text or an f-string"
    if function == "words_under":
        assert any(re.fullmatch(key + r"\.[^.]+", name) for name in ENGLISH), place
        return
    matching = {name: text for name, text in ENGLISH.items() if re.fullmatch(key, name)}
    assert matching, f"{place}: no key {key}"
    needed = set().union(*(slots_of(text) for text in matching.values()))
    if slots is not None:
        assert needed == slots if len(matching) == 1 else needed <= slots, f"{place}: {key}"


def test_no_key_is_idle():
    patterns = [key if function == "words" else key + r"\.[^.]+" for _, function, key, _ in uses() if key]
    idle = [name for name in ENGLISH if not any(re.fullmatch(key, name) for key in patterns)]
    assert idle == []


def test_slots_are_plain_names_and_lists_have_none():
    for name, text in ENGLISH.items():
        assert all(slot.isidentifier() for slot in slots_of(text)), name
        assert text.strip() == text or text.startswith("  "), name


@pytest.mark.parametrize("language", languages())
def test_languages_have_the_same_keys_and_slots(language):
    own = entries(language)
    assert sorted(own) == sorted(ENGLISH)
    assert {name: slots_of(text) for name, text in own.items()} == {n: slots_of(t) for n, t in ENGLISH.items()}


def test_a_missing_key_or_slot_is_a_clear_error():
    with pytest.raises(WordsError, match=r"no key 'strip\.nonsense'"):
        words("strip.nonsense")
    with pytest.raises(WordsError, match=r"'exercises.hint' need the slots \['number', 'text'\]"):
        words("exercises.hint")
    with pytest.raises(WordsError, match="nothing under 'nowhere'"):
        words_under("nowhere")


def test_another_language_is_used_and_english_stands_in(tmp_path, monkeypatch):
    for language, text in {"en": 'a = "one {n}"\nb = "two"', "zh": 'a = "一 {n}"'}.items():
        (tmp_path / language).mkdir()
        (tmp_path / language / "toy.toml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(catalogue, "FOLDER", tmp_path)
    caches = (catalogue._catalogue, catalogue.languages)
    try:
        for cache in caches:
            cache.cache_clear()
        monkeypatch.setenv("KEEL_LANG", "zh_CN.UTF-8")
        assert (words("toy.a", n=1), words("toy.b")) == ("一 1", "two")
        for unknown in ("fr", "", "../en"):
            monkeypatch.setenv("KEEL_LANG", unknown)
            assert words("toy.a", n=1) == "one 1"
    finally:
        for cache in caches:
            cache.cache_clear()


def test_code_of_the_lab_holds_no_sentences():
    """A sentence in a print, a label or a card would escape translation. Docstrings and errors are not shown."""
    shown = {"print", "Card", "HTML", "Button", "Label"}
    for path in sorted(LAB.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in shown:
                texts = [n.value for a in node.args for n in ast.walk(a) if isinstance(n, ast.Constant)]
                sentences = [t for t in texts if isinstance(t, str) and re.search(r"[A-Za-z]{3,} [A-Za-z]{2,} ", t)]
                assert sentences == [], f"{path.name}:{node.lineno}"
