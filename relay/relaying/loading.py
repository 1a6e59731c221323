"""How a process takes source partitions over: from the group's offsets and the relay's log, once the former owner is done.

Rules: offsets are read when no transaction is open that may change them. After that the former owner can commit nothing, as
the group has a new generation. Then the log is read to the end that it has, behind open transactions as well: what the former
owner has committed cannot come later.
The brokers forget offsets of a group that nobody was a member of for `offsets.retention.minutes`; the relay's log has the
position of each source partition as well, and it is committed again.
Errors: KafkaError, OSError.
Source: KIP-447.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from client.admin.brokers import checked
from client.admin.offsets import offsets
from client.committing import OffsetAndMetadata
from client.event_loop.whole_log import read_whole
from protocol.messages.list_offsets import EARLIEST, LATEST
from relay.names import RelayNames, log_partition
from relay.relaying.needs import needs_of
from relay.relaying.source import SourcePartition
from relay.waiting.index import WaitingIndex

if TYPE_CHECKING:
    from collections.abc import Mapping

    from client.event_loop.cluster_client import AsyncClusterClient
    from client.event_loop.group_member import GroupMember
    from client.reading.positions import ReadRecord
    from protocol.topic_partition import TopicPartition
    from relay.rules.rule import Rule
    from relay.waiting.delivered_ids import DeliveredIds
    from runtime.randomness import Randomness


class KeptIndex(NamedTuple):
    """The index of a source partition that this process had, and up to where the log was read for it. What this process has
    written itself since then is read again, which changes nothing."""

    waiting: WaitingIndex
    log_offset: int


async def load(
    cluster: AsyncClusterClient,
    member: GroupMember,
    names: RelayNames,
    rules: Mapping[str, Rule],
    keys: list[TopicPartition],
    ids: DeliveredIds,
    kept: Mapping[TopicPartition, KeptIndex],
    randomness: Randomness,
) -> list[SourcePartition]:
    """Return the state of source partitions that were assigned; for those of which `kept` has the index, from where that was
    read last. Raises KafkaError, OSError, IndexRecordError, ValueError."""
    committed = await member.committed(keys)
    count = await cluster.partition_count(names.log)
    read = {key: kept.get(key) or KeptIndex(WaitingIndex(*key, ids), 0) for key in keys}
    by_prefix = {f"{topic}:{partition}:".encode(): read[topic, partition] for topic, partition in keys}

    def take(records: list[ReadRecord]) -> None:
        for each in records:
            key = each.record.key
            found = None if key is None else by_prefix.get(_prefix(key))
            if found is not None and key is not None and each.record.offset >= found.log_offset:
                found.waiting.replay(key, each.record.value)

    counts = {key: needs_of(each.metadata).log_partitions or count for key, each in committed.items()}
    logs = {key: (names.log, log_partition(key, counts.get(key, count))) for key in keys}
    starts: dict[TopicPartition, int | None] = {}
    for key, log in sorted(logs.items()):
        starts[log] = min(read[key].log_offset, starts.get(log) or read[key].log_offset)
    log_ends = await read_whole(cluster, randomness, starts, take)
    forgotten = {
        key: OffsetAndMetadata(*position)
        for key in keys
        if key not in committed and (position := read[key].waiting.position) is not None
    }
    positions = committed | forgotten
    fresh = [key for key in keys if key not in positions]
    begins = checked(await cluster.run(offsets(dict.fromkeys(fresh, EARLIEST)))) if fresh else {}
    ends = checked(await cluster.run(offsets(dict.fromkeys(keys, LATEST), is_committed_only=True)))
    sources = []
    for key in keys:
        start = positions.get(key) or OffsetAndMetadata(begins[key])
        index = read[key].waiting
        source = SourcePartition(key, rules[key[0]], index, counts.get(key, count), start, ends[key])
        source.log_offset = log_ends[logs[key]]
        source.must_commit = key in forgotten
        sources.append(source)
    return sources


def _prefix(key: bytes) -> bytes:
    """Return the source partition of a key of the index, with what separates it from the rest."""
    return b":".join(key.split(b":", 2)[:2]) + b":"
