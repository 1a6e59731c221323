"""The topics of the cluster as groups with broker-side assignment see them: ids, numbers of partitions, and a hash of what
assignments depend on.

Rules: no IO. One instance for all shards of a coordinator; `update` is called with each image of the cluster, before shards are
told which topics have changed.
Invariants: two members that read the same topics get the very same set of ids. The hash of a topic changes when its id, its
number of partitions or the racks of its replicas change; that of a group when a topic that it reads comes, goes or changes.
Source: Kafka CoordinatorMetadataImage, Utils.computeTopicHash and computeGroupHash; Kafka's hash is another one (XXH3), and
nobody compares the two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from metadata.image import ClusterImage, TopicImage
from protocol.primitives import ZERO_UUID

HASH_BYTES = 8
# Sets of names whose ids are kept. Members of one group often read the same topics.
KEPT_SETS = 10_000


@dataclass(frozen=True, slots=True)
class TopicChanges:
    """`names`: of topics that came, went or changed. `gone`: the ids of topics that are no more, though there may be others of
    the same names."""

    names: frozenset[str] = frozenset()
    gone: frozenset[bytes] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.names)


class GroupTopics:
    def __init__(self, image: ClusterImage | None = None) -> None:
        self._image = image or ClusterImage()
        self._racks: Mapping[int, str | None] = {}
        self._hashes: dict[str, bytes] = {}
        self._ids: dict[frozenset[str], frozenset[bytes]] = {}
        self.version = 0
        """Grows whenever the cluster gets a new topic: the milliseconds since 1970 when this broker learned of it."""

    def update(self, image: ClusterImage, now_ms: int) -> TopicChanges:
        """Take `image` in place of the one before. Returns what has changed."""
        before, self._image = self._image, image
        if before.topics is image.topics and before.brokers is image.brokers:
            return TopicChanges()
        racks = {broker_id: broker.rack for broker_id, broker in image.brokers.items()}
        old, new = before.topics, image.topics
        changed = {name for name, topic in new.items() if not _is_alike(old.get(name), topic)}
        if racks != self._racks:
            self._racks = racks
            changed.update(new)
        gone = old.keys() - new.keys()
        gone_ids = {old[name].topic_id for name in gone}
        gone_ids |= {old[name].topic_id for name in changed if name in old and old[name].topic_id != new[name].topic_id}
        if new.keys() - old.keys():
            self.version = max(self.version + 1, now_ms)
        changed |= gone
        for name in changed:
            self._hashes.pop(name, None)
        if changed:
            self._ids.clear()
        return TopicChanges(frozenset(changed), frozenset(gone_ids - {ZERO_UUID}))

    def names(self) -> Mapping[str, TopicImage]:
        return self._image.topics

    def name_of(self, topic_id: bytes) -> str | None:
        return self._image.names_by_id.get(topic_id)

    def ids_of(self, names: frozenset[str]) -> frozenset[bytes]:
        """The ids of those of `names` that exist and have one."""
        found = self._ids.get(names)
        if found is None:
            if len(self._ids) >= KEPT_SETS:
                self._ids.clear()
            topics = self._image.topics
            ids = frozenset(topics[name].topic_id for name in names if name in topics)
            found = self._ids[names] = ids - {ZERO_UUID}
        return found

    def partitions_count(self, topic_id: bytes) -> int:
        name = self._image.names_by_id[topic_id]
        return len(self._image.topics[name].partitions)

    def hash_of(self, names: Iterable[str]) -> int:
        """A signed number of 64 bits that stands for those of `names` that exist; 0 when none does."""
        known = sorted(name for name in names if name in self._image.topics)
        if not known:
            return 0
        digest = hashlib.blake2b(digest_size=HASH_BYTES)
        for name in known:
            digest.update(self._topic_hash(name))
        return int.from_bytes(digest.digest(), signed=True)

    def _topic_hash(self, name: str) -> bytes:
        found = self._hashes.get(name)
        if found is None:
            topic = self._image.topics[name]
            digest = hashlib.blake2b(topic.topic_id, digest_size=HASH_BYTES)
            digest.update(f"{name} {len(topic.partitions)}".encode("utf-8", "surrogatepass"))
            if any(self._racks.values()):
                for partition in sorted(topic.partitions):
                    racks = sorted({self._racks.get(replica) or "" for replica in topic.partitions[partition].replicas})
                    digest.update(f"\n{partition} {racks}".encode("utf-8", "surrogatepass"))
            found = self._hashes[name] = digest.digest()
        return found


def _is_alike(old: TopicImage | None, new: TopicImage) -> bool:
    """Whether nothing changed on which an assignment depends. Leaders change more often than that."""
    if old is new:
        return True
    return (
        old is not None
        and old.topic_id == new.topic_id
        and len(old.partitions) == len(new.partitions)
        and all(partition.replicas == new.partitions[index].replicas for index, partition in old.partitions.items())
    )
