"""`barnabas balance`: give every broker its share of replicas, leaders, bytes and load, and take brokers out of service.

Source: the goals of Cruise Control; kafka-reassign-partitions.sh carries out the same plans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from runtime.command_line import parsing
from runtime.command_line.execute_option import execute_option
from runtime.command_line.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED
from runtime.command_line.failure import Failure
from runtime.command_line.output import STATUS, Output
from runtime.texts import count_text, size_text
from tools.balance.goals import GOALS, THRESHOLD_PERCENT, distances, short_of_racks
from tools.balance.layout import Key, Layout
from tools.balance.planner import Move, balance
from tools.balance.survey import Survey, survey
from tools.cluster import Cluster, cluster_command
from tools.reassignment.execution import Execution
from tools.reassignment.plan_file import plan_of, write_plan
from tools.reassignment.terminal import TerminalReport, carry_out, carry_out_until_interrupted
from tools.setting_units import Size

_BATCH = 20
_NAMED = 5


@dataclass(frozen=True, slots=True)
class _View:
    """What is shown of a layout."""

    brokers: dict[int, dict[str, Any]]
    distances: tuple[int, ...]
    short_of_racks: int

    @classmethod
    def of(cls, seen: Survey, layout: Layout, percent: int) -> _View:
        return cls(_states(seen, layout), distances(layout, percent), short_of_racks(layout))


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
    layout = _layout(seen, drain, exclude_brokers)
    before = _View.of(seen, layout, threshold)
    moves = balance(layout, threshold)
    needed = {broker: keys for broker in sorted(layout.drained) if (keys := layout.needed(broker))}
    try:
        _show(output, seen, before, _View.of(seen, layout, threshold), moves, needed)
    except BrokenPipeError:  # who has read enough of the table still wants what it shows
        if not execute:
            raise
    note_what_stays(seen, layout)
    note_what_is_needed(layout, needed)
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


def note_what_stays(seen: Survey, layout: Layout) -> None:
    """Say what the plan does not change; `layout` is what it makes."""
    for broker in sorted(layout.drained):
        fixed = layout.count[broker] - len(layout.needed(broker))
        if fixed:
            kept = count_text(fixed, "replica")
            Output.note(f"broker {broker} keeps {kept}, of partitions without a leader or of topics that are not to be moved: "
                        "it is still needed")  # fmt: skip
    if seen.leaderless:
        stay = count_text(len(seen.leaderless), "partition", "has no leader and stays", "have no leader and stay")
        Output.note(f"{stay}: `barnabas cluster health` tells more")
    for broker, count in seen.gone.items():
        if broker not in layout.drained:
            Output.note(f"broker {broker} is gone and keeps its {count_text(count, 'replica')}: start it, or give them to "
                        f"others by --drain {broker}")  # fmt: skip
    if seen.led_by_others:
        led = count_text(len(seen.led_by_others), "partition", "is", "are")
        Output.note(f"{led} led by another than their preferred leader, which is counted here: `barnabas partitions elect` "
                    "returns them")  # fmt: skip


def note_what_is_needed(layout: Layout, needed: Mapping[int, Sequence[Key]]) -> None:
    """Say what drained brokers keep because no other can have it, and the two ways on."""
    for broker, keys in needed.items():
        names = ", ".join(f"{topic}-{index}" for topic, index in keys[:_NAMED])
        stay = count_text(len(keys), "replica", "stays", "stay")
        Output.note(f"broker {broker} is still needed: {stay} on it ({names}{' ...' if len(keys) > _NAMED else ''}), because "
                    "every other broker that may have one has one already")  # fmt: skip
    if needed:
        topics, left = sorted({topic for keys in needed.values() for topic, _ in keys}), layout.takers
        some = " ".join(topics[:_NAMED]) + (" ..." if len(topics) > _NAMED else "")
        plan = f"barnabas partitions plan {some} --brokers {','.join(map(str, left))} --replication-factor {len(left)}"
        Output.note(f"either start another broker, and drain again; or give these topics fewer replicas: `{plan} > plan.json`, "
                    "then `barnabas partitions reassign --plan plan.json --execute`")  # fmt: skip


def _layout(seen: Survey, drain: str | None, exclude_brokers: str | None) -> Layout:
    """Raises Failure, click.UsageError."""
    drained = frozenset(parsing.broker_ids(drain, "--drain"))
    kept = frozenset(parsing.broker_ids(exclude_brokers, "--exclude-brokers"))
    known = seen.racks.keys() | {broker for load in seen.loads.values() for broker in load.replicas}
    unknown = (drained | kept) - known
    if unknown:
        raise Failure(f"there is no broker {min(unknown)} (`barnabas brokers list` shows the brokers)")
    if drained & kept:
        raise click.UsageError(f"broker {min(drained & kept)} cannot be both: --drain and --exclude-brokers")
    if not seen.racks.keys() - drained - kept:
        raise Failure("no broker is left that could take replicas")
    return Layout(seen.loads, seen.racks, drained, kept)


def _states(seen: Survey, layout: Layout) -> dict[int, dict[str, Any]]:
    """Return what each broker has, also one that is gone and has replicas."""
    known = seen.racks.keys() | {broker for load in seen.loads.values() for broker in load.replicas}
    return {
        broker: {
            "replicas": layout.count[broker],
            "leaders": layout.leaders[broker],
            "bytes": layout.bytes[broker],
            "records_per_s": layout.rate[broker] / 1000,
        }
        for broker in sorted(known)
    }


def _show(
    output: Output,
    seen: Survey,
    before: _View,
    after: _View,
    moves: Sequence[Move],
    needed: Mapping[int, Sequence[Key]],
) -> None:
    """Print what each broker has and would have, then the moves."""
    rows: list[dict[str, Any]] = [
        {
            "topic": move.key[0],
            "partition": move.key[1],
            "from": list(move.before),
            "to": list(move.after),
            "copied_bytes": move.copied_bytes,
        }
        for move in moves
    ]
    if output.as_json:
        output.document(
            {
                "brokers": [
                    {"broker": broker, "rack": seen.racks.get(broker), "is_there": broker in seen.racks,
                     "before": state, "after": after.brokers[broker]}
                    for broker, state in before.brokers.items()
                ],
                "goals": [
                    {"goal": goal, "before": first, "after": second}
                    for goal, first, second in zip(GOALS, before.distances, after.distances, strict=True)
                ],
                "partitions_short_of_racks": {"before": before.short_of_racks, "after": after.short_of_racks},
                "needed": [
                    {"topic": topic, "partition": index, "broker": broker}
                    for broker, keys in needed.items()
                    for topic, index in keys
                ],
                "copied_bytes": sum(move.copied_bytes for move in moves),
                "moves": rows,
            }
        )  # fmt: skip
        return
    texts: dict[str, Callable[[Any], str]] = {"bytes": size_text, "records_per_s": "{:g}".format}
    brokers = [
        {"broker": broker, "rack": seen.racks.get(broker)}
        | {name: _change(state[name], after.brokers[broker][name], texts.get(name, str)) for name in state}
        for broker, state in before.brokers.items()
    ]
    output.table(brokers, ("broker", "rack", "replicas", "leaders", "bytes", "records_per_s"))
    if before.short_of_racks or after.short_of_racks:
        change = _change(before.short_of_racks, after.short_of_racks, str)
        Output.note(f"partitions that could be on more racks: {change}")
    if rows:
        click.echo()
        output.table([row | {"copied": size_text(row["copied_bytes"])} for row in rows],
                     ("topic", "partition", "from", "to", "copied"))  # fmt: skip


def _change(before: Any, after: Any, text: Callable[[Any], str]) -> str:
    return text(before) if before == after else f"{text(before)} -> {text(after)}"
