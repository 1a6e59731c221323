"""Deletes the beginnings of buckets, whose records nobody waits for any more: steps that a client carries out. Pure.

Any process of the relay may do it, at any time: what is needed of a bucket stands beside the committed offsets of all source
partitions (`relay.relaying.needs`).

Rules: ends are looked up before offsets are read, and offsets only when no transaction is open that may change them. So a
record that is copied meanwhile is behind the end, or its need is among the offsets. Those of the sources of rules are asked for
by name, as a first offset in an open transaction is not told otherwise; for sources whose rules this process does not know yet,
only what was there the last time is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
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


def delete_unneeded(
    names: RelayNames,
    partitions: Collection[int],
    count: int,
    sources: Collection[TopicPartition],
    bounds: Mapping[TopicPartition, int],
) -> Steps[dict[TopicPartition, int]]:
    """Delete what is not needed of these partitions of the buckets, which have `count` partitions each, and what is before the
    `bounds`. `sources` are the source partitions of all rules. Return the ends: the bounds of the next time. Raises
    KafkaError."""
    keys = {(names.buckets[tier], each): tier for tier in range(len(BUCKET_TIERS)) for each in partitions}
    ends = yield from offsets(dict.fromkeys(keys, LATEST), is_committed_only=True)
    begins = yield from offsets(dict.fromkeys(keys, EARLIEST))
    needs: dict[int, list[BucketNeeds]] = {}
    all_committed = (yield from stable_offsets(names.name)) | (yield from stable_offsets(names.name, sources))
    for source, committed in all_committed.items():
        found = needs_of(committed.metadata)
        needs.setdefault(log_partition(source, found.log_partitions or count), []).append(found)
    before: dict[TopicPartition, int] = {}
    for key, tier in keys.items():
        end, begin = ends[key], begins[key]
        if isinstance(end, KafkaError) or isinstance(begin, KafkaError):
            continue  # its leader is looked for: the next time
        offset = deletable(min(end, bounds.get(key, 0)), needs.get(key[1], ()), tier + 1)
        if offset > begin:
            before[key] = offset
    yield from delete_records(before, TIMEOUT_MS)  # what is not deleted now is the next time
    return {key: end for key, end in ends.items() if not isinstance(end, KafkaError)}
