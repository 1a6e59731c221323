"""Where the last N records of partitions begin.

Rules: records count, not offsets: markers of transactions, aborted records and what was compacted away have offsets and are no
records. So the partitions are read backwards, a range before a range, until there are enough; each range is four times the one
behind it. What is kept is N offsets a partition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from protocol.messages.list_offsets import EARLIEST
from tools.group_lag import offsets_of
from tools.records.reading import Reading, ReadPlan, ends_now, known_offsets

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from tools.cluster import Cluster

_GROWTH = 4


def last_plan(
    cluster: Cluster, consumer: Consumer, topic: str, indexes: Iterable[int], count: int, *, is_committed_only: bool
) -> ReadPlan:
    """Return the plan of the last `count` records of each partition, up to their ends now. The consumer is made with
    `reading.SETTINGS` and reads nothing else meanwhile. Raises Failure, KafkaException."""
    keys = [(topic, index) for index in indexes]
    first = known_offsets(cluster.run(offsets_of(keys, EARLIEST)))
    ends, withheld = ends_now(cluster, keys, is_committed_only=is_committed_only)
    upper = {index: end for index, end in ends.items() if end > first[index]}
    wanted = dict.fromkeys(upper, count)
    plan = ReadPlan({}, {index: ends[index] for index in upper}, withheld=withheld)
    size = count
    while upper:
        lower = {index: max(end - size, first[index]) for index, end in upper.items()}
        found = _offsets_of_records(cluster, consumer, topic, ReadPlan(lower, upper), wanted)
        open_ends = {}
        for index, start in lower.items():
            wanted[index] -= len(found[index])
            if wanted[index] == 0:
                plan.starts[index] = found[index][0]
            elif start <= first[index]:
                plan.starts[index] = first[index]
            else:
                open_ends[index] = start
        upper = open_ends
        size *= _GROWTH
    return plan


def _offsets_of_records(
    cluster: Cluster, consumer: Consumer, topic: str, plan: ReadPlan, most: dict[int, int]
) -> dict[int, deque[int]]:
    """Return the offsets of the last records in the ranges of the plan, at most so many of each partition."""
    found = {index: deque[int](maxlen=most[index]) for index in plan.starts}
    reading = Reading(consumer, topic, plan, cluster.waits.moved)
    with cluster.waits.reading(topic, reading.left):
        while not reading.is_finished:
            for message in reading.poll():
                found[message.partition()].append(message.offset())
    return found
