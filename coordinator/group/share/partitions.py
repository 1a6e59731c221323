"""Which share partitions a group has: changes of the entry, each from one value to the next.

    lacking        what members read and nobody was asked about, or too long ago without an outcome
    initializing   the share coordinator was asked to keep the states
    initialized    it keeps them
    forgotten      it was asked about them in vain: the next heartbeat asks again
    without        topics were deleted from the cluster

Rules: pure. A topic is in `deleting` only while none of its partitions is initializing or initialized.
Source: Kafka GroupMetadataManager.subscribedTopicsChangeMap, addInitializingTopicsRecords, initializeShareGroupState,
uninitializeShareGroupState, maybeCleanupShareGroupState.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from coordinator.group.assigned.assignor import TopicPartitions
from coordinator.group.share.entries import SharePartitions


def initializing(before: SharePartitions, asked: TopicPartitions, names: Mapping[bytes, str]) -> SharePartitions:
    """`names` has those of the topics of `asked`."""
    return _entry(
        before,
        _joined(before.initializing, asked),
        before.initialized,
        before.deleting - asked.keys(),
        {**before.names, **names},
    )


def initialized(before: SharePartitions, done: TopicPartitions) -> SharePartitions:
    """Partitions of topics that are gone by now are left out."""
    known = {topic_id: partitions for topic_id, partitions in done.items() if topic_id in before.names}
    return _entry(
        before, _reduced(before.initializing, done), _joined(before.initialized, known), before.deleting - known.keys()
    )


def forgotten(before: SharePartitions, failed: TopicPartitions) -> SharePartitions:
    return _entry(before, _reduced(before.initializing, failed), before.initialized, before.deleting)


def deleting(before: SharePartitions, topic_ids: Collection[bytes], names: Mapping[bytes, str]) -> SharePartitions:
    """The share coordinator is asked to forget all of these topics. `names` has those of topics that `before` does not know."""
    return _entry(
        before,
        _without(before.initializing, topic_ids),
        _without(before.initialized, topic_ids),
        before.deleting | frozenset(topic_ids),
        {**names, **before.names},
    )


def deleted(before: SharePartitions, topic_ids: Iterable[bytes]) -> SharePartitions:
    """It has forgotten them."""
    return _entry(before, before.initializing, before.initialized, before.deleting - frozenset(topic_ids))


def without(before: SharePartitions, topic_ids: Collection[bytes]) -> SharePartitions:
    """These topics were deleted from the cluster; `before` itself when it has none of them."""
    if before.names.keys().isdisjoint(topic_ids):
        return before
    return _entry(
        before,
        _without(before.initializing, topic_ids),
        _without(before.initialized, topic_ids),
        before.deleting - frozenset(topic_ids),
    )


def all_of(partitions: SharePartitions) -> TopicPartitions:
    """What is initializing or initialized: the share coordinator may have the states."""
    return _joined(partitions.initializing, partitions.initialized)


def _entry(
    before: SharePartitions,
    initializing: TopicPartitions,
    initialized: TopicPartitions,
    deleting: frozenset[bytes],
    names: Mapping[bytes, str] | None = None,
) -> SharePartitions:
    names = before.names if names is None else names
    used = {*initializing, *initialized, *deleting}
    return SharePartitions(
        initializing, initialized, deleting, {topic_id: names[topic_id] for topic_id in sorted(used)}
    )


def _joined(one: TopicPartitions, other: TopicPartitions) -> TopicPartitions:
    return {
        topic_id: one.get(topic_id, frozenset()) | other.get(topic_id, frozenset())
        for topic_id in dict.fromkeys([*one, *other])
    }


def _reduced(one: TopicPartitions, by: TopicPartitions) -> TopicPartitions:
    left = {topic_id: partitions - by.get(topic_id, frozenset()) for topic_id, partitions in one.items()}
    return {topic_id: partitions for topic_id, partitions in left.items() if partitions}


def _without(one: TopicPartitions, topic_ids: Collection[bytes]) -> TopicPartitions:
    return {topic_id: partitions for topic_id, partitions in one.items() if topic_id not in topic_ids}
