"""A stream's offsets: where it begins, how far the next batch goes, and which ranges lie between two offsets.

Rules: offsets never go back: a partition whose leader has just changed may know an earlier end than the one before, until the
high watermark has reached it. A topic that was deleted and made again is seen by its id, and read from its beginning where
losses are tolerated.
Source: Spark KafkaMicroBatchStream.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from barnabas.spark.client.option_values import SourceOptionError
from barnabas.spark.client.ranges import OffsetRange, divide, limit
from barnabas.spark.reading.checkpoint import newest_offsets
from barnabas.spark.reading.fetching import DataLost
from barnabas.spark.reading.planning import Planner
from barnabas.spark.reading.read_options import ReadOptions
from barnabas.spark.reading.stream_offsets import StreamOffsets, begins, id_text, ranges_of
from client.blocking.cluster_client import UNKNOWN_S, ClusterClient
from client.cluster_view import Topic
from protocol.messages.list_offsets import EARLIEST, LATEST
from protocol.topic_partition import TopicPartition

try:
    from pyspark.sql.streaming import datasource as _limits
except ImportError:  # before PySpark 4.2
    _limits = None

AvailableNow: Any = object if _limits is None else _limits.SupportsTriggerAvailableNow
"""What a stream reader inherits to say that it can end where the topics end at its start."""
logger = logging.getLogger(__name__)


def read_limit(max_offsets: int | None) -> Any:
    """PySpark's form of a limit."""
    assert _limits is not None, "only asked for where there are limits"
    return _limits.ReadAllAvailable() if max_offsets is None else _limits.ReadMaxRows(max_offsets)


def most_rows(given: Any) -> int | None:
    """How many rows PySpark's limit allows."""
    found: int | None = getattr(given, "max_rows", None)
    return found


def reported(options: ReadOptions) -> Callable[[str], None]:
    """What is done about records that are gone and times that cannot be represented: an error, or a warning in the log."""

    def lost(what: str) -> None:
        if options.fails_on_loss:
            raise DataLost(what)
        logger.warning("data was lost: reason=%s", what)

    return lost


class Stream:
    """The offsets of one streaming query. It lives on the driver, as long as the query."""

    def __init__(self, client: ClusterClient, options: ReadOptions, lost: Callable[[str], None]) -> None:
        self._client = client
        self._planner = Planner(client, options)
        self._options = options
        self._lost = lost
        self._initial: StreamOffsets | None = None
        self._reached: StreamOffsets | None = None  # the newest offsets that Spark is known to have
        self._end: StreamOffsets | None = None  # of a bounded run

    def close(self) -> None:
        self._client.close()

    def initial(self) -> StreamOffsets:
        """Where a query that has no checkpoint begins: resolved once."""
        if self._initial is None:
            keys, ids = self._current()
            self._initial = StreamOffsets(self._planner.resolve(self._options.start, keys, is_start=True), ids)
        return self._initial

    def known_start(self) -> StreamOffsets | None:
        """Where the next batch begins, as far as that is known: Spark before 4.2 does not say it."""
        location = self._options.checkpoint
        if self._reached is None and location is not None:
            self._reached = newest_offsets(location, self._options.selection.chooses)
        if self._reached is None and self._options.max_offsets_per_trigger is not None:
            if location is None:
                raise SourceOptionError(
                    "maxOffsetsPerTrigger needs the option checkpointLocation, the same as that of the query, on "
                    "PySpark before 4.2: Spark does not say where a batch begins"
                )
            self._reached = self.initial()
        return self._reached

    def fix_end(self) -> None:
        """End the stream where the topics end now."""
        keys, ids = self._current()
        self._end = StreamOffsets(self._planner.all_at(LATEST, keys), ids)

    def latest(self, start: StreamOffsets | None, most: int | None) -> StreamOffsets:
        """How far the next batch goes, with at most about `most` records."""
        if self._end is not None:
            newest = self._end
        else:
            keys, ids = self._current()
            newest = StreamOffsets(self._planner.all_at(LATEST, keys), ids)
        self._reached = newest if start is None else self._bounded(start, newest, most)
        return self._reached

    def _bounded(self, start: StreamOffsets, newest: StreamOffsets, most: int | None) -> StreamOffsets:
        known = begins(start, newest, lambda _: None)
        ends = {key: max(offset, known.get(key, 0)) for key, offset in newest.offsets.items()}
        if most is None:
            return StreamOffsets(ends, newest.ids)
        added = self._planner.all_at(EARLIEST, [key for key in ends if key not in known])
        return StreamOffsets(limit(known | added, ends, most), newest.ids)

    def ranges(self, start: StreamOffsets, end: StreamOffsets) -> list[OffsetRange]:
        """What the tasks of the batch between two offsets read. Raises DataLost."""
        starts = begins(start, end, self._lost)
        added = self._planner.all_at(EARLIEST, [key for key in end.offsets if key not in starts])
        replaced = set(start.replaced(end))
        for (topic, number), offset in added.items():
            if offset > 0 and topic not in replaced:
                self._lost(f"{topic}-{number} is new, and its first {offset} offsets are gone")
        self._reached = end
        options = self._options
        return divide(ranges_of(starts | added, end.offsets), options.min_partitions, options.max_records_per_partition)

    def _current(self) -> tuple[list[TopicPartition], dict[str, str]]:
        """The partitions there are now, and the ids of their topics."""
        topics = self._topics()
        ids = {name: text for name, topic in topics.items() if (text := id_text(topic.topic_id)) is not None}
        return [(name, number) for name, topic in topics.items() for number in topic.partitions], ids

    def _topics(self) -> dict[str, Topic]:
        """The topics there are now. One that was read counts as missing only when it was for UNKNOWN_S."""
        known = set() if self._reached is None else {topic for topic, _ in self._reached.offsets}
        may_be_gone = self._reached is not None and not self._options.fails_on_loss
        attempts = self._client.attempts("Metadata")
        while True:
            is_over = attempts.elapsed_s >= UNKNOWN_S
            try:
                topics = self._planner.topics(tolerates_missing=may_be_gone)
                if known <= topics.keys() or is_over:
                    return topics
            except SourceOptionError:
                if not known or is_over:
                    raise
            attempts.pause("no broker knows all topics that were read before")
