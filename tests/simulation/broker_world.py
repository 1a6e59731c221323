"""The world of a single broker: one machine, and clients that speak to it alone."""

from __future__ import annotations

from random import Random

from tests.simulation.checkers.logs import LogChecker
from tests.simulation.clients.wire import Wire
from tests.simulation.disk import SimDisk
from tests.simulation.line import Line
from tests.simulation.loop import SimLoop
from tests.simulation.machine import End, Ended, Machine, Started
from tests.simulation.world import TopicPlan, World

BROKER = "broker"
PORT = 9092


class BrokerWorld(World):
    def __init__(
        self, loop: SimLoop, topics: list[TopicPlan] | None = None, settings: dict[str, str] | None = None
    ) -> None:
        """Topics and settings are the seed's unless given."""
        topics = topics or plan_topics(loop.random)
        flushing = [topic.name for topic in topics if topic.flushes_each]
        super().__init__(loop, topics, lambda report: LogChecker(report, flushing))
        self.machine = machine = Machine(loop, self.network, BROKER, settings or plan_settings(loop.random))
        machine.storage.cold_probability = self.random.choice((0.0, 0.05, 0.3))
        machine.storage.short_probability = self.random.choice((0.0, 0.1))
        machine.tune = self._tune_disk
        machine.on_ended, machine.on_started = self._on_ended, self._on_started

    def line(self, name: str) -> Line:
        return Wire(self, name, (BROKER, PORT), lambda: self.life)

    def addresses(self) -> list[tuple[str, int]]:
        return [(BROKER, PORT)]

    @property
    def life(self) -> int:
        return self.machine.starts_count

    def wall_ms(self) -> int:
        return self.machine.clock.wall_ms()

    def _tune_disk(self, disk: SimDisk) -> None:
        disk.slow_probability = self.random.choice((0.0, 0.1, 0.5))
        disk.max_delay_ms = self.random.choice((1.0, 8.0))

    def _on_ended(self, ended: Ended) -> None:
        self.count(f"ended: {ended.how.value}")
        if ended.how is End.FAILED and not self.has_disk_fault:
            self.report(f"the broker gave up: {ended.reason}")
        if ended.how is End.POWER_CRASH:
            self.power_cuts += 1
        self.logs.on_ended(ended)
        self.commits.on_ended(ended)

    def _on_started(self, started: Started) -> None:
        self.count("starts")
        self.logs.on_started(started)


# --- what the seed decides ---


def plan_topics(rng: Random) -> list[TopicPlan]:
    topics = []
    for name, partitions in (("alpha", rng.randint(1, 4)), ("beta", rng.randint(1, 2)), ("gamma", 1)):
        configs = {
            "segment.bytes": str(rng.choice((4_000, 16_000, 60_000, 1 << 20))),
            "index.interval.bytes": str(rng.choice((0, 200, 4096))),
            "file.delete.delay.ms": "1000",
        }
        if rng.random() < 0.25:
            configs["flush.messages"] = "1"
        if rng.random() < 0.25:
            configs["flush.ms"] = "700"
        if rng.random() < 0.2:
            configs["message.timestamp.type"] = "LogAppendTime"
        topics.append(TopicPlan(name, partitions, configs))
    return topics


def plan_settings(rng: Random) -> dict[str, str]:
    return {
        "listeners": f"PLAINTEXT://{BROKER}:{PORT}",
        "broker.id": "1",
        "log.dirs": "/data/a" if rng.random() < 0.6 else "/data/a,/data/b",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "2",
        "offsets.topic.segment.bytes": str(rng.choice((6_000, 1 << 20))),
        "group.initial.rebalance.delay.ms": "200",
        "barnabas.initial.features": "none",
        "barnabas.lag.interval.ms": "0",  # tests of its own
        "group.min.session.timeout.ms": "1000",
        "log.flush.scheduler.interval.ms": "500",
        "log.flush.offset.checkpoint.interval.ms": str(rng.choice((1_500, 5_000, 60_000))),
        "log.flush.start.offset.checkpoint.interval.ms": str(rng.choice((1_500, 60_000))),
        "replica.high.watermark.checkpoint.interval.ms": str(rng.choice((1_000, 5_000))),
        "max.incremental.fetch.session.cache.slots": str(rng.choice((2, 1_000))),
        "queued.max.request.bytes": str(rng.choice((200_000, 1 << 25))),
        "barnabas.fetch.response.memory.bytes": str(rng.choice((1 << 20, 1 << 25))),
        "barnabas.produce.validation": rng.choice(("header", "structure", "full")),
    }
