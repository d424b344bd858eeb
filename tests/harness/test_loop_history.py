"""What a model is shown of a run: all that was said, old results shortened, its principal's tools, at the same cost."""

import json

from keel import ExecutionContext, Principal
from keel.lab.recordings import proposal_turn
from keel.loop import History

from .test_loop import DONE, Desk, Model, look


def test_old_results_are_shortened_and_everything_else_stays():
    desk = Desk()
    run = desk.run(*[look("é" * 3000).model_copy(update={"text": "say " * 200})] * 6, history_bytes=60_000)
    shown, whole = desk.model.asked[-1], run.messages[:-1]
    assert [one["role"] for one in shown] == [one["role"] for one in whole]
    changed = [at for at, (one, other) in enumerate(zip(shown, whole, strict=True)) if one != other]
    assert changed and all(shown[at]["role"] == "tool" for at in changed), "nobody's words but a tool's are cut"
    results = [at for at, one in enumerate(whole) if one["role"] == "tool"]
    assert changed == results[: len(changed)] and results[-1] not in changed, "the oldest first"
    assert all("shortened" in shown[at]["content"] and len(shown[at]["content"]) < 300 for at in changed)
    assert len(json.dumps(shown, ensure_ascii=False).encode()) < 66_000


def test_a_long_history_that_grows_is_what_the_same_history_is_at_once():
    messages, growing = [{"role": "user", "content": "u" * 900}], History(3000)
    for at in range(12):
        calls = [{"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": "a", "content": str(at) * 700})
        assert growing.of(messages) == History(3000).of(messages)
    assert History(10**9).of(messages) == messages
    assert all(len(one["content"] or "") <= 900 for one in History(0).of(messages)) and len(messages) == 25


def test_arguments_count_as_history_too():
    turn = proposal_turn("look", {"at": "x" * 2000})
    desk = Desk()
    desk.run(turn, turn, turn, DONE, history_bytes=10_000)
    assert "shortened" in desk.model.asked[-1][2]["content"] and "shortened" not in desk.model.asked[-1][6]["content"]


def test_nothing_a_model_does_with_its_messages_changes_the_run():
    class Careless(Model):
        def complete(self, messages, tools=()):
            said = super().complete(messages, tools)
            messages.clear()
            return said

    assert len(Desk().run(Careless(look(), look(), DONE)).messages) == 6


def test_what_a_model_was_shown_stays_as_it_was():
    desk = Desk()
    desk.run(look(), look(), DONE)
    assert [len(one) for one in desk.model.asked] == [1, 3, 5]


def test_each_turn_is_shown_the_tools_that_its_principal_may_use_and_a_new_one_at_once():
    class Looks(Model):
        def complete(self, messages, tools=()):
            desk.registry.tool(lambda: None, name=f"new_{len(self.asked)}", description="-", read_only=True)
            shown.append([one["function"]["name"] for one in tools])
            return super().complete(messages, tools)

    desk, shown = Desk(), []
    stranger = ExecutionContext(principal=Principal(id="stranger"), run_id="run-1")
    desk.agent(Looks(look(), DONE)).run("Help.", stranger)
    assert shown == [["look"], ["look", "new_0"]]


def test_a_turn_costs_no_more_work_however_many_went_before():
    """Counted in what is read of old messages: each is looked at once, and the model gets a list of its own."""

    class Counted(dict):
        def __getitem__(self, key):
            reads[0] += 1
            return super().__getitem__(key)

        def get(self, key, default=None):
            reads[0] += 1
            return super().get(key, default)

    messages, history, work = [], History(20_000), []
    for _ in range(300):
        messages += [Counted(role="assistant", content="Again."), Counted(role="tool", content="x" * 1000)]
        reads = [0]
        assert len(history.of(messages)) == len(messages)
        work.append(reads[0])
    assert max(work[100:]) <= max(work[:100])
