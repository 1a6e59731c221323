"""Resolves what the options of a read say into partitions and offsets, by asking the brokers.

Rules: the forms of offsets, and what they mean, are those of Spark's Kafka source. A planner serves the driver; tasks read
ranges.
Errors: SourceOptionError when options do not fit what is there, ClusterUnavailable, KafkaError.
Source: Spark KafkaOffsetReaderAdmin.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.spark.client.cluster_client import ClusterClient, Topic
from barnabas.spark.client.option_values import Offsets, SourceOptionError
from barnabas.spark.client.ranges import LATEST
from barnabas.spark.reading.read_options import Position, ReadOptions
from protocol.topic_partition import TopicPartition


class Planner:
    """Asks one cluster for the partitions and offsets of one read."""

    def __init__(self, client: ClusterClient, options: ReadOptions) -> None:
        self._client = client
        self._options = options

    def topics(self, *, tolerates_missing: bool = False) -> dict[str, Topic]:
        """The chosen topics, with the chosen partitions of each. Raises what the module says."""
        selection = self._options.selection
        if selection.pattern is not None:
            found = self._client.topics()
        else:
            found = self._client.topics(selection.topics or {topic for topic, _ in selection.partitions})
        existing = {name: each.is_internal for name, each in found.items()}
        chosen = {name: found[name] for name in selection.of_topics(existing, tolerates_missing=tolerates_missing)}
        if not selection.partitions:
            return chosen
        missing = [
            f"{topic}-{number}"
            for topic, number in selection.partitions
            if topic in chosen and number not in chosen[topic].partitions
        ]
        if missing:
            raise SourceOptionError(f"assign names partitions that do not exist: {', '.join(missing)}")
        kept: dict[str, dict[int, int]] = {name: {} for name in chosen}
        for name, number in (key for key in selection.partitions if key[0] in chosen):
            kept[name][number] = chosen[name].partitions[number]
        return {name: Topic(each.topic_id, kept[name], each.is_internal) for name, each in chosen.items()}

    def resolve(self, position: Position, keys: Iterable[TopicPartition], *, is_start: bool) -> Offsets:
        """The offset in each partition. Raises what the module says."""
        keys = list(keys)
        if position.everywhere is not None:
            return self.all_at(position.everywhere, keys)
        if position.offsets is not None:
            check_covers(position.name, position.offsets, keys)
            symbolic = {key: offset for key, offset in position.offsets.items() if offset < 0}
            asked = self._client.offsets(symbolic)
            return {key: asked[key].offset if key in asked else position.offsets[key] for key in keys}
        if position.timestamps_ms is not None:
            check_covers(position.name, position.timestamps_ms, keys)
            times = position.timestamps_ms
        else:
            assert position.timestamp_ms is not None
            times = dict.fromkeys(keys, position.timestamp_ms)
        return self._at_times(position.name, times, is_start=is_start)

    def all_at(self, where: int, keys: Iterable[TopicPartition]) -> Offsets:
        """EARLIEST or LATEST of each partition."""
        return {key: found.offset for key, found in self._client.offsets(dict.fromkeys(keys, where)).items()}

    def _at_times(self, name: str, times: Offsets, *, is_start: bool) -> Offsets:
        found = self._client.offsets(times)
        late = [key for key, each in found.items() if each.offset < 0]
        if late and is_start and not self._options.starts_late_at_latest:
            raise late_error(name, late)
        ends = self._client.offsets(dict.fromkeys(late, LATEST))
        return {key: ends[key].offset if key in ends else each.offset for key, each in found.items()}


def check_order(start: Position, starts: Offsets, end: Position, ends: Offsets) -> None:
    """A read must not begin behind its end. Raises SourceOptionError."""
    for (topic, number), offset in sorted(starts.items()):
        if offset > ends[topic, number]:
            raise SourceOptionError(
                f"{topic}-{number}: {start.name} is offset {offset}, behind {end.name}, which is offset {ends[topic, number]}"
            )


def late_error(name: str, late: Iterable[TopicPartition]) -> SourceOptionError:
    places = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(late))
    return SourceOptionError(
        f"No record has the time of {name} or a later one in {places}. "
        "With startingOffsetsByTimestampStrategy latest a read begins at the end there"
    )


def check_covers(name: str, given: Iterable[TopicPartition], keys: Iterable[TopicPartition]) -> None:
    """Offsets of partitions must name each of them. Raises SourceOptionError."""
    named, existing = set(given), set(keys)
    if named != existing:
        missing = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(existing - named)) or "none"
        unknown = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(named - existing)) or "none"
        raise SourceOptionError(
            f"{name} must name every partition that is read, and no other (-2 is earliest, -1 latest). "
            f"Missing: {missing}. Not read: {unknown}"
        )
