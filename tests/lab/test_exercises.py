"""Exercises: stubs are not attempted, solutions pass, known mistakes earn their own words, and nothing escapes."""

import contextlib
import functools
import re
import threading
import time

import pytest

from keel.adapters import to_message
from keel.contracts import ErrorCode, ToolError, ToolFailure
from keel.lab import progress_file
from keel.lab.catalogue import entries, words
from keel.lab.exercises import check, hint, progress, solution
from keel.lab.exercises.checking import judge
from keel.lab.exercises.finding import all_exercises, chapters, find
from keel.lab.exercises.model import Exercise, case, outcome, source_of
from keel.lab.exercises.showing import same, show
from keel.lab.exercises.stubs import is_stub
from keel.recovery import next_step

EXERCISES = [exercise for exercises in all_exercises().values() for exercise in exercises]
MISTAKES = [(exercise, mistake) for exercise in EXERCISES for mistake in exercise.mistakes]
each = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)


# --- every exercise of every chapter ---


@each
def test_a_stub_is_not_attempted(exercise):
    assert judge(exercise, exercise.stub).outcome == "not_attempted"


@each
def test_the_solution_passes_twice_and_as_printed(exercise):
    assert judge(exercise, exercise.solution).outcome == "passed"
    assert judge(exercise, exercise.solution).outcome == "passed"
    notebook = {}
    exec(source_of(exercise.solution, exercise.name), notebook)
    assert judge(exercise, notebook[exercise.name]).outcome == "passed"


@pytest.mark.parametrize("exercise, mistake", MISTAKES, ids=lambda value: getattr(value, "id", None) or value.name)
def test_a_known_mistake_earns_its_own_words(exercise, mistake):
    result = judge(exercise, mistake.answer)
    assert result.outcome == "wrong"
    assert result.consequence == words(f"ch{exercise.chapter}.exercise.{exercise.id}.mistake.{mistake.name}")
    assert result.call and result.expected and result.got and result.expected != result.got
    assert judge(exercise, mistake.answer) == result, "the same answer gets the same text"


@each
def test_an_exercise_is_complete(exercise):
    prefix = f"ch{exercise.chapter}.exercise.{exercise.id}"
    own = [key[len(prefix) + 1 :] for key in entries("en") if key.startswith(prefix + ".")]
    assert len(exercise.mistakes) >= 2
    assert 1 <= exercise.minutes <= 30
    assert sorted(own) == sorted(
        ["title", "hint.1", "hint.2", "hint.3"]
        + [f"case.{one.name}" for one in exercise.cases]
        + [f"mistake.{one.name}" for one in exercise.mistakes]
    )
    messages = [words(f"{prefix}.mistake.{one.name}") for one in exercise.mistakes]
    assert len(set(messages)) == len(messages)
    assert len({one.name for one in exercise.cases}) == len(exercise.cases)


def test_the_next_steps_are_those_of_the_harness():
    for one in find("01-b").cases:
        code = re.search(r"'(\w+)'", one.shown)[1]
        assert one.expected == next_step(ToolError(code=code, message="")).action


def test_the_finished_package_passes_where_it_does_the_same_work():
    assert judge(find("02-b"), to_message).outcome == "passed"
    assert judge(find("06-a"), lambda error: next_step(error).action).outcome == "passed"
    assert {one.name for one in find("06-a").cases} > set(ErrorCode)


def test_ids_are_unique_and_in_order():
    ids = [exercise.id for exercise in EXERCISES]
    assert len(set(ids)) == len(ids)
    assert ids == [f"{chapter}-{letter}" for chapter in chapters() for letter in "abc"]


# --- what an answer can do to a check ---


def toy(*cases, stub=None):
    def empty(x): ...

    stub = stub or empty
    return Exercise("01-a", "double", 1, stub, lambda x: 2 * x, cases or (case("valid", "double", 2, expected=4),), ())


def exits(x):
    raise SystemExit(3)


def interrupts(x):
    raise KeyboardInterrupt


def recurses(x):
    return recurses(x)


def raises_badly(x):
    class Bad(Exception):
        def __str__(self):
            raise ValueError

    raise Bad


@pytest.mark.parametrize("answer, kind", [(exits, "SystemExit: 3"), (interrupts, "KeyboardInterrupt"),
                                          (recurses, "RecursionError"), (raises_badly, "Bad")])  # fmt: skip
def test_an_exception_is_shown_short(answer, kind):
    result = judge(toy(), answer)
    assert result.outcome == "wrong"
    assert kind in result.got and "Traceback" not in result.text
    assert len(result.text.splitlines()) <= 5


def test_an_exception_shows_the_answers_own_line():
    def answer(x):
        return {}["missing"]

    assert re.search(r"KeyError: 'missing' \(line \d+: return \{\}\[\"missing\"\]\)", judge(toy(), answer).got)


def test_an_exception_in_a_class_shows_its_line_too():
    class Answer:
        def __init__(self, x):
            raise KeyError(x)

    assert re.search(r"KeyError: 2 \(line \d+: raise KeyError\(x\)\)", judge(toy(), Answer).got)


def test_an_outcome_is_what_was_returned_or_raised():
    def fails(problem):
        raise problem

    assert outcome(lambda: 5) == {"returned": 5}
    assert outcome(lambda: fails(ToolFailure("unknown_tool", "no"))) == {"raised": "unknown_tool"}
    assert outcome(lambda: fails(UnicodeError()), TypeError, ValueError) == {"raised": "ValueError"}
    with pytest.raises(ZeroDivisionError):
        outcome(lambda: 1 / 0, ValueError)


def test_an_endless_loop_is_stopped():
    ticks = []

    def answer(x):
        while True:
            with contextlib.suppress(Exception):
                ticks.append(1)

    result = judge(toy(), answer, limit=0.1)
    assert (result.outcome, result.got) == ("wrong", words("exercises.hung"))
    seen = len(ticks)
    time.sleep(0.05)
    assert len(ticks) == seen, "the loop still runs"


def test_a_loop_that_catches_everything_is_left_behind_or_stopped_and_a_wait_does_not_hold_us():
    gate = threading.Event()

    def answer(x):
        gate.wait()

    began = time.monotonic()
    assert judge(toy(), answer, limit=0.1).got == words("exercises.hung")
    assert time.monotonic() - began < 2
    gate.set()


@pytest.mark.parametrize("answer", [3, None, "double", [1]])
def test_what_is_no_function_is_not_attempted(answer):
    result = judge(toy(), answer)
    assert result.outcome == "not_attempted"
    assert 'check("01-a", double)' in result.text


@pytest.mark.parametrize("answer", [lambda: 4, lambda a, b: 4, lambda *, x: 4, dict.fromkeys, (0).__add__])
def test_wrong_parameters_are_wrong_and_never_raise(answer):
    result = judge(toy(), answer)
    assert result.outcome == "wrong"


def test_the_form_is_named_when_parameters_differ():
    assert "double(x)" in judge(toy(), lambda: 4).text


def test_a_coroutine_function_is_told_so():
    async def answer(x):
        return 4

    assert "async def" in judge(toy(), answer).text


def test_callables_of_every_kind_are_judged():
    class Doubles:
        def __call__(self, x):
            return 2 * x

    for answer in (Doubles(), functools.partial(lambda y, x: 2 * x, 1), lambda *a: 2 * a[0], lambda x, y=1: 2 * x):
        assert judge(toy(), answer).outcome == "passed"


def test_an_answer_that_alters_its_arguments_does_not_spoil_the_next_check():
    exercise = toy(case("valid", "double", [1, {"a": []}], expected=2))

    def answer(x):
        x[1]["a"].append(1)
        x.append(0)
        return len(x) - len(x[1]["a"])

    assert [judge(exercise, answer).outcome for _ in range(3)] == ["passed"] * 3


class Hostile:
    def __eq__(self, other):
        raise RuntimeError

    def __repr__(self):
        raise RuntimeError


@pytest.mark.parametrize("value", [Hostile(), [Hostile()], {"a": Hostile()}, object(), {"b", "a"}, "x" * 10_000])
def test_any_value_can_be_returned(value):
    result = judge(toy(), lambda x: value)
    assert result.outcome == "wrong"
    assert len(result.got) < 400 and "0x" not in result.got


def test_kinds_are_told_apart():
    assert not same(True, 1) and not same(1, 1.0) and not same([1], (1,)) and not same({"a": True}, {"a": 1})
    assert same({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]})
    assert show({"b", "a"}) == "{'a', 'b'}"


# --- stubs ---


def dots(x): ...


def docstring(x):
    """Says what to do."""


def docstring_and_dots(x):
    """Says what to do."""
    ...  # noqa: PIE790


def passes(x):
    pass


def returns_dots(x):
    return ...


def not_implemented(x):
    raise NotImplementedError


def not_implemented_text(x):
    raise NotImplementedError("later")


class EmptyClass:
    """A task."""

    def __init__(self, x): ...

    def get(self): ...


STUBS = [dots, docstring, docstring_and_dots, passes, returns_dots, not_implemented, not_implemented_text, EmptyClass]


@pytest.mark.parametrize("answer", [*STUBS, ...], ids=lambda answer: getattr(answer, "__name__", "..."))
def test_forms_of_a_stub(answer):
    assert is_stub(answer, dots)
    assert judge(toy(), answer).outcome == "not_attempted"


def test_a_stub_is_known_without_its_source():
    names = {}
    exec(compile("def double(x): ...", "<gone>", "exec"), names)
    assert is_stub(names["double"], dots)


@pytest.mark.parametrize("answer", [lambda x: 4, lambda x: x, lambda x: print(x), lambda x: "", len])
def test_attempts_are_not_stubs(answer):
    assert not is_stub(answer, dots)


def test_a_stub_with_code_given_is_known_and_a_changed_one_is_not():
    def given(x):
        found = [y + 1 for y in range(x)]
        return found

    def unchanged(x):
        found = [y + 1 for y in range(x)]
        return found

    def changed(x):
        found = [y + 1 for y in range(x)]
        return found[:1]

    assert is_stub(unchanged, given)
    assert not is_stub(changed, given)


def test_a_value_can_be_the_answer():
    exercise = Exercise("01-a", "order", 1, ..., ["a"], (case("valid", "order", expected=None),), ())
    exercise = Exercise("01-a", "order", 1, ..., ["a"], (type(exercise.cases[0])("valid", "order", list, ["a"]),), ())
    assert [judge(exercise, value).outcome for value in (..., ["a"], ["b"])] == ["not_attempted", "passed", "wrong"]
    assert source_of(exercise.solution, "order") == "order = ['a']\n"


# --- the verbs ---


def right():
    return find("01-b").solution


def wrong():
    return find("01-b").mistakes[0].answer


def test_hints_come_one_after_another():
    numbers = [re.match(r"Hint (\d) of 3", hint("01-b").text)[1] for _ in range(5)]
    assert numbers == ["1", "2", "3", "3", "3"]
    assert hint("01-a").text.startswith("Hint 1 of 3")


def test_the_solution_opens_after_a_pass():
    assert "def " not in solution("01-b").text
    check("01-b", right())
    assert solution("01-b").text.startswith("def what_next(code):\n")


def test_the_solution_opens_after_three_wrong_tries():
    for _ in range(2):
        check("01-b", wrong())
        check("01-b", find("01-b").stub)
    assert "so far: 2" in solution("01-b").text
    check("01-b", wrong())
    assert solution("01-b").text.startswith("def what_next")
    assert "def " not in solution("01-a").text


def test_an_instructor_can_close_solutions(monkeypatch):
    check("01-b", right())
    monkeypatch.setenv("KEEL_SOLUTIONS", "closed")
    assert solution("01-b").text == words("exercises.closed")


def test_an_unknown_id_is_told():
    for said in (check("01-z", right()), hint("nonsense"), solution("../01-a"), check(7, right())):
        assert "01-a, 01-b, 01-c" in said.text


def test_progress_shows_every_state():
    check("01-a", find("01-a").stub)
    check("01-b", wrong())
    check("01-c", find("01-c").mistakes[0].answer)
    check("01-c", find("01-c").solution)
    check("01-c", find("01-c").mistakes[0].answer)
    text = progress().text
    assert re.search(r"01-a .*: not attempted\n", text)
    assert re.search(r"01-b .*: 1 wrong so far\n", text)
    assert re.search(r"01-c .*: passed after 1 wrong\n", text)


def test_a_note_about_saving_stands_at_the_end(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KEEL_PROGRESS", str(tmp_path / "file" / "below"))
    result = check("01-b", right())
    assert result.outcome == "passed"
    assert result.text.splitlines()[-1] == result.note != ""
    assert progress_file.read()[0]["exercises"]["01-b"]["passed"]


def test_results_show_as_text_and_as_html():
    result = check("01-b", wrong())
    assert repr(result) == result.text
    assert "In the world" in result._repr_html_() and "&quot;" in result._repr_html_()
