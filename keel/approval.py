"""Has a person agreed to exactly this call? Asked last of all judges, answered once, and used up with the claim."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from uuid import uuid4

from .adapters import printable
from .contracts import ErrorCode, Principal, ToolFailure
from .idempotency import Action, recall, unavailable
from .ledger import Ledger, LedgerUnavailable
from .questions import Binding, Question, Questions, Standing
from .registry import Tool
from .rules import broken

__all__ = ["ApprovalDesk", "Question", "Standing", "require_approval"]

PERMISSION = "approvals:decide"


class ApprovalDesk:
    """Where calls wait for a person. It keeps its questions with the ledger that it is made over.

    `ttl_s`: for how long a question may be answered, and an approval be used, in seconds; no answer
    in time is a no. A no stands for `stands_s`; after that the same call may ask again. At most
    `max_pending` questions wait at once. `permission` is what whoever decides must hold, unless the
    tool names another. `clock` gives seconds since 1970: expiry is for people, and goes by their clock.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        ttl_s: float = 3600.0,
        stands_s: float = 86_400.0,
        max_pending: int = 100,
        permission: str = PERMISSION,
        mint: Callable[[], str] = lambda: uuid4().hex[:16],
        clock: Callable[[], float] = time.time,
    ):
        if ledger is None:
            raise ValueError("a desk needs a ledger: an approval that nobody remembers could be used twice")
        self.ledger = ledger
        self.ttl_s, self.stands_s, self.max_pending = ttl_s, stands_s, max_pending
        self.permission, self.mint, self.clock = permission, mint, clock

    def pending(self) -> list[Question]:
        """What waits for an answer, the oldest first. Raises LedgerUnavailable, as all of these do."""
        now = self.clock()
        waiting = self.ledger.transact(lambda questions: questions.standing(Standing.PENDING))
        return [one for one in waiting if one.at(now).standing is Standing.PENDING]

    def history(self) -> list[Question]:
        """Every question there was, as it stands now: who decided, when and why."""
        now = self.clock()
        return [one.at(now) for one in self.ledger.transact(lambda questions: questions.standing())]

    def approve(self, question_id: str, approver: Principal, reason: str = "") -> Question:
        """Say yes to this one call, once, until it expires.

        Raises LookupError for an unknown question, PermissionError if the approver may not decide
        it, ValueError if it is not pending any more.
        """
        return self._decide(question_id, approver, Standing.APPROVED, reason, (Standing.PENDING,))

    def deny(self, question_id: str, approver: Principal, reason: str = "") -> Question:
        """Say no; also to what was approved and has not been used. Raises as `approve` does."""
        return self._decide(question_id, approver, Standing.DENIED, reason, (Standing.PENDING, Standing.APPROVED))

    def expire(self) -> int:
        """Write down what has expired by now, and give how many did. A question expires without this, too."""
        now = self.clock()

        def sweep(questions: Questions) -> int:
            found = questions.standing(Standing.PENDING, Standing.APPROVED)
            overdue = [one.at(now) for one in found if one.at(now).standing is Standing.EXPIRED]
            for question in overdue:
                questions.put(question)
            return len(overdue)

        return self.ledger.transact(sweep)

    def _decide(
        self, question_id: str, approver: Principal, standing: Standing, reason: str, open_to: tuple[Standing, ...]
    ) -> Question:
        def decide(questions: Questions) -> Question | Exception:
            question, now = questions.get(question_id), self.clock()  # inside: to wait for the file takes time
            if question is None:
                return LookupError(f"there is no question {printable(str(question_id))}")
            if question.permission not in approver.permissions:
                return PermissionError(f"whoever decides this needs the permission {question.permission}")
            if question.four_eyes and approver.id == question.binding.principal:
                return PermissionError("whoever asks may not answer: this tool wants a second person")
            if question.at(now).standing not in open_to:
                return ValueError(f"this question is {question.at(now).standing}, and cannot be decided any more")
            decided = question._replace(
                standing=standing, decided_by=approver.id, decided_at=now, reason=printable(reason)
            )
            questions.put(decided)
            return decided

        outcome = self.ledger.transact(decide, lasting=True)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def ask(self, action: Action) -> Question:
        """The question that stands for this action: the one there is, or a new one.

        Equal calls are one question. Raises ToolFailure: `unavailable` if too many wait, and as
        `recall` does if the action was begun since it was looked up: then nobody need be asked.
        """
        tool, seen = action.tool, None
        binding = Binding(action.key, action.digest, tool.name, tool.version, action.context.principal.id)
        while True:
            question = self.ledger.transact(partial(self._find_or_put, action=action, binding=binding, seen=seen))
            if question.standing is not Standing.USED:
                return question
            if recall(self.ledger, action) is not None:
                raise _just_settled(tool)
            seen = question.id  # its write left the key free

    def _find_or_put(self, questions: Questions, action: Action, binding: Binding, seen: str | None) -> Question:
        found, now = questions.latest(binding), self.clock()
        if found is not None and self._stands(found, now):
            if found.standing is Standing.PENDING and found.call_id != action.call.call_id:
                questions.put(found._replace(times=found.times + 1))
            return found.at(now)
        if found is not None and found.standing is Standing.USED and found.id != seen:
            return found
        asked = [one.at(now) for one in questions.standing(Standing.PENDING)]
        overdue = [one for one in asked if one.standing is Standing.EXPIRED]
        if len(asked) - len(overdue) >= self.max_pending:
            raise ToolFailure(
                ErrorCode.UNAVAILABLE, "Too many questions wait for a person already. Nothing ran.", retryable=True
            )
        question = self._question(action, binding, now)
        if questions.get(question.id) is not None:  # or one answer would be taken for two questions
            raise broken(self.mint)
        for one in (*overdue, question):  # what has expired is written down, or each new question would read it again
            questions.put(one)
        return question

    def _stands(self, question: Question, now: float) -> bool:
        """Whether what was asked or decided earlier still counts."""
        standing = question.at(now).standing
        if standing is Standing.DENIED:
            return now < (question.decided_at or 0) + self.stands_s
        if standing is Standing.EXPIRED:
            return now < question.expires_at + self.stands_s
        return standing is not Standing.USED

    def _question(self, action: Action, binding: Binding, now: float) -> Question:
        return Question(
            id=self.mint(),
            binding=binding,
            arguments=action.arguments,
            call_id=action.call.call_id,
            run_id=action.context.run_id,
            asked_at=now,
            expires_at=now + self.ttl_s,
            permission=action.tool.approver_permission or self.permission,
            four_eyes=action.tool.four_eyes,
        )

    def using(self, question: Question) -> Callable[[Questions], None]:
        """What uses an approval up, inside the transaction of the claim: both happen, or neither does."""

        def use(questions: Questions) -> None:
            found = questions.get(question.id)
            if found is None or found.at(self.clock()).standing is not Standing.APPROVED:
                raise _required(question.binding.tool)  # used, withdrawn or expired since we looked
            questions.put(found._replace(standing=Standing.USED))

        return use


def require_approval(
    desk: ApprovalDesk | None, tool: Tool, action: Action | None
) -> Callable[[Questions], None] | None:
    """Has a person agreed to exactly this? Gives what uses their approval up; None if nobody need be asked.

    Raises ToolFailure: `approval_required` (asked, or nowhere to ask), `approval_denied` (a person
    said no, or nobody answered in time), `unavailable`.
    """
    if not tool.needs_approval:
        return None
    if desk is None or action is None:
        raise _required(tool.name)
    try:
        question = desk.ask(action)
    except LedgerUnavailable as error:
        raise unavailable(error) from error
    if question.standing is Standing.APPROVED:
        return desk.using(question)
    if question.standing is Standing.PENDING:
        raise _required(tool.name)
    said = "A person said no" if question.standing is Standing.DENIED else "No person agreed in time"
    raise ToolFailure(ErrorCode.APPROVAL_DENIED, f"{said} to this {tool.name}. Asking again changes nothing.")


def _just_settled(tool: Tool) -> ToolFailure:
    return ToolFailure(
        ErrorCode.IN_PROGRESS, f"This very {tool.name} has just been settled: the next try gets what it gave.", True
    )


def _required(name: str) -> ToolFailure:
    return ToolFailure(
        ErrorCode.APPROVAL_REQUIRED, f"{name} changes the world: a person has to agree to this call first."
    )
