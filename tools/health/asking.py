"""One question after the other to all brokers that answer, until the time of a look is over.

Rules: a broker that does not answer once is not asked again; what was not learned from whom, and why, is kept in `unseen`,
and in `stalls` where there was time enough to answer.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tools.health.requests import BrokerRequests, Unanswered
from tools.health.view import Stall

if TYPE_CHECKING:
    from runtime.clock import Clock

ROUND_LIMIT_MS = 2_500
STALLED_MS = 2_000
"""Whoever has not answered in less had too little time."""
AUTHORIZATION_ERRORS = frozenset({29, 30, 31, 53})
"""TOPIC_, GROUP_, CLUSTER_ and TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""
_ROWS = ("results", "topics", "groups", "partitions", "responses", "transaction_states")
"""Fields of answers with rows that may have errors."""


class Asking:
    """`until_ms` is monotonic; `answering` are the brokers that are still asked. `pause` waits for so many seconds."""

    def __init__(
        self, requests: BrokerRequests, clock: Clock, limit_ms: int, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self.requests = requests
        self.clock = clock
        self.pause = pause
        self.until_ms = clock.monotonic_ms() + limit_ms
        self.answering: set[int] = set()
        self.unseen: list[str] = []
        self.stalls: list[Stall] = []

    @property
    def left_ms(self) -> int:
        return max(self.until_ms - self.clock.monotonic_ms(), 0)

    def everybody(self, what: str, request: Callable[[], Any]) -> dict[int, Any]:
        """Ask all brokers the same; `what` is what is asked for, in words."""
        return self.each(what, {broker: request() for broker in self.answering})

    def each(self, what: str, asked: Mapping[int, Any]) -> dict[int, Any]:
        """Send each broker its request; return the answers that came and are no errors."""
        wanted = {broker: [request] for broker, request in asked.items() if broker in self.answering}
        found = {}
        limit_ms, asked_ms = min(self.left_ms, ROUND_LIMIT_MS), self.clock.monotonic_ms()
        for broker, [answer] in self.requests.ask(wanted, limit_ms).items():
            if isinstance(answer, Unanswered):
                if answer.is_final:
                    self.answering.discard(broker)
                    if limit_ms >= STALLED_MS:
                        self.stalls.append(Stall(broker, what, limit_ms, str(answer), asked_ms))
                self._miss(what, broker, str(answer))
            elif getattr(answer, "error_code", 0):
                self._miss(what, broker, _name_of(answer.error_code))
            else:
                found[broker] = answer
                for error_code, count in _refusals(answer).items():
                    self._miss(what, broker, f"{_name_of(error_code)} for {count} of them")
        return found

    def miss(self, what: str, brokers: Iterable[int]) -> None:
        """Note what could not be asked, because the broker that knows it does not answer."""
        for broker in sorted(set(brokers)):
            self._miss(what, broker, "it does not answer")

    def _miss(self, what: str, broker: int, why: str) -> None:
        line = f"{what} of broker {broker}: {why}"
        if line not in self.unseen:
            self.unseen.append(line)


def _refusals(answer: Any) -> Counter[int]:
    """Return how many rows of an answer the user may not see, by error code."""
    found: Counter[int] = Counter()
    rows = [answer]
    while rows:
        row = rows.pop()
        code = getattr(row, "error_code", 0)
        if code in AUTHORIZATION_ERRORS:
            found[code] += 1
        for name in _ROWS:
            rows += getattr(row, name, None) or ()
    return found


def _name_of(error_code: int) -> str:
    from kafka import errors  # noqa: PLC0415

    kind = errors.for_code(error_code)
    return str(getattr(kind, "message", None) or kind.__name__)
