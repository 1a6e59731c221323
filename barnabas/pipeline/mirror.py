"""Copy topics from one cluster to another, as they are, and keep which offsets correspond.

    barnabas pipeline mirror --bootstrap-servers a:9092 --target-servers b:9092 --topics orders,payments \\
        --groups billing,shipping --checkpoint /var/lib/mirror

Each record goes to the partition of the same number, with key, value, headers and timestamp. Topics have the same names in the
target (with `--prefix` in front), where they must exist with as many partitions or more. After each batch pairs of offsets are
written to `barnabas-offset-syncs` of the target; `barnabas.pipeline.offset_pairs` says what they mean.

`--groups` commits the offsets of these consumer groups in the target, translated, as long as a group has no members there;
offsets do not go back. Records are delivered at least once: a batch that was interrupted is written again. Only committed
records of transactions are copied. Another producer to a topic of the target makes translated offsets less exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.pipeline.frame import Job, JobFailed, Run
from barnabas.pipeline.offset_pairs import (
    TOPIC,
    OffsetPair,
    PairsOfPartition,
    pair_key,
    pair_value,
    pairs_of_batch,
    parse_pair,
    to_advance,
)
from barnabas.pipeline.options import InvalidOption, Options, client_settings, listed_names, option, servers, topics
from barnabas.pipeline.preflight import check_cluster
from barnabas.pipeline.records import keep, read_batch, read_stream, source_options, start, write_batch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

COLUMNS = ("topic", "partition", "key", "value", "headers", "timestamp")
Pairs = dict[tuple[str, int], list[OffsetPair]]


class Mirror:
    """What lives as long as a query: the pairs of each partition, by the source's names."""

    def __init__(self, spark: SparkSession, options: Options, run: Run) -> None:
        self._spark = spark
        self._options = options
        self._run = run
        self._pairs: dict[tuple[str, int], PairsOfPartition] = {}

    def load(self) -> None:
        """Read the pairs that earlier runs have written."""
        target = Options(**vars(self._options))
        target.bootstrap_servers, target.command_config = self._options.target_servers, self._options.target_config
        rows = read_batch(self._spark, target, TOPIC).orderBy("partition", "offset").selectExpr("CAST(value AS STRING)")
        for row in rows.collect():
            key, pair = parse_pair(row[0])
            self._add({key: [pair]})

    def copy(self, rows: DataFrame) -> None:
        """Copy a batch, write its pairs, and commit the offsets of groups."""
        from pyspark.sql import functions as f  # noqa: PLC0415

        from barnabas.spark.client.groups import end_offsets  # noqa: PLC0415  needs the extra

        grouped = rows.groupBy("topic", "partition").agg(f.min("offset"), f.max("offset"), f.count("*"))
        spans = {(row[0], row[1]): (row[2], row[3], row[4]) for row in grouped.collect()}
        names = {key: (self._options.prefix + key[0], key[1]) for key in spans}
        target = target_connection(self._options)
        before = end_offsets(target, names.values())
        self._write(rows)
        after = end_offsets(target, names.values())
        pairs = {key: pairs_of_batch(*span, before[names[key]], after[names[key]]) for key, span in spans.items()}
        self._write_pairs(pairs)
        self._add(pairs)
        self._run.totals.written += sum(count for _, _, count in spans.values())
        self.commit_groups()

    def commit_groups(self) -> None:
        """Commit what groups have committed in the source, where that is past what they have in the target."""
        from barnabas.spark.client.groups import client_of, commit_offsets, committed_offsets  # noqa: PLC0415

        if not self._options.groups:
            return
        with (
            client_of(source_connection(self._options)) as source,
            client_of(target_connection(self._options)) as target,
        ):
            for group in self._options.groups:
                translated = self.translate(committed_offsets(source, group))
                advanced = to_advance(translated, committed_offsets(target, group))
                if advanced and not commit_offsets(target, group, advanced):
                    self._run.say(f"group {group} has members in the target: its offsets there are its own")

    def translate(self, committed: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Return the offsets in the target for those committed in the source, where they are known."""
        translated = {}
        for (topic, partition), offset in committed.items():
            pairs = self._pairs.get((topic, partition))
            found = None if pairs is None else pairs.translate(offset)
            if found is not None:
                translated[self._options.prefix + topic, partition] = found
        return translated

    def _add(self, pairs: Mapping[tuple[str, int], Sequence[OffsetPair]]) -> None:
        for key, those in pairs.items():
            self._pairs.setdefault(key, PairsOfPartition()).add(those)

    def _write(self, rows: DataFrame) -> None:
        from pyspark.sql import functions as f  # noqa: PLC0415

        ordered = rows.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")
        named = ordered.withColumn("topic", f.concat(f.lit(self._options.prefix), "topic"))
        write_batch(named.select(*COLUMNS), self._options, target_connection(self._options))

    def _write_pairs(self, pairs: Pairs) -> None:
        rows = [
            (TOPIC, pair_key(*key).encode(), pair_value(*key, pair).encode())
            for key, those in pairs.items()
            for pair in those
        ]
        frame = self._spark.createDataFrame(rows, "topic STRING, key BINARY, value BINARY").coalesce(1)
        write_batch(frame, self._options, target_connection(self._options))


def begin(spark: SparkSession, options: Options, run: Run) -> StreamingQuery:
    """Start the query."""
    mirror = Mirror(spark, options, run)
    make_pairs_topic(options)
    if options.groups:
        mirror.load()
        mirror.commit_groups()
    records = keep(read_stream(spark, options, options.topics), {})

    def copy(rows: DataFrame, _batch_id: int) -> None:
        cached = rows.persist()
        try:
            mirror.copy(cached)
        finally:
            cached.unpersist()

    return start(records.writeStream.foreachBatch(copy), options)


def source_connection(options: Options) -> dict[str, str]:
    """Return the settings of clients of the source cluster."""
    return source_options(options.command_config, options.bootstrap_servers)


def target_connection(options: Options) -> dict[str, str]:
    """Return the settings of clients of the target cluster."""
    return source_options(options.target_config, options.target_servers)


def make_pairs_topic(options: Options) -> None:
    """Return when the topic of the pairs exists: brokers create it after they have answered. Raises NotReady, OSError."""
    from barnabas.spark.client.groups import client_of  # noqa: PLC0415  needs the extra

    check_cluster(options.target_servers, options.target_config, [TOPIC], creates=True)
    with client_of(target_connection(options)) as client:
        attempts = client.attempts(f"creation of topic {TOPIC}")
        while TOPIC not in client.topics([TOPIC]):
            attempts.pause("it does not exist yet")


def check_target(options: Options) -> None:
    """Raise NotReady unless the target cluster has the topics, and JobFailed when one has too few partitions there."""
    from barnabas.spark.client.groups import client_of  # noqa: PLC0415  needs the extra

    names = options.topics.split(",")
    check_cluster(options.target_servers, options.target_config, [options.prefix + name for name in names])
    with client_of(source_connection(options)) as source, client_of(target_connection(options)) as target:
        theirs, ours = source.topics(names), target.topics([options.prefix + name for name in names])
    for name in names:
        wanted, found = len(theirs[name].partitions), len(ours[options.prefix + name].partitions)
        if found < wanted:
            raise JobFailed(
                f"topic {options.prefix}{name} has {found} partitions in the target, and {wanted} are needed"
            )


def check(options: Options) -> None:
    """Raise InvalidOption for a copy onto itself, and for what the connector cannot do."""
    if options.connector:
        raise InvalidOption("--connector cannot write timestamps, which mirror keeps: leave it out")
    if options.target_servers == options.bootstrap_servers and not options.prefix:
        raise InvalidOption(
            f"--target-servers are the source, {options.target_servers}: name --prefix or another cluster"
        )


OPTIONS = (
    option("--topics", type=topics, required=True, metavar="NAME,...", help="topics to copy"),
    option("--target-servers", type=servers, required=True, metavar="HOST:PORT,...", help="the other cluster"),
    option(
        "--target-config",
        type=client_settings,
        default="",
        metavar="FILE",
        help="properties file with settings of the Kafka client for the target",
    ),
    option("--prefix", default="", metavar="TEXT", help="a text in front of the names of topics in the target"),
    option(
        "--groups",
        type=listed_names,
        default="",
        metavar="NAME,...",
        help='consumer groups whose offsets the job translates; put a name with a comma in "quotes"',
    ),
)
job = Job(
    "mirror",
    "Copy topics to another cluster as they are, with translated offsets of groups.",
    OPTIONS,
    topics=lambda options: options.topics.split(","),
    begin=begin,
    check=check,
    check_more=check_target,
)

if __name__ == "__main__":
    job.main()
