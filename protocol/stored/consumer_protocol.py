"""What the members of a classic consumer group tell each other through the coordinator, which does not decode it.

Only tools and OffsetDelete read it: the subscription tells which topics a group uses.

  v1  owned partitions, for cooperative rebalancing (KIP-429)
  v2  generation (KIP-792)
  v3  rack (KIP-881)
"""

from __future__ import annotations

from protocol.schema import Message, array, bytes_, int32, string
from protocol.stored.stored import Stored


class SubscriptionTopicPartition(Message):
    topic:      str       = string("1+")
    partitions: list[int] = array(int32, "1+")


class ConsumerProtocolSubscription(Stored, versions="0-3"):
    topics:           list[str]                        = array(string)
    user_data:        bytes | None                     = bytes_(nullable="0+", default=None)
    owned_partitions: list[SubscriptionTopicPartition] = array(SubscriptionTopicPartition, "1+",
                                                               default=[], ignorable=True)
    generation_id:    int                              = int32("2+", default=-1, ignorable=True)
    rack_id:          str | None                       = string("3+", nullable="3+", default=None, ignorable=True)


class AssignmentTopicPartition(Message):
    topic:      str       = string()
    partitions: list[int] = array(int32)


class ConsumerProtocolAssignment(Stored, versions="0-3"):
    assigned_partitions: list[AssignmentTopicPartition] = array(AssignmentTopicPartition)
    user_data:           bytes | None                   = bytes_(nullable="0+", default=None)
