"""Answers that a learner might give: right ones in other styles pass, wrong ones are told what they do in the world."""

import importlib

import pytest

from keel.lab.catalogue import words
from keel.lab.exercises.checking import judge
from keel.lab.exercises.finding import find

CHAPTERS = [importlib.import_module(f"tests.lab.answers.ch{chapter}") for chapter in ("02", "03")]
RIGHT = [(name, answer) for chapter in CHAPTERS for name, answers in chapter.RIGHT.items() for answer in answers]
WRONG = [(name, *entry) for chapter in CHAPTERS for name, entries in chapter.WRONG.items() for entry in entries]


@pytest.mark.parametrize("name, answer", RIGHT, ids=lambda value: getattr(value, "__name__", None))
def test_a_right_answer_in_another_style_passes(name, answer):
    result = judge(find(name), answer)
    assert result.outcome == "passed", result.text


@pytest.mark.parametrize("name, answer, told", WRONG, ids=lambda value: getattr(value, "__name__", None))
def test_a_wrong_answer_is_told_its_own_consequence(name, answer, told):
    result = judge(find(name), answer)
    assert result.outcome == "wrong"
    assert result.consequence == words(f"ch{name[:2]}.exercise.{name}.{told}"), result.text


def test_every_exercise_has_other_answers():
    names = {name for chapter in CHAPTERS for name in (*chapter.RIGHT, *chapter.WRONG)}
    for name in names:
        assert len([one for one, _ in RIGHT if one == name]) >= 3, name
        assert len([one for one, *_ in WRONG if one == name]) >= 2, name
