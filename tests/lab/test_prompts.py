"""Predict and quiz: complete, printed the same every time, and answered by buttons or by text."""

import pytest

from keel.lab import progress_file
from keel.lab.catalogue import entries, words
from keel.lab.prompts import find_prompt, predict, prompt_ids, prompt_widget, quiz, reply_to

ALL = [(kind, name) for kind in ("predict", "quiz") for name in prompt_ids(kind)]
each = pytest.mark.parametrize("kind, name", ALL)


@each
def test_a_prompt_is_complete(kind, name):
    prompt = find_prompt(kind, name)
    letters = list(prompt.options)
    assert letters == sorted(letters) and len(letters) >= 3
    assert prompt.right in prompt.options
    prefix = f"ch{name.rpartition('-')[0]}.{kind}.{name}"
    own = sorted(key for key in entries("en") if key.startswith(prefix + ".") and key != f"{prefix}.then")
    reasons = ["explain"] if kind == "predict" else [f"because.{letter}" for letter in letters]
    assert own == sorted(f"{prefix}.{part}" for part in ["question", *reasons, *(f"option.{x}" for x in letters)])


def test_no_words_without_a_prompt():
    for key in entries("en"):
        parts = key.split(".")
        if len(parts) > 2 and parts[1] in ("predict", "quiz"):
            assert parts[2] in prompt_ids(parts[1]), key


def test_the_right_option_is_not_always_the_same():
    assert len({find_prompt("quiz", name).right for name in prompt_ids("quiz")}) > 1


@each
def test_every_option_gets_a_reply(kind, name):
    prompt = find_prompt(kind, name)
    replies = [reply_to(prompt, letter) for letter in prompt.options]
    assert [reply.right for reply in replies].count(True) == 1
    if kind == "predict":
        assert all(words(f"ch{name.rpartition('-')[0]}.predict.{name}.explain") == reply.folded for reply in replies)
    else:
        assert len({reply.says for reply in replies}) == len(replies)


def test_predict_prints_and_keeps(capsys):
    predict("01-a", answer=" B ")
    out = capsys.readouterr().out
    assert out.startswith("Which names can the model call now?\n  a) ")
    assert "Kept: b)" in out
    assert progress_file.read()[0]["predictions"] == {"01-a": "b"}


def test_a_prediction_that_the_text_answers_says_so_itself():
    assert reply_to(find_prompt("predict", "01-a"), "a").says.endswith(words("prompts.then"))
    for name in ("10-c", "11-a", "11-d"):
        says = reply_to(find_prompt("predict", name), "a").says
        assert says.endswith(words(f"ch{name[:2]}.predict.{name}.then")) and words("prompts.then") not in says


def test_quiz_says_right_or_wrong_and_keeps_nothing(capsys):
    quiz("01-c", answer="c")
    quiz("01-c", answer="a")
    out = capsys.readouterr().out
    assert "c is right." in out and "Not a." in out
    assert progress_file.read()[0]["predictions"] == {}


def test_without_widgets_the_text_says_how_to_answer(capsys):
    predict("01-a")
    assert 'predict("01-a", answer="a")' in capsys.readouterr().out


def test_unknown_ids_and_options_are_told(capsys):
    predict("01-zz")
    quiz("01-a", answer="q")
    out = capsys.readouterr().out
    assert "01-a, 01-b" in out
    assert "a, b, c" in out


def test_printed_lines_fit_a_page(capsys):
    for kind, name in ALL:
        (predict if kind == "predict" else quiz)(name, answer="a")
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 96


def test_a_predict_button_keeps_the_answer_and_folds_the_explanation():
    row, said = prompt_widget(find_prompt("predict", "01-a")).children
    assert [button.description for button in row.children] == ["a", "b", "c"]
    assert said.value == ""
    row.children[0].click()
    assert "Kept: a)" in said.value
    assert "<details><summary>" in said.value and "namespace is none" in said.value.split("<details>")[1]
    row.children[2].click()
    assert "Kept: c)" in said.value
    assert [button.button_style for button in row.children] == ["", "", "info"]
    assert progress_file.read()[0]["predictions"] == {"01-a": "c"}


def test_a_quiz_button_says_why():
    row, said = prompt_widget(find_prompt("quiz", "01-b")).children
    row.children[0].click()
    assert "Not a." in said.value and row.children[0].button_style == "warning"
    row.children[1].click()
    assert "b is right." in said.value and row.children[1].button_style == "success"
    assert row.children[0].button_style == ""


def test_a_saving_trouble_is_said_in_the_reply(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KEEL_PROGRESS", str(tmp_path / "file" / "p.json"))
    row, said = prompt_widget(find_prompt("predict", "01-a")).children
    row.children[0].click()
    assert "could not be saved" in said.value


def test_markup_in_a_catalogue_stays_text():
    row, said = prompt_widget(find_prompt("predict", "01-g")).children
    row.children[0].click()
    assert "<script" not in said.value
