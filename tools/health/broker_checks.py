"""Checks of brokers: gone, silent, slow, their disks, and what they say of the cluster. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from config.disk_floor import default_floor_bytes
from runtime.texts import count_text, size_text
from tools.health.settings import DISK_FLOOR, SEGMENT_BYTES
from tools.health.view import (
    TOPIC_SETTINGS,
    BrokerView,
    ClusterView,
    Condition,
    LogDirectoryView,
    Problem,
    Severity,
    Shared,
    Since,
    Statement,
)

SLOW_MS = 1_000
SLOWER_MS = 250
"""From here on a broker is slow that takes SLOWER_TIMES as long as the others."""
SLOWER_TIMES = 5
FULL_PERCENT = 5
ALMOST_FULL_PERCENT = 10
CERTIFICATE_WARNING = 14 * 86_400_000, 5
CERTIFICATE_ERROR = 2 * 86_400_000, 20
"""With less time left, and with less than this part of its time: one that is valid for a day is renewed every day."""
UNEVEN_TIMES = 2
UNEVEN_BYTES = 1 << 30


def silent(view: ClusterView) -> Iterator[Problem]:
    """Registered, so that clients are sent to them, but they do not answer."""
    for broker in view.brokers.values():
        if broker.round_trip_ms is None:
            why = f" ({broker.error})" if broker.error else ""
            yield Problem(
                Severity.ERROR, f"broker {broker.broker_id}",
                f"it is registered, but does not answer at {broker.address} within {broker.waited_ms / 1000:g} s{why}",
                _next_for_silent(broker),
            )  # fmt: skip


def _next_for_silent(broker: BrokerView) -> str:
    if "certificate" in (broker.error or ""):
        return (
            f"check the certificate of broker {broker.broker_id} (ssl.keystore.location), and whom this command trusts"
        )
    return f"look at its process and its log on {broker.address}; restart it when it hangs"


def stalled(view: ClusterView) -> Iterator[Problem]:
    """They answer what they have in memory, and then no more: what they wait for is the store, a disk, or a lock."""
    for each in view.stalls:
        address = view.brokers[each.broker_id].address if each.broker_id in view.brokers else "its host"
        store = ""
        if each.what == TOPIC_SETTINGS and not view.has_controllers:
            store = (
                "check that ZooKeeper answers, from which brokers read these settings: without it no leader is elected and no "
                "topic created; "
            )
        told = f"did not tell {each.what} within {each.waited_ms / 1000:.1f} s ({each.why})"
        yield Problem(
            Severity.ERROR, f"broker {each.broker_id}", f"it answers, but {told}",
            f"{store}look at its process and its log on {address}",
            shared=Shared(f"they answer, but {told}", f"{store}look at their processes and their logs"),
        )  # fmt: skip


def gone(view: ClusterView) -> Iterator[Problem]:
    """Not registered, but partitions have replicas on them."""
    missing: dict[int, list[str]] = defaultdict(list)
    for partition in view.partitions:
        for broker in partition.replicas:
            if broker not in view.brokers:
                missing[broker].append(partition.name)
    for broker, names in sorted(missing.items()):
        yield Problem(
            Severity.ERROR, f"broker {broker}",
            f"it is gone, and {count_text(len(names), 'partition', 'has', 'have')} a replica on it "
            f"({', '.join(names[:3])}{' ...' if len(names) > 3 else ''})",
            _next_for_gone(view, broker),
            view.since(Condition.BROKER_GONE, str(broker)),
        )  # fmt: skip


def _next_for_gone(view: ClusterView, broker: int) -> str:
    """Its replicas can move to others only while there are enough of them."""
    largest = max(len(partition.replicas) for partition in view.partitions if broker in partition.replicas)
    if largest > len(view.brokers):
        return f"start broker {broker}; without it there are not enough brokers for {largest} replicas of a partition"
    return f"start broker {broker}, or move its replicas to others: `{view.command('balance', '--drain', str(broker))}`"


def directories_offline(view: ClusterView) -> Iterator[Problem]:
    for broker, directory in _directories(view):
        if directory.is_offline:
            yield Problem(
                Severity.ERROR, _subject(broker, directory), "the log directory is offline after an IO error",
                f"repair or replace the disk, then restart broker {broker.broker_id}; its log names the error",
                view.since(Condition.DIRECTORY_OFFLINE, f"{broker.broker_id}:{directory.path}"),
            )  # fmt: skip


def disks_full(view: ClusterView) -> Iterator[Problem]:
    for broker, directory in _directories(view):
        usable, total = directory.usable_bytes, directory.total_bytes
        if directory.is_offline or usable is None or not total:
            continue
        floor_bytes = _floor_bytes(broker, total)
        is_refusing = usable < floor_bytes
        if not is_refusing and usable * 100 >= total * ALMOST_FULL_PERCENT:
            continue
        is_full = is_refusing or usable * 100 < total * FULL_PERCENT
        told = f"{size_text(usable)} of {size_text(total)} are free"
        if is_refusing:
            told += f", less than {DISK_FLOOR}={floor_bytes}: records are refused"
        cause = f"the disk is {'full' if is_full else 'almost full'}: {told}"
        next_step = (
            f"`{view.command('brokers', 'log-dirs', '--partitions')}` shows what is large; delete what is not needed "
            "(`barnabas topics delete`, `barnabas records delete`, a shorter retention.ms), or move replicas to emptier "
            f"brokers: `{view.command('balance')}`"
        )
        host = broker.address.rpartition(":")[0]
        yield Problem(
            Severity.ERROR if is_full else Severity.WARNING, _subject(broker, directory), cause, next_step,
            view.since(Condition.DISK_FULL, f"{broker.broker_id}:{directory.path}"),
            Shared(f"{cause}, on {host}", next_step),
        )  # fmt: skip


def _floor_bytes(broker: BrokerView, total_bytes: int) -> int:
    """Return below how many free bytes records are refused: 0 where the broker has no such setting."""
    floor = broker.settings.get(DISK_FLOOR)
    if floor is None:
        return 0
    return int(floor) if floor else default_floor_bytes(int(broker.settings.get(SEGMENT_BYTES) or 0), total_bytes)


def slow(view: ClusterView) -> Iterator[Problem]:
    times = {each.broker_id: each.round_trip_ms for each in view.brokers.values() if each.round_trip_ms is not None}
    for broker, time_ms in times.items():
        others = [other_ms for other, other_ms in times.items() if other != broker]
        usual_ms = median(others) if others else None
        is_slower = usual_ms is not None and time_ms >= SLOWER_MS and time_ms >= SLOWER_TIMES * usual_ms
        if time_ms < SLOW_MS and not is_slower:
            continue
        than = "" if usual_ms is None else f"; the others take {usual_ms:.0f} ms"
        yield Problem(
            Severity.WARNING, f"broker {broker}", f"it is slow: its fastest answer took {time_ms:.0f} ms{than}",
            f"look at the load, the disk and the network of {view.brokers[broker].address}, and at its log",
        )  # fmt: skip


def without_rack(view: ClusterView) -> Iterator[Problem]:
    """Where ZooKeeper is, replicas are placed by racks or without them; where only some brokers have one, not at all."""
    missing = [broker.broker_id for broker in view.brokers.values() if not broker.rack]
    if view.has_controllers or not missing or len(missing) == len(view.brokers):
        return
    yield Problem(
        Severity.ERROR, f"broker{'' if len(missing) == 1 else 's'} {', '.join(map(str, sorted(missing)))}",
        "no rack is set, and others have one: no topic is created unless its replicas are named, internal topics neither",
        "set broker.rack on all brokers, or on none, and restart those that have changed",
    )  # fmt: skip


def certificates_end(view: ClusterView) -> Iterator[Problem]:
    for broker in view.brokers.values():
        if broker.certificate is None:
            continue
        left_ms = broker.certificate.until_ms - view.now_ms
        warned_ms, failed_ms = (
            min(limit_ms, (broker.certificate.until_ms - broker.certificate.from_ms) // part)
            for limit_ms, part in (CERTIFICATE_WARNING, CERTIFICATE_ERROR)
        )
        if left_ms >= warned_ms:
            continue
        shared = Shared(
            f"their certificates expire in {_time_left(left_ms)}: then no client connects any more",
            "put new ones into their keystores, and restart the brokers or set ssl.keystore.location anew",
        )
        yield Problem(
            Severity.ERROR if left_ms < failed_ms else Severity.WARNING, f"broker {broker.broker_id}",
            f"its certificate at {broker.address} expires in {_time_left(left_ms)}: then no client connects any more",
            f"put a new one into the keystore of broker {broker.broker_id}, and restart it or set ssl.keystore.location anew",
            Since(broker.certificate.until_ms - warned_ms, "since then little of its time is left"), shared,
        )  # fmt: skip


def disagreeing(view: ClusterView) -> Iterator[Problem]:
    """Brokers that say something else than most, in each statement."""
    speaking = [broker for broker in view.brokers.values() if broker.statements]
    if len(speaking) < 2:
        return
    rounds = min(len(broker.statements) for broker in speaking)
    for broker in speaking:
        told = [_differences(view, broker, speaking, number) for number in range(rounds)]
        if all(told):
            yield Problem(
                Severity.ERROR, f"broker {broker.broker_id}",
                f"it says something else of the cluster than the other brokers: {told[-1]}",
                f"its log says whether it hears the controller; if it does not, restart broker {broker.broker_id}",
            )  # fmt: skip


def _differences(view: ClusterView, broker: BrokerView, speaking: list[BrokerView], number: int) -> str:
    """Return what a broker says differently from the broker that the majority agrees with; "" when nothing."""
    own = broker.statements[number]
    usual = _usual(view, [each.statements[number] for each in speaking])
    found = []
    if not view.has_controllers and own.controller != usual.controller:
        found.append(f"the controller is {_or_none(own.controller)} instead of {_or_none(usual.controller)}")
    if own.brokers != usual.brokers:
        found.append(f"the brokers are {sorted(own.brokers)} instead of {sorted(usual.brokers)}")
    if own.leaders and usual.leaders:
        keys = [key for key, leader in usual.leaders.items() if key in own.leaders and own.leaders[key] != leader]
        if keys:
            topic, partition = keys[0]
            found.append(
                f"{count_text(len(keys), 'partition', 'has', 'have')} another leader ({topic}-{partition} ...)"
            )
    return "; ".join(found)


def _usual(view: ClusterView, statements: list[Statement]) -> Statement:
    """Return the statement that most make; among equals that of the controller, else the first."""

    def votes(statement: Statement) -> tuple[int, bool]:
        same = sum(_is_same(view, statement, other) for other in statements)
        controller = None if view.controller is None else view.brokers.get(view.controller)
        return same, controller is not None and any(statement is each for each in controller.statements)

    return max(statements, key=votes)


def _is_same(view: ClusterView, one: Statement, other: Statement) -> bool:
    return (
        (view.has_controllers or one.controller == other.controller)
        and one.brokers == other.brokers
        and one.leaders == other.leaders
    )


def directories_uneven(view: ClusterView) -> Iterator[Problem]:
    for broker in view.brokers.values():
        used = {each.path: sum(each.sizes.values()) for each in broker.directories if not each.is_offline}
        if len(used) < 2:
            continue
        most, least = max(used.values()), min(used.values())
        if most - least >= UNEVEN_BYTES and most >= UNEVEN_TIMES * least:
            told = ", ".join(f"{path} {size_text(size)}" for path, size in sorted(used.items()))
            yield Problem(
                Severity.NOTICE, f"broker {broker.broker_id}", f"its log directories are filled unevenly: {told}",
                "`barnabas partitions reassign` moves replicas between log directories (log_dirs of its plan)",
            )  # fmt: skip


def _directories(view: ClusterView) -> Iterator[tuple[BrokerView, LogDirectoryView]]:
    for broker in view.brokers.values():
        for directory in broker.directories:
            yield broker, directory


def _subject(broker: BrokerView, directory: LogDirectoryView) -> str:
    return f"broker {broker.broker_id}, {directory.path}"


def _or_none(controller: int | None) -> str:
    return "none" if controller is None else str(controller)


def _time_left(left_ms: int) -> str:
    hours = max(left_ms, 0) // 3_600_000
    return f"{hours} h" if hours < 48 else f"{hours // 24} days"
