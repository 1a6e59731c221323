"""`barnabas balance`: give every broker its share of replicas, leaders, bytes and load, and take brokers out of service.

Source: the goals of Cruise Control; kafka-reassign-partitions.sh carries out the same plans.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from runtime.command_line import parsing
from runtime.command_line.execute_option import execute_option
from runtime.command_line.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED
from runtime.command_line.output import STATUS, Output
from runtime.texts import count_text, size_text
from tools.balance.goals import THRESHOLD_PERCENT
from tools.balance.layout import Layout
from tools.balance.planning import BalancePlan, layout_of, plan_balance
from tools.balance.survey import Survey, survey
from tools.cluster import Cluster, cluster_command
from tools.reassignment.execution import Execution
from tools.reassignment.plan_file import plan_of, write_plan
from tools.reassignment.terminal import TerminalReport, carry_out, carry_out_until_interrupted
from tools.setting_units import Size

_BATCH = 20
_NAMED = 5


@click.command("balance")
@click.option(
    "--topics", "topic_list", metavar="NAME,...", help="move only these; orders-* is each that begins with it [all]"
)
@click.option("--drain", metavar="1,2", help="move all replicas away from these brokers")
@click.option("--exclude-brokers", metavar="1,2", help="move nothing from or to these brokers")
@click.option("--threshold", type=click.IntRange(1, 100), default=THRESHOLD_PERCENT, metavar="PERCENT",
              help=f"bytes and rates that differ less from the mean are even [{THRESHOLD_PERCENT}]")  # fmt: skip
@click.option("--sample-seconds", type=click.FloatRange(0), default=2.0, metavar="S",
              help="how long to measure how fast partitions grow; 0 ignores rates [2]")  # fmt: skip
@click.option(
    "--output", "path", metavar="FILE", help="write the plan, for `partitions reassign` or kafka-reassign-partitions.sh"
)
@click.option("--rollback", metavar="FILE", help="where to keep the plan that takes everything back")
@execute_option("move the replicas")
@click.option("--throttle", type=Size(1), metavar="BYTES/S", help="limit of what brokers send each other for the moves")
@click.option("--batch-size", type=click.IntRange(1), default=_BATCH, metavar="N",
              help=f"so many partitions are copied at a time [{_BATCH}]")  # fmt: skip
@cluster_command
def command(
    cluster: Cluster,
    output: Output,
    *,
    topic_list: str | None,
    drain: str | None,
    exclude_brokers: str | None,
    threshold: int,
    sample_seconds: float,
    path: str | None,
    rollback: str | None,
    execute: bool,
    throttle: int | None,
    batch_size: int,
) -> int:
    """Show how to even out the brokers, and with --execute do it.

    The goals, in this order, none of which harms one before it: the replicas of a partition on as many racks as possible, as
    many replicas on each broker, as many preferred leaders, as many bytes, as many records a second written to its leaders.
    Leaders change without copying. What is copied is what it costs: few and small partitions are moved, and bytes and
    rates only where that evens out a tenth at least of what it copies.
    """
    topics = topic_list.split(",") if topic_list else ()
    seen = carry_out(survey(topics, sample_seconds, cluster.clock, STATUS.tell), cluster)
    STATUS.clear()
    plan = plan_balance(seen, _layout(seen, drain, exclude_brokers), threshold)
    moves, needed = plan.moves, plan.needed
    try:
        _show(output, plan)
    except BrokenPipeError:  # who has read enough of the table still wants what it shows
        if not execute:
            raise
    for note in plan.notes():
        Output.note(note)
    code = EXIT_FAILED if needed else 0
    if path is not None:
        write_plan(path, plan_of({move.key: move.after for move in moves}))
    if rollback is not None:
        write_plan(rollback, plan_of({move.key: move.before for move in moves}))
    if not moves:
        Output.note("nothing is to be moved" if needed else "nothing is to be moved: the brokers are even")
        return code
    copied = size_text(sum(move.copied_bytes for move in moves))
    if not execute:
        change = count_text(len(moves), "partition", "changes", "change")
        Output.note(f"{change}, {copied} are to be copied; nothing is moved: --execute begins")
        return code
    report = TerminalReport(sum(move.copied_bytes for move in moves), cluster.clock)
    execution = Execution(report, cluster.settings.bootstrap_servers, moves, throttle, batch_size)
    changed = count_text(len(moves), "partition", "has changed", "have changed")
    try:
        is_over = carry_out_until_interrupted(execution.work(), cluster)
    finally:
        report.progress.close()
    if not is_over:
        Output.note(f"stopped: {len(execution.done)} of {changed}; `barnabas balance` plans anew "
                    "from here, `barnabas partitions reassignments` shows that nothing is moving")  # fmt: skip
        return EXIT_INTERRUPTED
    Output.note(f"{changed}, {copied} were copied")
    return code


def _layout(seen: Survey, drain: str | None, exclude_brokers: str | None) -> Layout:
    """Raises Failure, click.UsageError."""
    drained = frozenset(parsing.broker_ids(drain, "--drain"))
    kept = frozenset(parsing.broker_ids(exclude_brokers, "--exclude-brokers"))
    if drained & kept:
        raise click.UsageError(f"broker {min(drained & kept)} cannot be both: --drain and --exclude-brokers")
    return layout_of(seen, drained, kept)


def _show(output: Output, plan: BalancePlan) -> None:
    """Print what each broker has and would have, then the moves."""
    document = plan.document()
    if output.as_json:
        output.document(document)
        return
    texts: dict[str, Callable[[Any], str]] = {"bytes": size_text, "records_per_s": "{:g}".format}
    brokers = [
        {"broker": row["broker"], "rack": row["rack"]}
        | {name: _change(value, row["after"][name], texts.get(name, str)) for name, value in row["before"].items()}
        for row in document["brokers"]
    ]
    output.table(brokers, ("broker", "rack", "replicas", "leaders", "bytes", "records_per_s"))
    short = document["partitions_short_of_racks"]
    if short["before"] or short["after"]:
        Output.note(f"partitions that could be on more racks: {_change(short['before'], short['after'], str)}")
    if document["moves"]:
        click.echo()
        output.table([row | {"copied": size_text(row["copied_bytes"])} for row in document["moves"]],
                     ("topic", "partition", "from", "to", "copied"))  # fmt: skip


def _change(before: Any, after: Any, text: Callable[[Any], str]) -> str:
    return text(before) if before == after else f"{text(before)} -> {text(after)}"
