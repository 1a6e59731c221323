"""What the seed decides about a cluster whose share groups are watched: topics, settings, groups. Every record and
every state that is acknowledged is on two disks, so that the loss of one excuses nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tests.simulation.cluster.plan import ClusterPlan, plan_cluster
from tests.simulation.world import TopicPlan

STATE_TOPIC = "__share_group_state"
STATE_PARTITIONS = 2
TRANSACTIONAL = "transactional"
TRANSACTION_TOPIC = "__transaction_state"
TRANSACTION_PARTITIONS = 2
SESSION_TIMEOUT_MS = 4_000
HEARTBEAT_INTERVAL_MS = 300
NEVER_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class SharePlan:
    """One share group. `lock_ms` and `limit` are its settings; `reads_committed`: aborted transactions are not for it."""

    name: str
    members_count: int
    topics: tuple[str, ...]
    lock_ms: int
    limit: int
    reads_committed: bool = False

    @property
    def configs(self) -> dict[str, str]:
        return {
            "share.auto.offset.reset": "earliest",
            "share.isolation.level": "read_committed" if self.reads_committed else "read_uncommitted",
            "share.record.lock.duration.ms": str(self.lock_ms),
            "share.delivery.count.limit": str(self.limit),
        }


TRIMMED = "into"
"""The topic whose oldest records are deleted."""
RESET = "again"
"""The group whose start offsets somebody sets whenever it has no members."""


def plan_share_groups(rng: Random) -> tuple[SharePlan, ...]:
    plain = ("in", "into")
    return (
        SharePlan("queue", rng.randint(2, 4), plain, rng.choice((1_000, 1_500, 3_000)), rng.choice((5, 8))),
        SharePlan("other", rng.randint(1, 2), plain[1:], rng.choice((1_000, 2_000)), rng.choice((2, 5))),
        SharePlan(RESET, 1, plain, 1_000, 5),
        SharePlan("careful", rng.randint(1, 2), (TRANSACTIONAL,), rng.choice((1_000, 2_000)), 5, reads_committed=True),
    )


def plan_share_cluster(rng: Random) -> ClusterPlan:
    plan = plan_cluster(rng)
    settings = {
        **plan.settings,
        "barnabas.initial.features": "newest",
        "group.share.min.session.timeout.ms": "1000",
        "group.share.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        "group.share.min.heartbeat.interval.ms": "100",
        "group.share.heartbeat.interval.ms": str(HEARTBEAT_INTERVAL_MS),
        "group.share.min.record.lock.duration.ms": "1000",
        "group.share.initialize.retry.interval.ms": "2000",
        "group.share.assignment.interval.ms": str(rng.choice((0, 1_000))),
        "group.share.partition.max.record.locks": str(rng.choice((100, 2_000))),
        "group.share.max.share.sessions": "50",
        "share.coordinator.state.topic.num.partitions": str(STATE_PARTITIONS),
        "share.coordinator.state.topic.replication.factor": "3",
        "share.coordinator.state.topic.min.isr": "2",
        "share.coordinator.state.topic.segment.bytes": str(rng.choice((60_000, 1 << 20))),
        "share.coordinator.state.topic.prune.interval.ms": str(rng.choice((1_000, 5_000))),
        "share.coordinator.cold.partition.snapshot.interval.ms": str(rng.choice((3_000, NEVER_MS))),
        "share.coordinator.snapshot.update.records.per.snapshot": str(rng.choice((0, 3, 20, 500))),
        "share.coordinator.write.timeout.ms": str(rng.choice((1_000, 5_000))),
        "offsets.topic.segment.bytes": str(rng.choice((6_000, 1 << 20))),
        "min.insync.replicas": "2",
        "transaction.state.log.num.partitions": str(TRANSACTION_PARTITIONS),
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "transaction.max.timeout.ms": "60000",
    }
    if plan.loses_power:
        settings["log.flush.interval.messages"] = "1"
    return replace(plan, topics=(_plan_topic(rng, "in", 2, 3), _plan_topic(rng, "into", 1, 1)), settings=settings)


def plan_transactional(rng: Random) -> TopicPlan:
    """The topic with markers and aborted records, which is no concern of the checkers of plain logs."""
    return _plan_topic(rng, TRANSACTIONAL, 1, 2)


def _plan_topic(rng: Random, name: str, least: int, most: int) -> TopicPlan:
    configs = {
        "min.insync.replicas": "2",
        "segment.bytes": str(rng.choice((16_000, 1 << 20))),
        "file.delete.delay.ms": "1000",
    }
    return TopicPlan(name, rng.randint(least, most), configs, 3)
