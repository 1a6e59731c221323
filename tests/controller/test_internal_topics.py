"""Which internal topics the controller creates, and when."""

from __future__ import annotations

import pytest

from config.broker import BrokerSettings
from controller.controller_context import ControllerContext, LiveBroker
from controller.internal_topics import topics_to_create
from metadata.image import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from metadata.store.znodes import BrokerRegistration
from protocol.primitives import ZERO_UUID

BOTH = [GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC]


def context_with(
    brokers_count: int, *, shutting_down: int = 0, existing: list[str], deleted: list[str]
) -> ControllerContext:
    context = ControllerContext(shutting_down=set(range(shutting_down)))
    for broker_id in range(brokers_count):
        context.live_brokers[broker_id] = LiveBroker(BrokerRegistration(broker_id, (), 0), 1)
    for name in [*existing, *deleted]:
        context.add_topic(name, ZERO_UUID, {})
    context.topics_to_delete = dict.fromkeys(deleted)
    return context


@pytest.mark.parametrize(
    ("brokers_count", "shutting_down", "existing", "deleted", "expected"),
    [
        (0, 0, [], [], []),
        (1, 0, [], [], []),
        (2, 0, [], [], [TRANSACTION_STATE_TOPIC]),
        (3, 0, [], [], BOTH),
        (4, 0, ["orders"], [], BOTH),
        (3, 1, [], [], [TRANSACTION_STATE_TOPIC]),
        (4, 1, [], [], BOTH),
        (3, 0, [GROUP_METADATA_TOPIC], [], [TRANSACTION_STATE_TOPIC]),
        (3, 0, BOTH, [], []),
        (3, 0, [], [GROUP_METADATA_TOPIC], [TRANSACTION_STATE_TOPIC]),
    ],
)
def test_a_missing_topic_is_created_when_there_are_brokers_for_its_replicas(
    brokers_count: int, shutting_down: int, existing: list[str], deleted: list[str], expected: list[str]
) -> None:
    context = context_with(brokers_count, shutting_down=shutting_down, existing=existing, deleted=deleted)
    enabled = BrokerSettings(
        {
            "barnabas.internal.topics.create.enable": "true",
            "transaction.state.log.replication.factor": "2",
            "share.coordinator.state.topic.replication.factor": "2",
        }
    )
    shares = [SHARE_GROUP_STATE_TOPIC] if TRANSACTION_STATE_TOPIC in [*expected, *existing] else []
    assert topics_to_create(context, enabled) == expected + shares
    assert topics_to_create(context, BrokerSettings({})) == [], "Kafka creates them when they are needed"
