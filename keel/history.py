"""The conversation as a model is shown it: whole in its form, bounded in its size."""

from __future__ import annotations

from typing import Any

_KEPT_CHARACTERS = 200  # of an old result, in a history that has become too long


class History:
    """A run's messages as its model is shown them: within `limit` bytes, as far as cutting old tool results can do it.

    No message is dropped: a call without its answer is refused by most providers. Texts of people and
    of the model stay whole. It looks at each message once, however long the run gets.
    """

    def __init__(self, limit: int):
        self.limit, self.size, self.looked_at = limit, 0, 0
        self.shown: list[dict[str, Any]] = []

    def of(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """All messages. Those that were seen before must not have changed."""
        new = messages[len(self.shown) :]
        self.shown += new
        self.size += sum(map(_size, new))
        while self.size > self.limit and self.looked_at < len(self.shown):
            message = self.shown[self.looked_at]
            if message["role"] == "tool" and len(content := message["content"]) > 2 * _KEPT_CHARACTERS:
                label = f"(shortened: an older result of {len(content)} characters) {content[:_KEPT_CHARACTERS]} …"
                self.shown[self.looked_at] = {**message, "content": label}
                self.size += _size(self.shown[self.looked_at]) - _size(message)
            self.looked_at += 1
        return list(self.shown)


def _size(message: dict[str, Any]) -> int:
    """In bytes of UTF-8: what is said, and the arguments of calls."""
    calls = [one["function"]["arguments"] for one in message.get("tool_calls") or ()]
    return sum(len(text) if text.isascii() else len(text.encode()) for text in (message["content"] or "", *calls))
