"""Route records to topics by rules; what is invalid goes to a dead-letter topic.

    barnabas pipeline route --source orders --dead-letter orders-dead --checkpoint /var/lib/route \\
        --json-values --required value.id --otherwise orders-other \\
        --rule 'value.country = FR -> orders-fr' --rule 'header.kind ~ ^refund -> refunds'

`barnabas.pipeline.rules` says what a rule is. A record goes on as it is, with its key and its headers. A dead letter has
headers that say why, from where, and how many attempts it had (`barnabas.pipeline.dead_letters`); `barnabas dlq requeue` brings
it back. Dead are records that are no JSON (`--json-values`), that lack a required field, or that no rule has a topic for,
unless `--otherwise` names one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.pipeline.dead_letters import dead_letter_headers_sql
from barnabas.pipeline.frame import Job, Run
from barnabas.pipeline.options import InvalidOption, Options, option, topic
from barnabas.pipeline.records import keep, read_stream, write_stream
from barnabas.pipeline.rules import InvalidRule, literal, parse_rule, reason_sql, topic_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def routed(records: DataFrame, options: Options) -> DataFrame:
    """Return the rows to write: topic, key, value and headers."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    invalid = reason_sql(is_json=options.json, required=options.required)
    target = topic_sql([parse_rule(text) for text in options.rule], options.otherwise)
    judged = records.withColumn("_target", f.expr(f"CASE WHEN ({invalid}) IS NULL THEN {target} END"))
    judged = judged.withColumn(
        "_reason", f.expr(f"CASE WHEN _target IS NULL THEN COALESCE({invalid}, 'no rule matches') END")
    )
    counted = keep(judged, {}, {"dead letters": f.col("_target").isNull()})
    return counted.select(
        f.expr(f"COALESCE(_target, {literal(options.dead_letter)})").alias("topic"),
        "key",
        "value",
        f.expr(f"CASE WHEN _target IS NULL THEN {dead_letter_headers_sql('_reason')} ELSE headers END").alias(
            "headers"
        ),
    )


def begin(spark: SparkSession, options: Options, _run: Run) -> StreamingQuery:
    """Start the query."""
    return write_stream(routed(read_stream(spark, options, options.source), options), options)


def targets(options: Options) -> list[str]:
    """Return the topics that rules name."""
    named = [parse_rule(text).topic for text in options.rule]
    return named + [options.otherwise] * (options.otherwise is not None)


def check(options: Options) -> None:
    """Raise InvalidOption for rules that are none, and for a topic that the job would read again."""
    try:
        topics = [*targets(options), options.dead_letter]
        reason_sql(is_json=options.json, required=options.required)
    except InvalidRule as error:
        raise InvalidOption(f"--rule or --required: {error}") from None
    if not targets(options):
        raise InvalidOption("nothing is routed: name --rule or --otherwise")
    if options.source in topics:
        raise InvalidOption(f"--source {options.source} is also a target: its records would come again and again")


OPTIONS = (
    option("--source", type=topic, required=True, metavar="TOPIC", help="topic to read"),
    option(
        "--rule",
        metavar="'CONDITION -> TOPIC'",
        help="send a record to the topic of the first rule that matches; may be repeated",
        multiple=True,
    ),
    option("--otherwise", type=topic, metavar="TOPIC", help="topic for records that no rule matches"),
    option("--dead-letter", type=topic, required=True, metavar="TOPIC", help="topic for invalid records"),
    option("--json-values", "--json", "json", help="values must be JSON", is_flag=True),
    option(
        "--required",
        metavar="FIELD",
        help="key, header.NAME or value.FIELD that a record must have; may be repeated",
        multiple=True,
    ),
)
job = Job(
    "route",
    "Route records to topics by key, header or content; invalid ones to a dead-letter topic.",
    OPTIONS,
    topics=lambda options: [options.source],
    targets=lambda options: [options.dead_letter, *targets(options)],
    begin=begin,
    check=check,
)

if __name__ == "__main__":
    job.main()
