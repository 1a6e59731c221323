"""Names a partition of a topic, as a key of dictionaries and sets. Pure.

Role: the one alias that every package uses for such a key. Messages have their own structs of a topic and its partitions.
Source: Kafka org.apache.kafka.common.TopicPartition.
"""

from __future__ import annotations

from typing import TypeAlias

TopicPartition: TypeAlias = tuple[str, int]
"""Topic name, partition index."""
