"""The options of a read, as they are known from Spark's Kafka source. Pure.

Exactly one of `subscribe`, `subscribePattern` and `assign` says which partitions; of the ways to say where to begin, the
first one given counts: `startingTimestamp`, `startingOffsetsByTimestamp`, `startingOffsets`; and so for the end of a batch
read.

Rules: pure; nobody is asked whether topics exist. An option that is not known is an error that lists those that are.
Source: Spark KafkaSourceProvider, and its documentation "Structured Streaming + Kafka Integration Guide".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.spark.client.client_options import by_lower_name, is_client_option, parse_client
from barnabas.spark.client.option_values import (
    Offsets,
    SourceOptionError,
    boolean,
    by_partition,
    check_names,
    choice,
    integer,
    partitions,
    read,
    trimmed,
    words,
)
from barnabas.spark.client.settings import SparkClientSettings
from config.java_patterns.pattern import compile_java
from protocol.messages.list_offsets import EARLIEST, LATEST
from protocol.topic_partition import TopicPartition

SELECTIONS: Final = ("subscribe", "subscribePattern", "assign")
STARTS: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
ENDS: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
KNOWN: Final = (
    *SELECTIONS, *STARTS, *ENDS, "startingOffsetsByTimestampStrategy", "failOnDataLoss", "includeHeaders",
    "skipExpired", "maxOffsetsPerTrigger", "minPartitions", "maxRecordsPerPartition", "path", "checkpointLocation",
)  # fmt: skip
CHECKPOINT: Final = "checkpoint"
"""As `endingOffsets` of log files: the high watermarks that the broker wrote down."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which partitions: topics by name, topics by a pattern that matches the whole name, or partitions."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def chooses(self, topic: str) -> bool:
        """Whether the selection may have partitions of a topic."""
        if self.pattern is not None:
            return compile_java(self.pattern).fullmatch(topic) is not None
        return topic in self.topics or any(topic == name for name, _ in self.partitions)

    def of_topics(self, existing: Mapping[str, bool], *, tolerates_missing: bool = False) -> list[str]:
        """The chosen ones of the topics that exist; `existing` says of each whether it is internal. Raises SourceOptionError
        for a named topic that is missing."""
        if self.pattern is not None:
            fits = compile_java(self.pattern).fullmatch
            return sorted(name for name, internal in existing.items() if not internal and fits(name))
        named = self.topics or tuple(dict.fromkeys(topic for topic, _ in self.partitions))
        missing = [name for name in named if name not in existing]
        if missing and not tolerates_missing:
            subject = f"Topic {missing[0]} does" if len(missing) == 1 else f"Topics {', '.join(missing)} do"
            raise SourceOptionError(f"{subject} not exist")
        return sorted(name for name in named if name in existing)


@dataclass(frozen=True, slots=True)
class Position:
    """Where to begin or end: one of them is given.

    `everywhere` is EARLIEST or LATEST; `offsets` may have those in place of an offset; times are in ms since 1970.
    """

    name: str
    everywhere: int | None = None
    offsets: Offsets | None = None
    timestamp_ms: int | None = None
    timestamps_ms: Offsets | None = None
    is_checkpoint: bool = False


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """`paths` of data directories, empty for a read from brokers; `client` is None then."""

    selection: Selection
    start: Position
    end: Position
    client: SparkClientSettings | None
    paths: tuple[str, ...] = ()
    starts_late_at_latest: bool = False
    """A start by time goes to the end of a partition without such a record; else that is an error."""
    fails_on_loss: bool = True
    include_headers: bool = False
    skips_expired: bool = False
    """Records whose header `barnabas-expires-at` is over when the read is planned give no rows."""
    max_offsets_per_trigger: int | None = None
    checkpoint: str | None = None
    """The query's checkpoint, where Spark does not say how far a stream has come (`barnabas.spark.reading.checkpoint`)."""
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    reads_committed: bool = True
    checks_crcs: bool = True


def parse_read(options: Mapping[str, str], *, is_streaming: bool) -> ReadOptions:
    """Raises SourceOptionError."""
    given = by_lower_name(options)
    check_names((name for name in given if not is_client_option(name)), KNOWN, "Option")
    paths = read(given, "path", words, ())
    if paths and is_streaming:
        raise SourceOptionError("Option 'path' reads log files in a batch; a streaming read needs brokers")
    if paths:
        given.setdefault("kafka.bootstrap.servers", "unused:1")
    client = parse_client(given)
    start = _position(given, STARTS, LATEST if is_streaming else EARLIEST)
    end = _position(given, ENDS, LATEST)
    if is_streaming:
        _forbid(given, ENDS, "belongs to batch reads: a stream has no end")
    else:
        _forbid(given, ("maxOffsetsPerTrigger", "checkpointLocation"), "belongs to streaming reads")
        if start.everywhere == LATEST or LATEST in (start.offsets or {}).values():
            raise SourceOptionError(f"{start.name} of a batch read cannot be latest (-1): nothing would be read")
    if end.everywhere == EARLIEST or EARLIEST in (end.offsets or {}).values():
        raise SourceOptionError(f"{end.name} cannot be earliest (-2): nothing would be read")
    if end.is_checkpoint and not paths:
        raise SourceOptionError("endingOffsets checkpoint belongs to reads of log files (option 'path')")
    return ReadOptions(
        selection=_selection(given),
        start=start,
        end=end,
        client=None if paths else client,
        paths=paths,
        starts_late_at_latest=read(
            given, "startingOffsetsByTimestampStrategy", choice, False, {"error": False, "latest": True}
        ),
        fails_on_loss=read(given, "failOnDataLoss", boolean, True),
        include_headers=includes_headers(given),
        skips_expired=read(given, "skipExpired", boolean, False),
        max_offsets_per_trigger=read(given, "maxOffsetsPerTrigger", integer, None, 1),
        checkpoint=given.get("checkpointlocation"),
        min_partitions=read(given, "minPartitions", integer, None, 1),
        max_records_per_partition=read(given, "maxRecordsPerPartition", integer, None, 1),
        reads_committed=client.reads_committed,
        checks_crcs=client.checks_crcs,
    )


def includes_headers(options: Mapping[str, str]) -> bool:
    """Whether there is a column of headers. Raises SourceOptionError."""
    found: bool = read(by_lower_name(options), "includeHeaders", boolean, False)
    return found


def _forbid(given: Mapping[str, str], names: tuple[str, ...], why: str) -> None:
    for name in names:
        if name.lower() in given:
            raise SourceOptionError(f"Option {name!r} {why}")


def _selection(given: Mapping[str, str]) -> Selection:
    chosen = [name for name in SELECTIONS if name.lower() in given]
    if len(chosen) != 1:
        found = " and ".join(map(repr, chosen)) or "none"
        raise SourceOptionError(f"Exactly one of the options {', '.join(SELECTIONS)} is needed; {found} was given")
    name, text = chosen[0], given[chosen[0].lower()]
    if name == "subscribe":
        return Selection(topics=words(name, text))
    if name == "assign":
        return Selection(partitions=partitions(name, text))
    pattern = trimmed(name, text)
    try:
        compile_java(pattern)
    except ValueError as error:
        raise SourceOptionError(f"subscribePattern is a regular expression of Java, not {text!r}: {error}") from None
    return Selection(pattern=pattern)


def _position(given: Mapping[str, str], names: tuple[str, ...], default: int) -> Position:
    timestamp, timestamps, offsets = names
    if timestamp.lower() in given:
        return Position(timestamp, timestamp_ms=integer(timestamp, given[timestamp.lower()]))
    if timestamps.lower() in given:
        return Position(timestamps, timestamps_ms=by_partition(timestamps, given[timestamps.lower()], 0))
    text = given.get(offsets.lower())
    if text is None:
        return Position(offsets, everywhere=default)
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return Position(offsets, everywhere=EARLIEST if word == "earliest" else LATEST)
    if word == CHECKPOINT and names is ENDS:
        return Position(offsets, is_checkpoint=True)
    if not text.strip().startswith("{"):
        raise SourceOptionError(
            f'{offsets} is earliest, latest or JSON such as {{"topic": {{"0": 23, "1": -2}}}}, not {text!r}'
        )
    return Position(offsets, offsets=by_partition(offsets, text, EARLIEST))
