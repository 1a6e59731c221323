"""Names a partition of a topic, as a value that dictionaries and sets are keyed by. Pure.

Role: the one alias that every package uses for such a key. Messages carry a topic and its partitions in rows of their own.
Source: Kafka org.apache.kafka.common.TopicPartition.
"""

from __future__ import annotations

from typing import TypeAlias

TopicPartition: TypeAlias = tuple[str, int]
"""Topic name, partition index."""
