"""One query after the other to all brokers that respond, until the time of a collection is over.

Rules: a broker that does not respond once is not asked again; what was not learned from whom, and why, is kept in `unseen`,
and in `stalls` where there was time enough to respond.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from protocol.errors import ErrorCode
from tools.health.requests import BrokerRequests, Unanswered
from tools.health.view import Stall

if TYPE_CHECKING:
    from protocol.schema import Message, Request
    from runtime.clock import Clock

ROUND_LIMIT_MS = 2_500
STALLED_MS = 2_000
"""Whoever has not responded in less had too little time."""
AUTHORIZATION_ERRORS = frozenset({
    ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
})  # fmt: skip


class BrokerQueries:
    """`until_ms` is monotonic; `responding` are the brokers that are still asked. `pause` waits for so many seconds."""

    def __init__(
        self, requests: BrokerRequests, clock: Clock, limit_ms: int, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self.requests = requests
        self.clock = clock
        self.pause = pause
        self.until_ms = clock.monotonic_ms() + limit_ms
        self.responding: set[int] = set()
        self.unseen: list[str] = []
        self.stalls: list[Stall] = []

    @property
    def left_ms(self) -> int:
        return max(self.until_ms - self.clock.monotonic_ms(), 0)

    def ask_all(self, what: str, request: Request) -> dict[int, Any]:
        """Ask all brokers the same; `what` is what is asked for, in words."""
        return self.ask_each(what, dict.fromkeys(self.responding, request))

    def ask_each(self, what: str, asked: Mapping[int, Request]) -> dict[int, Any]:
        """Send each broker its request; return the responses that came and are no errors."""
        wanted = {broker: request for broker, request in asked.items() if broker in self.responding}
        found = {}
        limit_ms, asked_ms = min(self.left_ms, ROUND_LIMIT_MS), self.clock.monotonic_ms()
        for broker, response in self.requests.ask_each(wanted, limit_ms).items():
            if isinstance(response, Unanswered):
                if response.is_final:
                    self.responding.discard(broker)
                    if limit_ms >= STALLED_MS:
                        self.stalls.append(Stall(broker, what, limit_ms, str(response), asked_ms))
                self._note(what, broker, str(response))
            elif getattr(response, "error_code", 0):
                self._note(what, broker, ErrorCode.of(response.error_code).name)
            else:
                found[broker] = response
                refused = Counter(code for code in _row_errors(response) if code in AUTHORIZATION_ERRORS)
                for code, count in refused.items():
                    self._note(what, broker, f"{ErrorCode(code).name} for {count} of them")
        return found

    def note_unasked(self, what: str, brokers: Iterable[int]) -> None:
        """Note what could not be asked, because the broker that knows it does not respond."""
        for broker in sorted(set(brokers)):
            self._note(what, broker, "it does not answer")

    def _note(self, what: str, broker: int, why: str) -> None:
        line = f"{what} of broker {broker}: {why}"
        if line not in self.unseen:
            self.unseen.append(line)


def _row_errors(message: Message) -> Iterator[int]:
    """Iterate over the error codes of the rows of a response, and of theirs."""
    for field in message.__fields__:
        if field.kind == "array" and isinstance(field.element, type):
            for row in getattr(message, field.name) or ():
                yield getattr(row, "error_code", 0)
                yield from _row_errors(row)
