"""What the seed decides about a history of transactions: topics and settings. Power is lost only where every append is
flushed before it is acknowledged, so that an acknowledged commit is never excused."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.simulation.broker_world import plan_settings
from tests.simulation.cluster.plan import ClusterPlan, plan_cluster
from tests.simulation.world import TopicPlan

INPUT, OUTPUT = "alpha", "beta"
STATE_TOPIC = "__transaction_state"
STATE_PARTITIONS = 2


def plan_transaction_topics(rng: Random, replicas: int = 1) -> list[TopicPlan]:
    """Both are written by producers, too."""
    topics = []
    for name, partitions in ((INPUT, rng.randint(1, 3)), (OUTPUT, rng.randint(1, 2))):
        configs = {
            "segment.bytes": str(rng.choice((6_000, 60_000, 1 << 20))),
            "index.interval.bytes": str(rng.choice((0, 200, 4096))),
            "file.delete.delay.ms": "1000",
        }
        if replicas > 1:
            configs["min.insync.replicas"] = str(rng.choice((1, 2, 2)))
        topics.append(TopicPlan(name, partitions, configs, replicas))
    return topics


def _of_transactions(rng: Random) -> dict[str, str]:
    return {
        "transaction.state.log.num.partitions": str(STATE_PARTITIONS),
        "transaction.state.log.segment.bytes": str(rng.choice((4_000, 1 << 20))),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(rng.choice((500, 2_000))),
        "transaction.max.timeout.ms": "60000",
    }


LEVELS_EVERY, LEVELS_AT = 4, 3
"""Which histories have the newest feature levels."""


def has_levels(seed: int) -> bool:
    """One history in four has transactions whose end raises the epoch."""
    return seed % LEVELS_EVERY == LEVELS_AT


def levels_of(seed: int) -> dict[str, str]:
    return {"barnabas.initial.features": "newest" if has_levels(seed) else "none"}


def plan_one_broker(rng: Random) -> dict[str, str]:
    return {
        **plan_settings(rng),
        **_of_transactions(rng),
        "log.flush.interval.messages": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }


def plan_transaction_cluster(rng: Random) -> ClusterPlan:
    plan = plan_cluster(rng)
    settings = {
        **plan.settings,
        **_of_transactions(rng),
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": str(rng.choice((1, 2, 2))),
    }
    if plan.loses_power:
        settings["log.flush.interval.messages"] = "1"
    return replace(plan, topics=tuple(plan_transaction_topics(rng, replicas=3)), settings=settings)
