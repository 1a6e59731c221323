"""How a process takes source partitions over: from the group's offsets and the relay's log, once the former owner is done.

Rules: offsets are read when no transaction is open that may change them. After that the former owner can commit nothing, as
the group has a new generation. Then the log is read to the end that it has, behind open transactions as well: what the former
owner has committed cannot come later.
The brokers forget offsets of a group that nobody was a member of for `offsets.retention.minutes`; the relay's log has the
position of each source partition as well, and it is committed again. A source topic that was deleted and made again has another
id: it is read from its beginning, and what waited in the deleted one is gone.
Errors: KafkaError, OSError.
Source: KIP-447.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from client.admin.brokers import checked
from client.admin.offsets import offsets
from client.committing import OffsetAndMetadata
from client.event_loop.whole_log import read_whole
from protocol.messages.list_offsets import EARLIEST, LATEST
from protocol.primitives import ZERO_UUID
from relay.names import RelayNames, log_partition
from relay.relaying.needs import needs_of
from relay.relaying.source import SourcePartition
from relay.waiting.entries import SOURCE, tier_of
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


async def load(
    cluster: AsyncClusterClient,
    member: GroupMember,
    names: RelayNames,
    rules: Mapping[str, Rule],
    keys: list[TopicPartition],
    ids: DeliveredIds,
    randomness: Randomness,
) -> list[SourcePartition]:
    """Return the state of source partitions that were assigned. Raises KafkaError, OSError, IndexRecordError, ValueError."""
    committed = await member.committed(keys)
    count = await cluster.partition_count(names.log)
    indexes = {key: WaitingIndex(*key, ids) for key in keys}
    by_prefix = {f"{topic}:{partition}:".encode(): indexes[topic, partition] for topic, partition in keys}

    def take(records: list[ReadRecord]) -> None:
        for each in records:
            key = each.record.key
            index = None if key is None else by_prefix.get(_prefix(key))
            if index is not None and key is not None:
                index.replay(key, each.record.value)

    counts = {key: needs_of(each.metadata).log_partitions or count for key, each in committed.items()}
    logs = {(names.log, log_partition(key, counts.get(key, count))) for key in keys}
    await read_whole(cluster, randomness, dict.fromkeys(sorted(logs)), take)
    topics = await cluster.topics({topic for topic, _ in keys})
    ids_now = {key: topics[key[0]].topic_id if key[0] in topics else ZERO_UUID for key in keys}
    positions, renewed, forgotten = dict(committed), set(), set()
    for key in keys:
        position = indexes[key].position
        if position is None:
            continue
        if ZERO_UUID not in (position.topic_id, ids_now[key]) and position.topic_id != ids_now[key]:
            renewed.add(key)
            positions.pop(key, None)
        elif key not in committed:
            forgotten.add(key)
            positions[key] = OffsetAndMetadata(position.offset, position.leader_epoch)
    fresh = [key for key in keys if key not in positions]
    begins = checked(await cluster.run(offsets(dict.fromkeys(fresh, EARLIEST)))) if fresh else {}
    ends = checked(await cluster.run(offsets(dict.fromkeys(keys, LATEST), is_committed_only=True)))
    sources = []
    for key in keys:
        start = positions.get(key) or OffsetAndMetadata(begins[key])
        source = SourcePartition(key, rules[key[0]], indexes[key], counts.get(key, count), start, ends[key])
        source.must_commit = key in forgotten or key in renewed
        source.topic_id = ids_now[key]
        if key in renewed:
            source.lost_places = [each.place for each in indexes[key].entries() if tier_of(each.place) == SOURCE]
        sources.append(source)
    return sources


def _prefix(key: bytes) -> bytes:
    """Return the source partition of a key of the index, with what separates it from the rest."""
    return b":".join(key.split(b":", 2)[:2]) + b":"
