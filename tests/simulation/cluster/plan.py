"""What the seed decides about a cluster before it starts: brokers, settings, topics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tests.simulation.world import TopicPlan

PORT = 9092
LISTENER = "PLAINTEXT"
TTL = "barnabas.message.ttl.ms"


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    broker_ids: tuple[int, ...]
    topics: tuple[TopicPlan, ...]
    settings: dict[str, str]  # the same for every broker
    session_timeout_s: float
    loses_power: bool
    """Whether crashes of this history take what was not flushed."""
    has_racks: bool

    @property
    def log_directories(self) -> list[str]:
        return self.settings["log.dirs"].split(",")


def node_name(broker_id: int) -> str:
    return f"broker{broker_id}"


def plan_cluster(rng: Random) -> ClusterPlan:
    brokers_count = rng.choice((3, 3, 3, 4, 5))
    session_timeout_s = rng.choice((2.0, 3.0, 6.0))
    return ClusterPlan(
        broker_ids=tuple(range(1, brokers_count + 1)),
        topics=tuple(_plan_topics(rng)),
        settings=_plan_settings(rng, session_timeout_s),
        session_timeout_s=session_timeout_s,
        loses_power=rng.random() < 0.5,
        has_racks=rng.random() < 0.3,
    )


def with_expiry(plan: ClusterPlan, rng: Random) -> ClusterPlan:
    """The plan, where records of one of the topics may expire."""
    if rng.random() < 0.5:
        return plan
    ttl = {TTL: str(rng.choice((3_000, 12_000)))}
    topics = tuple(
        replace(topic, configs=topic.configs | ttl) if topic.name == "beta" else topic for topic in plan.topics
    )
    return replace(plan, topics=topics)


def broker_settings(plan: ClusterPlan, broker_id: int) -> dict[str, str]:
    node = node_name(broker_id)
    own = {
        "broker.id": str(broker_id),
        "listeners": f"{LISTENER}://{node}:{PORT}",
        "advertised.listeners": f"{LISTENER}://{node}:{PORT}",
    }
    if plan.has_racks:
        own["broker.rack"] = f"rack{broker_id % 2}"
    return {**plan.settings, **own}


def _plan_topics(rng: Random) -> list[TopicPlan]:
    topics = []
    for name, partitions, replicas in (("alpha", rng.randint(1, 3), 3), ("beta", 1, rng.choice((2, 3)))):
        configs = {
            "min.insync.replicas": str(rng.choice((1, 2))),
            "segment.bytes": str(rng.choice((16_000, 60_000, 1 << 20))),
            "file.delete.delay.ms": "1000",
        }
        if rng.random() < 0.2:
            configs["flush.messages"] = "1"
        if rng.random() < 0.2:
            configs["unclean.leader.election.enable"] = "true"
        topics.append(TopicPlan(name, partitions, configs, replicas))
    return topics


def _plan_settings(rng: Random, session_timeout_s: float) -> dict[str, str]:
    return {
        "zookeeper.connect": "store:2181",
        "zookeeper.connection.timeout.ms": "60000",
        "zookeeper.session.timeout.ms": str(round(session_timeout_s * 1000)),
        "log.dirs": "/data/a" if rng.random() < 0.7 else "/data/a,/data/b",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "2",
        "offsets.topic.replication.factor": "3",
        "group.initial.rebalance.delay.ms": "200",
        "barnabas.lag.interval.ms": "0",  # tests of its own
        "group.min.session.timeout.ms": "1000",
        "replica.lag.time.max.ms": str(rng.choice((1_500, 3_000, 6_000))),
        "replica.fetch.wait.max.ms": str(rng.choice((500, 1_000))),
        "replica.fetch.max.bytes": str(rng.choice((3_000, 1 << 20))),
        "replica.fetch.backoff.ms": str(rng.choice((100, 1_000))),
        "replica.socket.timeout.ms": "3000",
        "controller.socket.timeout.ms": "3000",
        "num.replica.fetchers": str(rng.choice((1, 1, 2))),
        "replica.high.watermark.checkpoint.interval.ms": str(rng.choice((1_000, 5_000))),
        "log.flush.offset.checkpoint.interval.ms": str(rng.choice((1_500, 60_000))),
        "log.flush.start.offset.checkpoint.interval.ms": str(rng.choice((1_500, 60_000))),
        "auto.leader.rebalance.enable": rng.choice(("true", "false")),
        "leader.imbalance.check.interval.seconds": "5",
        "leader.imbalance.per.broker.percentage": "0",
        "controlled.shutdown.enable": rng.choice(("true", "true", "false")),
        "controlled.shutdown.retry.backoff.ms": "500",
        "request.timeout.ms": "5000",
    }
