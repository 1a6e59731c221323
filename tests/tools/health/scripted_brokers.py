"""Brokers that respond by a function, in the place of connections to real ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from protocol.schema import Request
from tests.doubles.clock import ManualClock
from tools.health.requests import BrokerRequests, Unanswered
from tools.health.view import Validity


class ScriptedBrokers:
    """`respond` takes broker and request; a broker in `hung` takes all the time it is given."""

    def __init__(self, clock: ManualClock, respond: Callable[[int, Any], Any]) -> None:
        self._clock = clock
        self._respond = respond
        self.hung: set[int] = set()
        self.asked: list[tuple[int, str]] = []

    @property
    def as_requests(self) -> BrokerRequests:
        return cast(BrokerRequests, self)

    def connect(self, request: Request, _limit_ms: int) -> Any:
        return self._respond(1, request)

    def has_api(self, _api_key: int) -> bool:
        return False

    def probe(self, brokers: Iterable[int], _limit_ms: int) -> dict[int, float | Unanswered]:
        return {broker: Unanswered("no answer in time") if broker in self.hung else 1.0 for broker in brokers}

    def certificates(self, brokers: Iterable[int]) -> dict[int, Validity]:
        return {broker: Validity(0, 1) for broker in brokers}

    def ask_each(self, asked: Mapping[int, Request], limit_ms: int) -> dict[int, Any]:
        self.asked += [(broker, request.api_name) for broker, request in asked.items()]
        found = {
            broker: Unanswered("no answer in time") if broker in self.hung else self._respond(broker, request)
            for broker, request in asked.items()
        }
        if any(isinstance(each, Unanswered) and each.is_final for each in found.values()):
            self._clock.now_ms += limit_ms
        return found
