"""Checks of partitions: leaders, replicas, reassignments. Pure.

Source: the alerts of Kafka's operations guide; kafka-reassign-partitions.sh, which leaves throttles until it is asked to
verify.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from runtime.texts import count_text
from tools.health.settings import MIN_ISR, THROTTLED_RATES, THROTTLED_REPLICAS
from tools.health.view import ClusterView, Condition, PartitionView, Problem, Severity, Shared, Since, name_of

IMBALANCE_PERCENT = 10
"""Kafka's default of leader.imbalance.per.broker.percentage."""


def without_controller(view: ClusterView) -> Iterator[Problem]:
    if view.controller is None and view.brokers:
        yield Problem(
            Severity.ERROR, "controller", "no broker is controller: topics are not created and no leader is elected",
            "check that ZooKeeper answers and that the brokers have a session: their logs say so",
        )  # fmt: skip


def without_leader(view: ClusterView) -> Iterator[Problem]:
    for partition in view.partitions:
        if partition.leader is not None:
            continue
        cause, next_step, shared = _reason(view, partition)
        yield Problem(
            Severity.ERROR, f"partition {partition.name}", f"it has no leader: nobody writes or reads it; {cause}",
            next_step, view.since(Condition.NO_LEADER, partition.name), shared,
        )  # fmt: skip


def _reason(view: ClusterView, partition: PartitionView) -> tuple[str, str, Shared | None]:
    """Return why a partition has no leader, what helps, and both for several for which it is the same."""
    isr, replicas = _listed(partition.isr), _listed(partition.replicas)
    gone = [broker for broker in partition.isr if broker not in view.brokers]
    broken = [broker for broker in partition.isr if broker in view.brokers and broker in partition.offline]
    others = [
        broker
        for broker in partition.replicas
        if broker in view.brokers and broker not in partition.isr and broker not in partition.offline
    ]
    told = f"in sync: {isr or 'none'} of replicas {replicas}"
    if gone:
        elect = view.command("partitions", "elect", "--topic", partition.topic, "--partition", str(partition.partition),
                             "--election-type", "unclean", "--execute")  # fmt: skip
        unclean = (
            f"; only if they never come back, `{elect}` makes one of {_listed(others)} leader, and loses records"
            if others
            else ""
        )
        every = view.command("partitions", "elect", "--election-type", "unclean")
        several = f"; only if they never come back, `{every}` shows which of them another replica could lead, and what it costs"
        shared = Shared(
            f"they have no leader: nobody writes or reads them; in sync were replicas on {_named(sorted(gone))}, gone by now",
            f"start {_named(sorted(gone))}{several if others else ''}",
        )
        return f"{told}; gone: {_named(gone)}", f"start {_named(gone)}{unclean}", shared
    if broken:
        repair = f"repair the disk of {_named(broken)} and restart"
        offline = f"their log directories are offline on {_named(sorted(broken))}"
        shared = Shared(f"they have no leader: nobody writes or reads them; {offline}", repair)
        return f"{told}; its log directory is offline on {_named(broken)}", repair, shared
    return (
        told,
        f"look at the controller's log; `{view.command('partitions', 'elect', '--topic', partition.topic)}`",
        None,
    )


def under_min_isr(view: ClusterView) -> Iterator[Problem]:
    for partition in view.partitions:
        text = view.topic_settings.get(partition.topic, {}).get(MIN_ISR)
        if partition.leader is None or text is None or not text.isdigit():
            continue
        # Leaders ask for no more replicas than there are.
        if len(partition.isr) < min(int(text), len(partition.replicas)):
            count, next_step = len(partition.isr), _next_for_few(view, partition)
            shared = Shared(
                f"too few replicas are in sync for {MIN_ISR}={text}: records with acks=all are refused", next_step
            )
            yield Problem(
                Severity.ERROR, f"partition {partition.name}",
                f"{count} {'replica is' if count == 1 else 'replicas are'} in sync and {MIN_ISR} is {text}: records with "
                "acks=all are refused",
                next_step, _since_behind(view, partition), shared,
            )  # fmt: skip


def _next_for_few(view: ClusterView, partition: PartitionView) -> str:
    lagging = sorted(_lagging(partition))
    gone = [broker for broker in lagging if broker not in view.brokers]
    if gone:
        return f"start {_named(gone)}"
    return f"look at the log and the disk of {_named(lagging)}: their replicas have to catch up"


def _since_behind(view: ClusterView, partition: PartitionView) -> Since:
    """Brokers tell since when the first replica was behind; others may have followed later."""
    since = view.since(Condition.REPLICAS_BEHIND, partition.name)
    return since if since.at_ms is None else replace(since, note=f"its first replica fell behind; {since.note}")


def replicas_behind(view: ClusterView) -> Iterator[Problem]:
    """Those of brokers that are there; the others are told as brokers that are gone."""
    adding = {each.key: each.adding for each in view.reassignments or ()}
    for partition in view.partitions:
        lagging = [
            broker
            for broker in _lagging(partition)
            if broker in view.brokers and broker not in adding.get(partition.key, ())
        ]
        if partition.leader is None or not lagging:
            continue
        cause = f"replicas on {_named(sorted(lagging))} are behind"
        next_step = "wait until they have caught up; if that takes long, look at the log and the disk of these brokers"
        yield Problem(
            Severity.WARNING, f"partition {partition.name}", cause, next_step,
            view.since(Condition.REPLICAS_BEHIND, partition.name), Shared(cause, next_step),
        )  # fmt: skip


def standing_reassignments(view: ClusterView) -> Iterator[Problem]:
    for each in view.reassignments or ():
        gone = [broker for broker in each.adding if broker not in view.brokers]
        if gone:
            cause = f"it cannot be moved; gone, to which it moves: {_named(gone)}"
            several = f"they cannot be moved; gone, to which they move: {_named(sorted(gone))}"
        elif each.stood_ms is not None:
            copied = f"nothing was copied to {_named(sorted(each.adding))} for {_seconds(each.stood_ms)}"
            cause, several = f"its move stands still: {copied}", f"their moves stand still: {copied}"
        else:
            continue
        throttle = "look for a throttle (`{}`) and at the log of these brokers; `{}` ends all moves"
        cancel = view.command("partitions", "cancel", "--execute")
        of_all = view.command("configs", "describe", "--entity-type", "topics", "--changed")
        yield Problem(
            Severity.WARNING, f"partition {name_of(each.key)}", cause,
            throttle.format(view.command("configs", "describe", "--topic", each.key[0], "--changed"), cancel),
            shared=Shared(several, throttle.format(of_all, cancel)),
        )  # fmt: skip


def throttles_left(view: ClusterView) -> Iterator[Problem]:
    """Throttles while nothing is moved slow down replicas that come back."""
    if view.reassignments is None or view.reassignments:
        return
    for topic, settings in sorted(view.topic_settings.items()):
        names = [name for name in THROTTLED_REPLICAS if settings.get(name)]
        if names:
            yield _throttle_left(view, f"topic {topic}", names, ("--topic", topic))
    for broker in view.brokers.values():
        names = [name for name in THROTTLED_RATES if broker.settings.get(name) and name not in broker.shared_settings]
        if names:
            yield _throttle_left(view, f"broker {broker.broker_id}", names, ("--broker", str(broker.broker_id)))

    shared = [name for name in THROTTLED_RATES if any(name in each.shared_settings for each in view.brokers.values())]
    if shared:
        yield _throttle_left(view, "all brokers", shared, ("--broker-defaults",))


def _throttle_left(view: ClusterView, subject: str, names: list[str], option: tuple[str, ...]) -> Problem:
    cause = f"{', '.join(names)} is set, and nothing is being moved: replication is slowed down"
    all_of_them = (
        f"`{view.command('partitions', 'cancel', '--execute')}` removes the throttles of all topics and brokers"
    )
    kind = subject.partition(" ")[0]
    return Problem(
        Severity.WARNING, subject, cause, view.command("configs", "alter", *option, "--delete-config", ",".join(names)),
        shared=Shared(f"{cause} of these {kind}s", all_of_them),
    )  # fmt: skip


def leaders_uneven(view: ClusterView) -> Iterator[Problem]:
    """Partitions that another than their first replica leads, though that one could."""
    led: Counter[int] = Counter()
    preferred: Counter[int] = Counter()
    topics: dict[int, list[str]] = {}
    for partition in view.partitions:
        if not partition.replicas:
            continue
        first = partition.replicas[0]
        preferred[first] += 1
        if partition.leader not in (None, first) and first in partition.isr and first in view.brokers:
            led[first] += 1
            topics.setdefault(first, []).append(partition.name)
    for broker, count in sorted(led.items()):
        if count * 100 > preferred[broker] * IMBALANCE_PERCENT:
            elect = view.command("partitions", "elect")
            should = f"{count} of {count_text(preferred[broker], 'partition')} that it should lead"
            several = f"more than {IMBALANCE_PERCENT} % of the partitions that they should lead have another leader"
            yield Problem(
                Severity.NOTICE, f"broker {broker}",
                f"{should} {'has' if count == 1 else 'have'} another leader ({_some(topics[broker])})",
                elect, shared=Shared(several, elect),
            )  # fmt: skip


def _lagging(partition: PartitionView) -> list[int]:
    return [broker for broker in partition.replicas if broker not in partition.isr]


def _listed(brokers: tuple[int, ...] | list[int]) -> str:
    return ", ".join(map(str, brokers))


def _named(brokers: Sequence[int]) -> str:
    """Return "broker 3" or "brokers 2, 3": a number alone could be taken for how many they are."""
    return f"broker{'' if len(brokers) == 1 else 's'} {', '.join(map(str, brokers))}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")


def _seconds(duration_ms: int) -> str:
    return f"{duration_ms / 1000:.1f} s"
