"""The relay of one process: its topics, its rules, and one session of its group after the other.

    relay = Relay(settings, surroundings, open_cluster)
    await relay.run()          until `stop`, or an error that does not pass
    relay.stop()               `run` returns when the transaction that is under way has ended and the group was left

Rules: durable state is in the logs alone; a session begins from them. What is wrong with a rule or a target stops nobody else.
Errors: KafkaError, OSError when the relay cannot begin: its topics cannot be created or read.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from client.backoff import Backoff
from protocol.errors import KafkaError
from protocol.records.invalid import InvalidBatch
from relay.figures import RelayFigures
from relay.names import RelayNames
from relay.relaying.decisions import DelayLimits
from relay.relaying.rules_feed import RulesFeed
from relay.relaying.session import RelaySession
from relay.relaying.work import Terms
from relay.topics import create_missing, wrong_settings
from relay.waiting.delivered_ids import DeliveredIds
from runtime.tasks import TaskScope

if TYPE_CHECKING:
    from collections.abc import Callable

    from client.event_loop.cluster_client import AsyncClusterClient
    from config.relay import RelaySettings
    from relay.surroundings import RelaySurroundings

INSTANCE_BYTES: Final = 8
BACKOFF: Final = Backoff(200, 10_000)
LONG_SESSION_MS: Final = 60_000
"""After a session of this length the next one follows at once."""

logger = logging.getLogger(__name__)


class Relay:
    """`open_cluster` opens a client of the cluster with a client id; the relay closes what it opened."""

    def __init__(
        self,
        settings: RelaySettings,
        surroundings: RelaySurroundings,
        open_cluster: Callable[[str], AsyncClusterClient],
    ) -> None:
        self.figures = RelayFigures()
        self.session: RelaySession | None = None
        """The membership that is going on."""
        self.began = asyncio.Event()
        """Set once it knows its rules, and joins its group where there is one."""
        self.names = RelayNames(settings.barnabas_relay_name)
        self._settings = settings
        self._surroundings = surroundings
        self._open_cluster = open_cluster
        self._is_stopping = asyncio.Event()
        self._failure: BaseException | None = None
        self._is_loaded = False
        self._terms = Terms(
            self.names.dead_letters,
            DelayLimits(settings.barnabas_relay_near_ms, settings.barnabas_relay_delay_max_ms),
        )
        self._cluster = open_cluster(f"{self.names.name}-admin")
        self._rules = RulesFeed(
            self._cluster,
            self.names,
            surroundings.clock,
            surroundings.randomness,
            self._terms.partitions,
            self._terms.offline,
            settings.barnabas_relay_rules_interval_ms,
            settings.acls,
        )

    @property
    def is_ready(self) -> bool:
        """Whether it knows its rules, and is a member of its group where there is a rule."""
        has_joined = not self._rules.active if self.session is None else self.session.is_member
        return self._is_loaded and has_joined

    @property
    def suspended(self) -> dict[str, str]:
        """Why rules do not hold, by their sources."""
        return self._rules.suspended

    @property
    def rules_count(self) -> int:
        """How many rules hold."""
        return len(self._rules.active)

    def stop(self) -> None:
        """Let `run` return in order."""
        self._is_stopping.set()

    async def run(self) -> None:
        """Relay until `stop`. Raises KafkaError, OSError."""
        tasks = TaskScope(f"relay {self.names.name}", on_failure=self._on_failure)
        try:
            settings = self._settings
            await self._cluster.run(
                create_missing(
                    self.names, settings.barnabas_relay_partitions, settings.barnabas_relay_replication_factor
                )
            )
            for topic, problem in (await self._cluster.run(wrong_settings(self.names))).items():
                logger.warning("topic of the relay has wrong settings: topic=%s reason=%s", topic, problem)
            await self._rules.load()
            self._is_loaded = True
            tasks.spawn(self._rules.follow(), name="rules")
            tasks.spawn(self._rules.watch(), name="watch of the rules")
            await self._sessions(tasks)
        finally:
            await tasks.close()
            await self._cluster.close()
        if self._failure is not None:
            raise self._failure

    async def _sessions(self, tasks: TaskScope) -> None:
        """Have one session after the other, with the rules that hold."""
        failures = 0
        instance = self._surroundings.randomness.randbytes(INSTANCE_BYTES).hex()
        while not self._is_stopping.is_set():
            self._rules.changed.clear()
            if not self._rules.active:
                self.began.set()
                await self._wait(tasks, None)
                continue
            begun_ms = self._surroundings.clock.monotonic_ms()
            self.session = session = RelaySession(
                self._rules.active,
                self._terms,
                self._settings,
                self.names,
                self._surroundings,
                self._open_cluster,
                self.figures,
                self._delivered_ids(),
                instance,
            )
            self.began.set()
            try:
                await self._wait(tasks, session)
            finally:
                self.session = None
                await session.close()
            if session.reason is None:
                failures = 0
                continue
            is_first = self._surroundings.clock.monotonic_ms() - begun_ms >= LONG_SESSION_MS
            failures = 1 if is_first else failures + 1
            logger.warning("relay begins anew from its logs: group=%s reason=%s", self.names.name, session.reason)
            await asyncio.sleep(BACKOFF.pause_ms(failures, self._surroundings.randomness) / 1000)

    def _delivered_ids(self) -> DeliveredIds:
        settings = self._settings
        factor = int.from_bytes(self._surroundings.randomness.randbytes(8), "little") | 1
        return DeliveredIds(settings.barnabas_relay_ids_max, settings.barnabas_relay_ids_ms, factor)

    async def _wait(self, tasks: TaskScope, session: RelaySession | None) -> None:
        """Return when the relay stops, the session ends, or the rules change and the session cannot go on with the others."""
        waits = [
            tasks.spawn(_wait_for(self._rules.changed), name="change of rules"),
            tasks.spawn(_wait_for(self._is_stopping), name="stop"),
        ]
        if session is not None:
            waits.append(tasks.spawn(session.run(), name="session"))
        try:
            while True:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                if session is None or any(each.done() for each in waits[1:]):
                    return
                self._rules.changed.clear()
                if not await session.change(self._rules.active):
                    return
                waits[0] = tasks.spawn(_wait_for(self._rules.changed), name="change of rules")
        finally:
            for each in waits:
                each.cancel()

    def _on_failure(self, name: str, error: BaseException) -> None:
        if isinstance(error, KafkaError | OSError | InvalidBatch):
            logger.warning("relay stops: group=%s reason=%s", self.names.name, f"{name}: {error}")
        self._failure = error
        self._is_stopping.set()


async def _wait_for(event: asyncio.Event) -> None:
    await event.wait()
