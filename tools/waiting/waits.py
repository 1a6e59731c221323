"""The waits of one command, each with what it asks for the cause.

Rules: brokers that are not reached are told first, then what the cluster says, and else a quota.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from client.errors import LoginRefused
from client.reach import Access, unreached_text
from client.settings.values import SettingsError
from tools.failures import Unreachable, name_of, told
from tools.waiting.connections import Connections
from tools.waiting.hindrances import group_hindrance, read_hindrance, write_hindrance
from tools.waiting.throttling import Throttling
from tools.waiting.watch import Cause, Watch

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as RecordsError

    from protocol.errors import KafkaError
    from runtime.clock import Clock
    from runtime.status_line import StatusLine
    from tools.cluster_access import ClusterAccess
    from tools.waiting.state_queries import StateQueries

_TIMED_OUT = ("_TIMED_OUT", "_MSG_TIMED_OUT", "_TIMED_OUT_QUEUE", "REQUEST_TIMED_OUT")


class Waits:
    """`brokers` are the addresses that the command knows, by id. `close` once."""

    def __init__(
        self, settings: ClusterAccess, clock: Clock, line: StatusLine, brokers: Callable[[], Mapping[int, str]]
    ) -> None:
        self._settings = settings
        self._access: Access | None = None
        self._unreached: str | None = None
        self._is_reached = False
        self._clock = clock
        self._state: StateQueries | None = None
        self.watch = Watch(clock, line)
        self._connections = Connections(self.access, brokers, self.watch.hurry, line.say)
        self._throttling = Throttling(clock)
        self.moved = self.watch.moved

    def close(self) -> None:
        if self.watch.close() and self._state is not None:
            self._state.close()

    def access(self) -> Access | None:
        """Return how addresses are tried; None where the settings name a store that cannot be read."""
        if self._access is None:
            with contextlib.suppress(SettingsError):
                self._access = Access.of(self._settings.client)
        return self._access

    def callbacks(self) -> dict[str, Any]:
        """Return the settings by which clients of records tell what hinders them."""
        return {"error_cb": self._connections.on_error, "throttle_cb": self._throttling.on_throttle}

    def why_unreached(self) -> str | None:
        """Return why none of the servers that were named answers; None where one would. It is asked once."""
        access = self.access()
        if self._unreached is None and access is not None:
            self._unreached = unreached_text(self._settings.bootstrap_servers.rstrip(",").split(","), access)
        return self._unreached

    def told(self, error: KafkaError | RecordsError) -> str:
        """Return the text of an error: where it says only that the time is over, with the cause of the wait."""
        why = self.watch.last_why
        name = name_of(error)
        return f"{name}: {why}" if why is not None and name in _TIMED_OUT else told(error)

    # --- what may wait ---

    def connecting(self, then: str | None = None) -> AbstractContextManager[None]:
        """A connection; `then` is what takes long behind it."""
        self._is_reached = False
        return self.watch.over(lambda: self._why_not_connected(then))

    def answer(self, group: str | None = None) -> AbstractContextManager[None]:
        """An answer of the cluster; about this group, if one is named."""
        return self.watch.over(lambda: self._why_no_answer(group))

    def writing(self, topic: str, waiting: Callable[[], int], *, needs_all: bool) -> AbstractContextManager[None]:
        """Acknowledgements; `waiting` tells how many are outstanding."""
        return self.watch.over(lambda: self._why_not_written(topic, waiting(), needs_all=needs_all))

    def reading(self, topic: str, left: Callable[[], Collection[int] | None]) -> AbstractContextManager[None]:
        """Records; `left` tells from which partitions, of none of them when all are read to their ends, None for all."""
        return self.watch.over(lambda: self._why_not_read(topic, left()))

    def joining(
        self, group: str, topic: str, left: Callable[[], Collection[int] | None]
    ) -> AbstractContextManager[None]:
        """Partitions for a member of a group, and then records. `left` tells None while it has no partitions."""
        return self.watch.over(
            lambda: self._why_not_joined(group) if left() is None else self._why_not_read(topic, left())
        )

    # --- why ---

    @property
    def _queries(self) -> StateQueries:
        if self._state is None:
            from tools.waiting.state_queries import StateQueries  # noqa: PLC0415  few commands wait

            self._state = StateQueries(self._settings.client, self._clock)
        return self._state

    def _why_not_connected(self, then: str | None) -> Cause | None:
        if not self._is_reached:
            self._unreached = None
            why = self.why_unreached()
            if why is not None:
                return Cause(f"no connection yet, retrying: {why}", why)
            self._is_reached = True
        return None if then is None else Cause(then, is_vague=True)

    def _why_no_answer(self, group: str | None) -> Cause | None:
        return self._first(lambda: self._admin_hindrance(group), "the cluster", "waiting for an answer")

    def _why_not_written(self, topic: str, waiting: int, *, needs_all: bool) -> Cause | None:
        if not waiting:
            return self._connections.cause()
        return self._first(
            lambda: write_hindrance(self._queries.topic(topic), needs_all=needs_all),
            f"the leaders of {topic}", "waiting for acknowledgements",
        )  # fmt: skip

    def _why_not_read(self, topic: str, left: Collection[int] | None) -> Cause | None:
        if left is not None and not left:
            idle = Cause(f"at the end of {topic}: waiting for new records")
            return self._connections.cause() or self._throttling.cause() or idle
        return self._first(
            lambda: read_hindrance(self._queries.topic(topic), left), f"the leaders of {topic}", "waiting for records"
        )

    def _why_not_joined(self, group: str) -> Cause | None:
        def why() -> str:
            return group_hindrance(self._queries.group(group)) or f"group {group} has assigned none yet"

        return self._first(why, f"the coordinator of group {group}", "waiting for partitions")

    def _admin_hindrance(self, group: str | None) -> str | None:
        if not self._queries.has_controller():
            return "the cluster has no controller"
        return None if group is None else group_hindrance(self._queries.group(group))

    def _first(self, hindrance: Callable[[], str | None], asked: str, waits: str) -> Cause:
        """Return which brokers are lost and what the cluster says; `asked` is who does not answer, `waits` what is done."""
        lost = self._connections.cause(is_suspect=True)
        try:
            why = None if self._connections.are_all_lost else hindrance()
        except (Unreachable, LoginRefused, SettingsError):
            why = None
        throttled = self._throttling.cause()
        if why is None:
            return lost or throttled or Cause(f"waiting for an answer of {asked}", is_vague=True)
        text = f"{waits}: {why}"
        return Cause(text, why) if lost is None else Cause(f"{lost.text}; {text}", f"{lost.why}; {why}", is_lost=True)
