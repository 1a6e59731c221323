"""What the seed decides about a history of the relay: topics, rules, settings. Every record that is acknowledged is on two
disks, so that the loss of one excuses nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from random import Random

from tests.simulation.cluster.plan import ClusterPlan
from tests.simulation.transactions.plan import plan_transaction_cluster
from tests.simulation.world import TopicPlan

RELAY = "relay"
RULES_TOPIC = f"{RELAY}-rules"
RELAY_PARTITIONS = 2
TARGET_TIMEOUT_MS = 6_000
LATER, SOON, AGAIN, FRAGILE = "later", "soon", "again", "fragile"
LATER_OUT, SOON_OUT, WORK, FRAGILE_OUT = "later-out", "soon-out", "work", "fragile-out"
RESULTS, DEAD = "results", "dead"
RETRY_DELAYS_MS = (300, 1_500, 6_000)


@dataclass(frozen=True, slots=True)
class PlannedRule:
    """A rule as its JSON has it. `partitions` are the target's."""

    source: str
    kind: str
    target: str
    partitions: int
    partitioner: str
    dead_letters: str
    delay_ms: int = 0
    delays_ms: tuple[int, ...] = ()
    results: str | None = None

    def to_json(self) -> bytes:
        row: dict[str, object] = {
            "source": self.source,
            "kind": self.kind,
            "target": self.target,
            "partitioner": self.partitioner,
            "dead_letters": self.dead_letters,
            "principal": "User:ANONYMOUS",
        }
        if self.kind == "retry":
            row["delays_ms"] = list(self.delays_ms)
        elif self.delay_ms:
            row["delay_ms"] = self.delay_ms
        if self.results is not None:
            row["results"] = self.results
        return json.dumps(row).encode()


@dataclass(frozen=True, slots=True)
class RelayPlan:
    cluster: ClusterPlan
    rules: dict[str, PlannedRule]
    relays_count: int
    settings: dict[str, str]
    """Of the relay."""

    @property
    def outputs(self) -> list[str]:
        """The topics that the relay writes for others."""
        return [*(each.target for each in self.rules.values()), RESULTS, DEAD]


def plan_relay(rng: Random) -> RelayPlan:
    counts = {
        LATER: rng.randint(1, 3), SOON: rng.randint(1, 2), AGAIN: rng.randint(1, 2),
        LATER_OUT: rng.randint(1, 3), SOON_OUT: rng.randint(1, 3), WORK: rng.randint(1, 2), RESULTS: 1, DEAD: 1,
        RULES_TOPIC: 1,
    }  # fmt: skip
    rules = {
        LATER: PlannedRule(
            LATER, "delay", LATER_OUT, counts[LATER_OUT], rng.choice(("murmur2", "crc32")), DEAD, results=RESULTS
        ),
        SOON: PlannedRule(SOON, "delay", SOON_OUT, counts[SOON_OUT], "murmur2", DEAD, rng.choice((0, 1_000, 2_500))),
        AGAIN: PlannedRule(AGAIN, "retry", WORK, counts[WORK], "murmur2", DEAD, delays_ms=RETRY_DELAYS_MS),
    }
    if rng.random() < 0.4:  # its target is deleted while the history goes on
        counts |= {FRAGILE: 1, FRAGILE_OUT: 1}
        rules[FRAGILE] = PlannedRule(FRAGILE, "delay", FRAGILE_OUT, 1, "same", DEAD)
    plan = plan_transaction_cluster(rng)
    topics = tuple(_plan_topic(rng, name, count) for name, count in counts.items())
    settings = {
        "barnabas.relay.name": RELAY,
        "barnabas.relay.partitions": str(RELAY_PARTITIONS),
        "barnabas.relay.target.timeout.ms": str(TARGET_TIMEOUT_MS),
        "barnabas.relay.session.timeout.ms": str(rng.choice((3_000, 3_000, 6_000))),
        "barnabas.relay.transaction.timeout.ms": str(rng.choice((5_000, 10_000, 20_000))),
    }
    cluster = replace(plan, topics=topics, settings={**plan.settings, "transaction.state.log.min.isr": "2"})
    return RelayPlan(cluster, rules, rng.choice((2, 2, 3)), settings)


def _plan_topic(rng: Random, name: str, partitions: int) -> TopicPlan:
    configs = {
        "min.insync.replicas": "2",
        "segment.bytes": str(rng.choice((16_000, 1 << 20))),
        "file.delete.delay.ms": "1000",
    }
    if name == RULES_TOPIC:
        configs["cleanup.policy"] = "compact"
    return TopicPlan(name, partitions, configs, 3)
