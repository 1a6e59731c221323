"""Bring dead letters back to their topics, with a growing delay, up to a limit; then park them.

    barnabas pipeline retry --dead-letter orders-dead --parked orders-parked --checkpoint /var/lib/retry \\
        --first-delay "1 minute" --factor 4 --most-delay "6 hours" --limit 5

A dead letter goes back to the topic in its header `barnabas-source-topic`, as the record that it was, with
`barnabas-attempt`; when it fails again, the job `route` counts on. A dead letter without that header is parked. Delays
count from the dead letter's timestamp.

Each round reads the dead letters that are not handled yet, so letters that wait cost a read of what came after them.
Records are written before it is remembered that they are handled: after a crash some come twice.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from barnabas.pipeline.dead_letters import (
    PARKED,
    RETRIED,
    Handled,
    Schedule,
    WaitingLetter,
    attempt_sql,
    headers_without_sql,
)
from barnabas.pipeline.frame import Job, Run
from barnabas.pipeline.options import (
    AVAILABLE_NOW,
    LOSS_OPTION,
    POSITIVE,
    InvalidOption,
    Options,
    duration,
    duration_s,
    folder,
    option,
    positive_number,
    topic,
    trigger,
)
from barnabas.pipeline.records import read_batch, write_batch
from barnabas.pipeline.rules import header_sql, literal
from barnabas.pipeline.stored import StoredText
from barnabas.spark.letters import PLACE, SOURCE_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def begin(spark: SparkSession, options: Options, run: Run) -> None:
    """Do rounds until the run stops, or one round when the trigger is available-now."""
    interval_s = 0 if options.trigger == AVAILABLE_NOW else duration_s(options.trigger)
    state = StoredText(spark, options.checkpoint, "handled")
    while not run.stop.is_set():
        do_round(spark, options, run, state, int(time.time() * 1000))  # noqa: TID251  the user's process, not the broker
        if not interval_s or run.stop.wait(interval_s):
            return


def do_round(spark: SparkSession, options: Options, run: Run, state: StoredText, now_ms: int) -> None:
    """Handle the dead letters that are due at `now_ms`."""
    handled = Handled.from_json(json.loads(state.read() or "{}"))
    letters = read_letters(spark, options, handled).cache()
    try:
        columns = letters.selectExpr(
            "partition", "offset", "COALESCE(UNIX_MILLIS(timestamp), 0)", "attempt", "target IS NULL"
        )
        rows = [(WaitingLetter(*row[:4]), row[4]) for row in columns.collect()]
        seen = [letter for letter, _ in rows]
        plan = plan_round(rows, handled, schedule(options), now_ms)
        if plan:
            write_batch(rows_of(spark, letters, plan, options), options)
            state.write(json.dumps(handled.after(seen, plan).to_json()))
    finally:
        letters.unpersist()
    run.totals.read += sum(not handled.has(letter) for letter in plan)
    run.totals.written += len(plan)
    run.totals.other[PARKED] += sum(action == PARKED for action in plan.values())
    run.totals.other["waiting"] = sum(not handled.has(letter) for letter in seen) - len(plan)
    run.show()


def plan_round(
    rows: list[tuple[WaitingLetter, bool]], handled: Handled, times: Schedule, now_ms: int
) -> dict[WaitingLetter, str]:
    """Return what to do with each dead letter that is due. The second of each pair says that it has no target."""
    decided = {
        letter: PARKED if has_no_target else times.decide(letter.attempt, letter.timestamp_ms, now_ms)
        for letter, has_no_target in rows
        if not handled.has(letter)
    }
    return {letter: action for letter, action in decided.items() if action is not None}


def read_letters(spark: SparkSession, options: Options, handled: Handled) -> DataFrame:
    """Return the dead letters that may not be handled yet, with `attempt` and `target`."""
    target = literal(options.to) if options.to else f"CAST({header_sql(SOURCE_TOPIC)} AS STRING)"
    records = read_batch(spark, options, options.dead_letter, {"startingOffsets": "earliest"})
    for partition, start in handled.starts.items():
        records = records.where(f"partition != {partition} OR offset >= {start}")
    return records.selectExpr("*", f"{attempt_sql()} AS attempt", f"{target} AS target")


def rows_of(spark: SparkSession, letters: DataFrame, plan: dict[WaitingLetter, str], options: Options) -> DataFrame:
    """Return the rows to write for the letters that are due."""
    actions = [(letter.partition, letter.offset, action) for letter, action in plan.items()]
    planned = spark.createDataFrame(actions, "partition INT, offset BIGINT, action STRING")
    is_retried = f"action = {literal(RETRIED)}"
    return letters.join(planned, ["partition", "offset"]).selectExpr(
        f"CASE WHEN {is_retried} THEN target ELSE {literal(options.parked)} END AS topic",
        "key",
        "value",
        f"CASE WHEN {is_retried} THEN {headers_without_sql(PLACE)} ELSE headers END AS headers",
    )


def schedule(options: Options) -> Schedule:
    """Return the delays that the options describe."""
    first_s, most_s = duration_s(options.first_delay), duration_s(options.most_delay)
    return Schedule(first_s, options.factor, most_s, options.limit)


def check(options: Options) -> None:
    """Raise InvalidOption for delays that shrink, and for a topic that would be read again."""
    if options.factor < 1:
        raise InvalidOption(f"--factor {options.factor:g} is below 1: delays must not shrink")
    if options.dead_letter in (options.parked, options.to):
        raise InvalidOption(f"--dead-letter {options.dead_letter} cannot be where its records go")


OPTIONS = (
    option("--dead-letter", type=topic, required=True, metavar="TOPIC", help="topic with the dead letters"),
    option("--parked", type=topic, required=True, metavar="TOPIC", help="topic for dead letters that the job gives up"),
    option("--to", type=topic, metavar="TOPIC", help="topic to send them to; without it the topic they came from"),
    option(
        "--first-delay",
        type=duration,
        default="1 minute",
        help="the delay before the second attempt",
        metavar="DURATION",
    ),
    option(
        "--factor",
        type=positive_number,
        default="2",
        help="each delay is so many times as long as the one before",
        metavar="NUMBER",
    ),
    option("--most-delay", type=duration, default="1 hour", help="the longest delay", metavar="DURATION"),
    option("--limit", type=POSITIVE, default=5, metavar="COUNT", help="attempts before a record is parked"),
    LOSS_OPTION,
    option(
        "--checkpoint", type=folder, required=True, metavar="FOLDER", help="where the job remembers what it has handled"
    ),
    option(
        "--trigger",
        type=trigger,
        default="10 seconds",
        metavar="WHEN",
        help=f"{AVAILABLE_NOW}: do one round and end; '10 seconds': do a round at this interval until a "
        "signal stops the job",
    ),
)
job = Job(
    "retry",
    "Bring dead letters back with a growing delay, up to a limit; then park them.",
    OPTIONS,
    topics=lambda options: [options.dead_letter],
    targets=lambda options: [options.parked, *([options.to] if options.to else [])],
    begin=begin,
    is_stream=False,
    check=check,
)

if __name__ == "__main__":
    job.main()
