"""The internal topics, and how each is created: partitions, replicas and settings by the broker's settings. Pure.

Source: Kafka DefaultAutoTopicCreationManager.creatableTopic.
"""

from __future__ import annotations

from config.broker import BrokerSettings
from metadata.admin.topic_requests import NewTopic
from metadata.image import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC

REPLICATION_SETTINGS = {
    GROUP_METADATA_TOPIC: "offsets.topic.replication.factor",
    TRANSACTION_STATE_TOPIC: "transaction.state.log.replication.factor",
    SHARE_GROUP_STATE_TOPIC: "share.coordinator.state.topic.replication.factor",
}
"""By topic, the setting that says how many brokers it needs."""


def internal_topic(name: str, settings: BrokerSettings) -> NewTopic:
    """Return how to create an internal topic."""
    if name == GROUP_METADATA_TOPIC:
        return NewTopic(
            name,
            settings.offsets_topic_num_partitions,
            settings.offsets_topic_replication_factor,
            config={
                "cleanup.policy": "compact",
                "segment.bytes": str(settings.offsets_topic_segment_bytes),
                "compression.type": "producer",
            },
        )
    if name == SHARE_GROUP_STATE_TOPIC:
        return NewTopic(
            name,
            settings.share_coordinator_state_topic_num_partitions,
            settings.share_coordinator_state_topic_replication_factor,
            config={
                "cleanup.policy": "delete",  # its coordinator deletes what snapshots have replaced
                "retention.ms": "-1",
                "compression.type": "producer",
                "min.insync.replicas": str(settings.share_coordinator_state_topic_min_isr),
                "segment.bytes": str(settings.share_coordinator_state_topic_segment_bytes),
            },
        )
    assert name == TRANSACTION_STATE_TOPIC, f"{name} is no internal topic"
    return NewTopic(
        name,
        settings.transaction_state_log_num_partitions,
        settings.transaction_state_log_replication_factor,
        config={
            "unclean.leader.election.enable": "false",
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "min.insync.replicas": str(settings.transaction_state_log_min_isr),
            "segment.bytes": str(settings.transaction_state_log_segment_bytes),
        },
    )
