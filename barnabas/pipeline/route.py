"""Route records to topics by rules; what is invalid goes to a dead-letter topic.

    barnabas pipeline route --source orders --dead-letter orders-dead --checkpoint /var/lib/route --json --required value.id \\
        --rule 'value.country = FR -> orders-fr' --rule 'header.kind ~ ^refund -> refunds' --otherwise orders-other

`barnabas.pipeline.rules` says what a rule is. A record goes on as it is, with its key and its headers. A dead letter has
headers that say why, from where, and how many attempts it had (`barnabas.pipeline.dead_letters`); the job `retry` brings it
back. Dead are records that are no JSON (`--json`), that lack a required field, or that no rule has a topic for, unless
`--otherwise` names one.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from barnabas.pipeline.dead_letters import dead_letter_headers_sql
from barnabas.pipeline.frame import Job, Run
from barnabas.pipeline.options import InvalidOption, Parser, topic
from barnabas.pipeline.records import keep, read_stream, write_stream
from barnabas.pipeline.rules import InvalidRule, literal, parse_rule, reason_sql, topic_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def routed(records: DataFrame, options: argparse.Namespace) -> DataFrame:
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


def begin(spark: SparkSession, options: argparse.Namespace, _run: Run) -> StreamingQuery:
    """Start the query."""
    return write_stream(routed(read_stream(spark, options, options.source), options), options)


def targets(options: argparse.Namespace) -> list[str]:
    """Return the topics that rules name."""
    named = [parse_rule(text).topic for text in options.rule]
    return named + [options.otherwise] * (options.otherwise is not None)


def check(options: argparse.Namespace) -> None:
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


def add_options(made: Parser) -> None:
    """Add the job's own options."""
    made.add_argument("--source", type=topic, required=True, metavar="TOPIC", help="topic to read")
    made.add_argument("--rule", action="append", default=[], metavar="'CONDITION -> TOPIC'",
                      help="send a record to the topic of the first rule that matches; may be repeated")  # fmt: skip
    made.add_argument("--otherwise", type=topic, metavar="TOPIC", help="topic for records that no rule matches")
    made.add_argument("--dead-letter", type=topic, required=True, metavar="TOPIC", help="topic for invalid records")
    made.add_argument("--json", action="store_true", help="values must be JSON")
    made.add_argument("--required", action="append", default=[], metavar="FIELD",
                      help="key, header.NAME or value.FIELD that a record must have; may be repeated")  # fmt: skip


job = Job(
    "route",
    "Route records to topics by key, header or content; invalid ones to a dead-letter topic.",
    add_options,
    topics=lambda options: [options.source],
    targets=lambda options: [options.dead_letter, *targets(options)],
    begin=begin,
    check=check,
)

if __name__ == "__main__":
    job.main()
