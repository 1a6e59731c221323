"""The topics of a relay: which there are, with which settings, and the steps that create those that are missing. Pure.

Rules: what exists is used as it is, whatever its settings. A topic that another process creates at the same time is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from client.admin import topics as topic_steps
from client.admin.brokers import cluster
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig

if TYPE_CHECKING:
    from client.admin.steps import Steps
    from relay.names import RelayNames

REPLICAS: Final = 3
NO_RETENTION: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
COMPACTED: Final = {"cleanup.policy": "compact"}
LOG: Final = {**COMPACTED, "segment.bytes": str(64 << 20), "compression.type": "producer"}
TIMEOUT_MS: Final = 30_000


def create_missing(names: RelayNames, partitions: int, replication_factor: int) -> Steps[None]:
    """Create the topics of a relay that are not there. `replication_factor` -1: three, or one a broker if there are fewer.
    Raises KafkaError."""
    there = yield from topic_steps.all_topics()
    missing = [name for name in names.topics if name not in there]
    if not missing:
        return
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
