"""Answers that a learner might give: right ones in other styles pass, wrong ones are told what they do in the world."""

import importlib
from pathlib import Path

import pytest

from keel.lab.catalogue import words
from keel.lab.exercises.checking import judge
from keel.lab.exercises.finding import all_exercises, find

FILES = sorted(path.stem for path in (Path(__file__).parent / "answers").glob("ch*.py"))
CHAPTERS = [importlib.import_module(f"tests.lab.answers.{name}") for name in FILES]
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
    assert result.consequence == words(f"ch{find(name).chapter}.exercise.{name}.{told}"), result.text


@pytest.mark.parametrize("chapter", CHAPTERS, ids=FILES)
def test_every_exercise_of_a_chapter_has_other_answers(chapter):
    own = [exercise.id for exercise in all_exercises()[chapter.__name__.rpartition(".ch")[2]]]
    assert sorted(chapter.RIGHT) == sorted(chapter.WRONG) == own
    assert all(len(answers) >= 3 for answers in (*chapter.RIGHT.values(), *chapter.WRONG.values()))
