"""The worlds of chapter 07's exercises: a desk that loses what is on its way, a service that remembers keys."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from keel.contracts import ToolFailure
from keel.lab.exercises.model import outcome


class Killed(BaseException):
    """The process ends here. Not an Exception, so that `except Exception` lets it out."""


class Desk:
    """Makes tickets for an answer to 07-a. `fault` says what goes wrong the first time, if anything."""

    def __init__(self, fault: str = "", tells: bool = True):
        self.tickets, self.fault, self.tells = 0, fault, tells
        self.ledger: dict[Any, Any] = {}

    def effect(self) -> str | None:
        fault, self.fault = self.fault, ""
        if fault == "request_lost":
            raise ConnectionResetError("connection reset by peer")
        self.tickets += 1
        if fault == "answer_lost":
            raise ConnectionResetError("connection reset by peer")
        if fault == "tool_failure":
            raise ToolFailure("desk_closed", "No tickets are made today.")
        if fault == "killed":
            self.ledger = copy.deepcopy(self.ledger)  # what the next process finds
            raise Killed
        return f"T-{self.tickets}" if self.tells else None

    def call(self, answer: Callable[..., Any], key: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return outcome(lambda: answer(self.ledger, key, copy.deepcopy(arguments), self.effect))


TOO_MANY = 25


class TooMany(BaseException):
    """Ends an answer that would go on for ever. Not an Exception, so that `except Exception` lets it out."""


class Service:
    """A ticket service that remembers keys. `faults` are what becomes of its first requests, one after another."""

    def __init__(self, faults: tuple[str, ...]):
        self.faults = iter(faults)
        self.tickets = self.requests = 0
        self.by_key: dict[Any, str] = {}
        self.unread: set[str] = set()

    def book(self, title: str, key: str | None = None, **unread: Any) -> str:
        """Make a ticket and give its id; under a key that was seen before, the ticket of that time."""
        self.requests += 1
        if self.requests > TOO_MANY:
            raise TooMany
        self.unread |= unread.keys()
        fault = next(self.faults, "")
        if fault == "request_lost":
            raise ConnectionResetError("connection reset by peer")
        ticket = self.by_key.get(key) if key is not None else None
        if ticket is None:
            self.tickets += 1
            ticket = f"T-{self.tickets}"
            if key is not None:
                self.by_key[key] = ticket
        if fault == "answer_lost":
            raise ConnectionResetError("connection reset by peer")
        return ticket

    def seen(self) -> dict[str, Any]:
        """The tickets and the keys; where no key was read, the fields that were not."""
        ignored = {} if self.by_key else {"fields_not_read": sorted(self.unread)}
        return {"tickets": self.tickets, "keys": len(self.by_key), **ignored}
