"""Whether the brokers of a command are reached, and which of them came back.

Rules: the client library names lost connections, also of those that a broker has closed because they were idle; so each
broker is tried before it is called lost, and again until it answers, which is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from client.reach import Access, why_unreached
from tools.waiting.watch import Cause

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

_LOST = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_SSL", "_AUTHENTICATION")


_of_brokers = partial(why_unreached, are_brokers=True)


class Connections:
    """Of one command. `brokers` are the addresses of the brokers that it knows, by id."""

    def __init__(
        self,
        access: Callable[[], Access | None],
        brokers: Callable[[], Mapping[int, str]],
        hurry: Callable[[], None],
        say: Callable[[str], None],
        reach: Callable[[list[str], Access], Mapping[str, str | None]] = _of_brokers,
    ) -> None:
        self._access = access
        self._brokers = brokers
        self._hurry = hurry
        self._say = say
        self._reach = reach
        self._is_suspect = False
        self._lost: dict[int, str] = {}

    @property
    def are_all_lost(self) -> bool:
        return len(self._lost) == len(self._brokers())

    def on_error(self, error: KafkaError) -> None:
        """For `error_cb` of the clients, in whatever thread polls them."""
        if error.name() in _LOST and not self._is_suspect:
            self._is_suspect = True
            if not self._lost:
                self._hurry()

    def cause(self, *, is_suspect: bool = False) -> Cause | None:
        """Return which brokers are lost; None where a client has named none, unless they are suspected anyway."""
        if not (self._is_suspect or self._lost or is_suspect):
            return None
        self._is_suspect = False
        brokers = dict(self._brokers())
        access = self._access()
        if access is None:
            return None
        why = self._reach(list(brokers.values()), access)
        lost = {broker: text for broker, server in brokers.items() if (text := why[server]) is not None}
        returned, self._lost = self._lost.keys() - lost.keys(), lost
        if returned:
            self._say(f"connected again: {_names(returned)}")
        if not lost:
            return None
        causes = f"{'; '.join(lost.values())} ({_names(lost)})"
        return Cause(f"connection lost, retrying: {causes}", causes, is_lost=True)


def _names(brokers: Iterable[int]) -> str:
    return ", ".join(f"broker {broker}" for broker in sorted(brokers))
