"""Deletes the beginnings of buckets, whose records nobody waits for any more: steps that a client carries out. Pure.

Any process of the relay may do it, at any time: what is needed of a bucket stands beside the committed offsets of all source
partitions (`relay.relaying.needs`).

Rules: ends are looked up before offsets are read, and offsets only when no transaction is open that may change them. So a
record that is copied meanwhile is behind the end, or its need is among the offsets.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from client.admin.groups import stable_offsets
from client.admin.offsets import offsets
from client.admin.replicas import delete_records
from client.admin.steps import Steps
from protocol.errors import KafkaError
from protocol.messages.list_offsets import EARLIEST, LATEST
from relay.names import BUCKET_TIERS, RelayNames, log_partition
from relay.relaying.needs import BucketNeeds, deletable, needs_of

if TYPE_CHECKING:
    from protocol.topic_partition import TopicPartition

TIMEOUT_MS: Final = 30_000


def delete_unneeded(names: RelayNames, partitions: Collection[int], count: int) -> Steps[dict[TopicPartition, int]]:
    """Delete what is not needed of these partitions of the buckets, which have `count` partitions each. Return the new
    beginnings. Raises KafkaError."""
    keys = {(names.buckets[tier], each): tier for tier in range(len(BUCKET_TIERS)) for each in partitions}
    ends = yield from offsets(dict.fromkeys(keys, LATEST), is_committed_only=True)
    begins = yield from offsets(dict.fromkeys(keys, EARLIEST))
    needs: dict[int, list[BucketNeeds]] = {}
    for source, committed in (yield from stable_offsets(names.name)).items():
        found = needs_of(committed.metadata)
        needs.setdefault(log_partition(source, found.log_partitions or count), []).append(found)
    before: dict[TopicPartition, int] = {}
    for key, tier in keys.items():
        end, begin = ends[key], begins[key]
        if isinstance(end, KafkaError) or isinstance(begin, KafkaError):
            continue  # its leader is looked for: the next time
        offset = deletable(end, needs.get(key[1], ()), tier + 1)
        if offset > begin:
            before[key] = offset
    deleted = yield from delete_records(before, TIMEOUT_MS)
    return {key: before[key] for key, found in deleted.items() if not isinstance(found, KafkaError)}
