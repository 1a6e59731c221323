"""What the seed decides about a cluster whose groups are watched."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.simulation.cluster.plan import ClusterPlan, plan_cluster
from tests.simulation.world import TopicPlan

SESSION_TIMEOUT_MS = 4_000
REBALANCE_TIMEOUT_MS = 5_000
HEARTBEAT_INTERVAL_MS = 800


def plan_group_cluster(rng: Random) -> ClusterPlan:
    plan = plan_cluster(rng)
    settings = {
        **plan.settings,
        "barnabas.initial.features": "newest",
        "group.consumer.migration.policy": "bidirectional",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": str(rng.choice((300, HEARTBEAT_INTERVAL_MS))),
        "offsets.topic.segment.bytes": str(rng.choice((6_000, 1 << 20))),
    }
    if plan.loses_power:
        settings["log.flush.interval.messages"] = "1"
    return replace(plan, topics=(_plan_topic(rng, "in", 4, 6), _plan_topic(rng, "into", 1, 2)), settings=settings)


def _plan_topic(rng: Random, name: str, least: int, most: int) -> TopicPlan:
    configs = {
        "min.insync.replicas": str(rng.choice((1, 2))),
        "segment.bytes": str(rng.choice((16_000, 1 << 20))),
        "file.delete.delay.ms": "1000",
    }
    return TopicPlan(name, rng.randint(least, most), configs, 3)
