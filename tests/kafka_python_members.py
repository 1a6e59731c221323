"""Members of groups by kafka-python that have partitions when they have joined.

A consumer of kafka-python 3.0 that is made with a topic may join before it knows the partitions. As the leader of its group it
then assigns none, and as it believes to know them by then, it does not join anew: with any broker, one time in twenty on a
busy machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.oracle.process import wait_until

if TYPE_CHECKING:
    from kafka import KafkaConsumer

PATIENCE_S = 60.0


def member_of(group: str, *topics: str, **settings: Any) -> KafkaConsumer:
    """A consumer that has subscribed to topics that are there. `settings` are the client's."""
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(group_id=group, **settings)
    for topic in topics:
        assert wait_until(lambda name=topic: bool(consumer.partitions_for_topic(name)), PATIENCE_S), topic  # type: ignore[misc]
    consumer.subscribe(topics)
    return consumer
