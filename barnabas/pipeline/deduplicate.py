"""Copy a topic without the records that repeat one that came before, by key, header or content.

    barnabas pipeline deduplicate --source orders --target orders-once --by header.id --within "10 minutes" --checkpoint
    /var/lib/dedup

`--by` is `key`, `header.NAME` or `value.FIELD` of a JSON object, and may be repeated. A record repeats another when these
are equal, and its timestamp is up to `--within` later. Records without one of the fields are dropped and counted, or go on
with `--pass`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.pipeline.frame import Job, Run
from barnabas.pipeline.options import InvalidOption, Options, duration, option, topic
from barnabas.pipeline.records import keep, read_stream, write_stream
from barnabas.pipeline.rules import InvalidRule, field_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def once(records: DataFrame, options: Options) -> DataFrame:
    """Return the records without those that repeat one."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    names = [f"_by{number}" for number in range(len(options.by))]
    fields = {name: f.expr(field_sql(field)) for name, field in zip(names, options.by, strict=True)}
    if options.pass_on:  # what has no identity repeats nothing
        place = f.concat_ws("/", f.lit("none"), "topic", "partition", "offset")
        fields = {name: f.coalesce(column, place) for name, column in fields.items()}
    missing = {f"no {field}": f.col(name).isNull() for name, field in zip(names, options.by, strict=True)}
    identified = keep(records.withColumns(fields), missing)
    return identified.withWatermark("timestamp", options.within).dropDuplicatesWithinWatermark(names)


def begin(spark: SparkSession, options: Options, _run: Run) -> StreamingQuery:
    """Start the query."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    rows = once(read_stream(spark, options, options.source), options)
    return write_stream(rows.select(f.lit(options.target).alias("topic"), "key", "value", "headers"), options)


def check(options: Options) -> None:
    """Raise InvalidOption for fields that are none, and for a target that is the source."""
    try:
        for field in options.by:
            field_sql(field)
    except InvalidRule as error:
        raise InvalidOption(f"--by: {error}") from None
    if options.source == options.target:
        raise InvalidOption(f"--source and --target are both {options.source}")


OPTIONS = (
    option("--source", type=topic, required=True, metavar="TOPIC", help="topic to read"),
    option("--target", type=topic, required=True, metavar="TOPIC", help="topic to write"),
    option(
        "--by", required=True, metavar="FIELD", help="key, header.NAME or value.FIELD; may be repeated", multiple=True
    ),
    option(
        "--within", type=duration, default="10 minutes", help="how much later a repetition may come", metavar="DURATION"
    ),
    option("--pass", "pass_on", help="copy records without the field", is_flag=True),
)
job = Job(
    "deduplicate",
    "Copy a topic without the records that repeat one, by key, header or content.",
    OPTIONS,
    topics=lambda options: [options.source],
    targets=lambda options: [options.target],
    begin=begin,
    check=check,
)

if __name__ == "__main__":
    job.main()
