# Generated from src/trunkline/portable/aio/calls.py by tools/twins.py (make fix). Change the source, not this file.
"""Calls of a driver: within the deadline, tried again where that is safe, and with errors of ours whatever happens.

The one place where calls of drivers are tried again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from time import monotonic
from types import NoneType
from typing import Any, Generic, TypeAlias, TypeVar

from trunkline.engine.backoff import backoff_s
from trunkline.errors import Closed, DeadlineExceeded, DriverError, OutcomeUnknown, TrunklineError
from trunkline.portable.address import redact_error
from trunkline.portable.plan import Plan
from trunkline.portable.sync.shim import Stop, Watch

T = TypeVar("T")
ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

Method: TypeAlias = Callable[[list[ItemT]], Sequence[ResultT | TrunklineError] | None]
"""What a driver answers for many items; None in place of answers: all are done."""

RETRY_FIRST_S = 0.02
RETRY_MAX_S = 1.0


class Calls:
    """Calls of one opened driver."""

    def __init__(self, plan: Plan[Any]) -> None:
        self._plan = plan
        self._stop = Stop()
        self.deadline_s = plan.settings.deadline_s
        self._watches: list[Watch] = []

    def stop(self) -> None:
        """Nothing is tried again from now on: who waits for the next attempt ends with Closed."""
        self._stop.set()
        for watch in list(self._watches):
            watch.close()

    def check_open(self) -> None:
        """Closed after ``stop``."""
        if self._stop.is_set:
            raise Closed(f"{self._plan.shown} is closed; open another one")

    def once(self, call: Callable[[], T], timeout_s: float) -> T:
        """Call it a single time. Errors are ours, without secrets; OutcomeUnknown where it does not come back."""
        # They are kept: a timer for each call costs as much as a call that is answered at once.
        try:
            watch = self._watches.pop()
        except IndexError:
            watch = Watch(timeout_s)
        watch.timeout_s = timeout_s
        try:
            with watch:
                return call()
        except Exception as error:  # noqa: BLE001 - whatever a driver raises becomes an error of ours
            failure = self.error(error, timeout_s)
        finally:
            self._watches.append(watch)
            if self._stop.is_set:
                watch.close()
        # Not above: what the driver raised, and its secrets, would be this one's context.
        raise failure

    def persistently(self, call: Callable[[], T], extra_s: float = 0.0) -> T:
        """Call it until it succeeds, fails for good, or ``deadline_s`` is over; Closed after ``stop``. ``extra_s`` is
        what the call itself may wait."""
        deadline = monotonic() + self.deadline_s + extra_s
        attempt = 0
        while True:
            self.check_open()
            try:
                return self.once(call, self.deadline_s + extra_s)
            except TrunklineError as error:
                if not may_be_repeated(error):
                    raise
                self.pause(attempt, deadline, error)
            attempt += 1

    def pause(self, attempt: int, deadline: float, error: TrunklineError) -> None:
        """Wait before the next attempt, or raise the error where there is no time for one; Closed after ``stop``."""
        delay_s = retry_s(attempt)
        if monotonic() + delay_s >= deadline:
            raise error
        if self.rest(delay_s):
            self.check_open()

    def rest(self, delay_s: float) -> bool:
        """Let others go on for a while; True as soon as it is stopped."""
        return self._stop.wait(delay_s)

    def error(self, error: Exception, timeout_s: float) -> TrunklineError:
        """What a driver raised or answered, as an error of ours that has no secrets in it."""
        secrets = self._plan.secrets
        if isinstance(error, TrunklineError):
            if secrets:
                redact_error(error, secrets)
            return error
        name = self._plan.name
        found: TrunklineError
        if isinstance(error, TimeoutError):
            found = OutcomeUnknown(f"driver {name} has not answered within {timeout_s:g} s; it may or may not be done")
        else:
            said = self._plan.redacted(f"{type(error).__name__}: {error}")
            found = DriverError(f"driver {name} raised {said}; report it to the driver's author")
        if not secrets:
            found.__cause__ = error
        return found

    def broken(self, what: str) -> DriverError:
        """A driver did not keep its contract."""
        return DriverError(f"driver {self._plan.name} gave {what}; report it to the driver's author")

    def misanswered(self, answers: object, count: int) -> DriverError | None:
        """What is wrong with the answers for so many messages, as a whole; None: nothing is."""
        if isinstance(answers, str) or not isinstance(answers, Sequence):
            return self.broken(f"{type(answers).__name__} where a list of answers was due")
        if len(answers) != count:
            return self.broken(f"{len(answers)} answers for {count} messages")
        return None


def retry_s(attempt: int) -> float:
    """How long to wait before the next attempt."""
    return backoff_s(attempt, first_s=RETRY_FIRST_S, max_s=RETRY_MAX_S, chance=random.random())


def may_be_repeated(error: TrunklineError) -> bool:
    """Whether nothing was done, and the same call may succeed later. A driver whose time was over has had its time."""
    return error.retryable and not isinstance(error, DeadlineExceeded)


class BatchCalls(Generic[ItemT, ResultT]):
    """Calls of one method with many items, of which each gets its own answer. One call at a time.

    ``answer`` is the type of an answer that is no error: an id of a message, or None for what is settled. Where it is
    None's, None in place of all answers says that all are done.
    """

    def __init__(self, calls: Calls, method: Method[ItemT, ResultT], answer: type) -> None:
        self._calls = calls
        self._method = method
        self._answer = answer
        self._good = frozenset([answer])
        self._may_be_silent = answer is NoneType
        self._watch = Watch(calls.deadline_s)

    def each(self, items: list[ItemT]) -> Sequence[ResultT | TrunklineError]:
        """An answer or an error for each. Never raises but for cancellation."""
        try:
            with self._watch:
                answers = self._method(items)
        except Exception as error:  # noqa: BLE001 - each of those who wait gets it
            found = self._failed(items, error)
        else:
            # The usual cases in few words: there may be a batch a message.
            if answers is None and self._may_be_silent:
                return [None] * len(items)  # type: ignore[list-item]
            if type(answers) is list and len(answers) == len(items) and self._are_good(answers):
                return answers
            found = self._judged(answers, len(items))
        for answer in found:
            if isinstance(answer, TrunklineError) and may_be_repeated(answer):
                return self._repeat(items, list(found))
        return found

    def _are_good(self, answers: list[Any]) -> bool:
        if self._may_be_silent:
            return answers.count(None) == len(answers)
        return self._good.issuperset(map(type, answers))

    def close(self) -> None:
        """There will be no more calls."""
        self._watch.close()

    def _attempt(self, items: list[ItemT]) -> Sequence[ResultT | TrunklineError]:
        """Once for all of them; where that fails for one item's reason, once for each."""
        try:
            with self._watch:
                answers = self._method(items)
        except Exception as error:  # noqa: BLE001 - each of those who wait gets it
            return self._failed(items, error)
        return self._judged(answers, len(items))

    def _failed(self, items: list[ItemT], error: Exception) -> Sequence[ResultT | TrunklineError]:
        """Where it may be one item's fault, an answer for each alone."""
        failure = self._calls.error(error, self._calls.deadline_s)
        if len(items) == 1 or failure.retryable or isinstance(failure, OutcomeUnknown | Closed | DriverError):
            return [failure] * len(items)
        return [self._alone(item) for item in items]

    def _alone(self, item: ItemT) -> ResultT | TrunklineError:
        try:
            self._calls.check_open()
        except Closed as error:
            return error
        return self._attempt([item])[0]

    def _judged(self, answers: Any, count: int) -> Sequence[ResultT | TrunklineError]:
        """Each answer, an error without secrets; a DriverError in place of what is neither."""
        if answers is None and self._may_be_silent:
            return [None] * count  # type: ignore[list-item]
        wrong = self._calls.misanswered(answers, count)
        if wrong is not None:
            return [wrong] * count
        found: list[Any] = []
        for answer in answers:
            if isinstance(answer, TrunklineError):
                found.append(self._calls.error(answer, self._calls.deadline_s))
            elif isinstance(answer, self._answer):
                found.append(answer)
            else:
                found.append(self._calls.broken(f"{type(answer).__name__} as the answer for a message"))
        return found

    def _repeat(self, items: list[ItemT], answers: list[ResultT | TrunklineError]) -> list[ResultT | TrunklineError]:
        """Try those again that may succeed later, until the deadline."""
        deadline = monotonic() + self._calls.deadline_s
        attempt = 0
        while True:
            left = {
                index: answer
                for index, answer in enumerate(answers)
                if isinstance(answer, TrunklineError) and may_be_repeated(answer)
            }
            if not left:
                return answers
            try:
                self._calls.pause(attempt, deadline, next(iter(left.values())))
            except TrunklineError:
                return answers
            again = self._attempt([items[index] for index in left])
            for index, answer in zip(left, again, strict=True):
                answers[index] = answer
            attempt += 1
