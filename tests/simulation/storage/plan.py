"""What the seed decides: which directories and logs there are, and how often things are done for them. All limits are
small, so that a second of a log's life holds everything."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from config.broker import BrokerSettings
from config.topic import LogConfig

DIRECTORIES = ("/data", "/disk2")
DELETE_DELAY_MS = 60


@dataclass(frozen=True, slots=True)
class Plan:
    """`directories`: each a disk of its own, between which logs are moved. `fills`: the disks may be full for a while.
    `deletes`: how often topics are deleted, and made anew, while checkpoints tell of those before."""

    settings: BrokerSettings
    directories: tuple[str, ...]
    configs: dict[str, LogConfig]  # by topic
    transactional: frozenset[str]  # topics
    fills: bool
    cold_probability: float
    slow_probability: float
    readers_delay_ms: float
    deletes: float


def plan_logs(rng: Random) -> Plan:
    directories = DIRECTORIES[: rng.choice((1, 2, 2))]
    settings = BrokerSettings.from_sources({}, {}, _settings(rng, directories))
    topics = rng.choice((("plain",), ("compacted",), ("plain", "compacted"), ("flushing",), ("both", "plain")))
    return Plan(
        settings,
        directories,
        {topic: LogConfig.from_settings(settings, _config(topic, rng)) for topic in topics},
        transactional=frozenset(topic for topic in topics if rng.random() < 0.5),
        fills=rng.random() < 0.3,
        cold_probability=rng.choice((0.0, 0.3)),
        slow_probability=rng.choice((0.0, 0.2, 0.7)),
        readers_delay_ms=rng.choice((0.0, 0.0, 150.0)),
        deletes=rng.choice((0.5, 0.5, 3.0)),
    )


def _settings(rng: Random, directories: tuple[str, ...]) -> dict[str, str]:
    return {
        "log.dirs": ",".join(directories),
        "broker.id": "1",
        "log.flush.offset.checkpoint.interval.ms": rng.choice(("20", "100", "60000")),
        "log.flush.start.offset.checkpoint.interval.ms": rng.choice(("20", "100", "60000")),
        "replica.high.watermark.checkpoint.interval.ms": rng.choice(("30", "100")),
        "log.flush.scheduler.interval.ms": "50",
        "log.retention.check.interval.ms": "40",
        "log.cleaner.backoff.ms": "30",
        "log.cleaner.dedupe.buffer.size": str(2 << 20),
    }


def _config(topic: str, rng: Random) -> dict[str, str]:
    config = {
        "segment.bytes": rng.choice(("500", "900", "2500")),
        "index.interval.bytes": rng.choice(("0", "300", "4096")),
        "file.delete.delay.ms": str(DELETE_DELAY_MS),
        "retention.ms": "-1",
    }
    if rng.random() < 0.3:
        config["flush.ms"] = "60"
    if topic == "flushing":
        config["flush.messages"] = "1"
    if topic in ("compacted", "both"):
        config["cleanup.policy"] = "compact,delete" if topic == "both" else "compact"
        config["min.cleanable.dirty.ratio"] = rng.choice(("0.0", "0.01", "0.5"))
        config["delete.retention.ms"] = rng.choice(("0", "50", "100000"))
    if topic in ("plain", "both") and rng.random() < 0.6:
        config["retention.bytes" if rng.random() < 0.5 else "retention.ms"] = rng.choice(("200", "1500"))
    return config
