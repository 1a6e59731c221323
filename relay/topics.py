"""The topics of a relay: which there are, with which settings, and the steps that create those that are missing. Pure.

Rules: what exists is used as it is; `wrong_settings` says what is lost by that. Buckets have as many partitions as the log. A
topic that another process creates at the same time is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from client.admin import configs as config_steps
from client.admin import topics as topic_steps
from client.admin.brokers import cluster
from client.admin.configs import Resource, ResourceKind
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from client.admin.steps import Steps
    from relay.names import RelayNames

REPLICAS: Final = 3
NO_RETENTION: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
COMPACTED: Final = {"cleanup.policy": "compact"}
LOG: Final = {**COMPACTED, "segment.bytes": str(64 << 20), "compression.type": "producer"}
TIMEOUT_MS: Final = 30_000


def create_missing(names: RelayNames, partitions: int, replication_factor: int) -> Steps[None]:
    """Create the topics of a relay that are not there, with `partitions` where there is no log yet. `replication_factor` -1:
    three, or one a broker if there are fewer. Raises KafkaError."""
    there = yield from topic_steps.all_topics()
    missing = [name for name in names.topics if name not in there]
    if not missing:
        return
    if names.log in there:
        partitions = len(there[names.log].partitions)
    if replication_factor < 1:
        replication_factor = yield from _usual_replicas()
    wanted = {name: _topic(name, names, partitions, replication_factor) for name in missing}
    created = yield from topic_steps.create(wanted, TIMEOUT_MS, validate_only=False)
    for name, error in created.items():
        if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise KafkaError(error.code, f"topic {name} cannot be created: {error.message}")


def rules_topic(names: RelayNames) -> Steps[CreatableTopic]:
    """Return the topic of the rules as the relay creates it where its settings say nothing else. Raises KafkaError."""
    return _topic(names.rules, names, 1, (yield from _usual_replicas()))


def wrong_settings(names: RelayNames) -> Steps[dict[str, str]]:
    """Return what is wrong with topics of a relay, by their names, as far as the cluster tells. Raises KafkaError."""
    kept = [name for name in names.topics if name != names.dead_letters]
    there = {
        name: len(topic.partitions)
        for name, topic in (yield from topic_steps.describe(kept)).items()
        if not isinstance(topic, KafkaError)
    }
    told = yield from config_steps.describe([Resource(ResourceKind.TOPIC, name) for name in there])
    problems: dict[str, str] = {}
    for name, count in there.items():
        rows = told[Resource(ResourceKind.TOPIC, name)]
        settings = {} if isinstance(rows, KafkaError) else {each.name: each.value for each in rows.values()}
        problem = _problem(name, names, count, there.get(names.log, count), settings)
        if problem is not None:
            problems[name] = problem
    return problems


def _problem(
    name: str, names: RelayNames, count: int, log_count: int, settings: Mapping[str, str | None]
) -> str | None:
    """Return what is wrong with a topic of `count` partitions; the log has `log_count`."""
    policy = settings.get("cleanup.policy") or ""
    limits = [each for each in NO_RETENTION if int(settings.get(each) or -1) >= 0]
    if "delete" in policy and limits:
        right = "cleanup.policy=compact" if name in (names.rules, names.log) else f"{limits[0]}=-1"
        return f"its records are deleted by {limits[0]}, and what they say is lost: set {right}"
    if name in names.buckets and "compact" in policy:
        return "it is compacted, and records with the same key remove each other: set cleanup.policy=delete"
    if name in names.buckets and count < log_count:
        return f"it has {count} partitions, and {names.log} {log_count}: add partitions"
    if name == names.rules and count > 1:
        return f"it has {count} partitions, and only rules in partition 0 count"
    return None


def _usual_replicas() -> Steps[int]:
    return min(REPLICAS, len((yield from cluster()).brokers))


def _topic(name: str, names: RelayNames, partitions: int, replication_factor: int) -> CreatableTopic:
    settings = {names.rules: COMPACTED, names.log: LOG}.get(name, NO_RETENTION)
    if replication_factor >= REPLICAS:
        settings = {**settings, "min.insync.replicas": str(REPLICAS - 1)}
    return CreatableTopic(
        name=name,
        num_partitions=1 if name == names.rules else partitions,
        replication_factor=replication_factor,
        assignments=[],
        configs=[CreatableTopicConfig(name=each, value=value) for each, value in settings.items()],
    )
