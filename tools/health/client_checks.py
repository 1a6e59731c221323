"""Checks of what clients do: groups that stand still, transactions that hang. Pure.

A group is stuck as Burrow says it: it has members, its committed offset stands and its lag is not zero.
A transaction hangs as kafka-transactions.sh says it: a partition has it open and no coordinator does, so nobody will end it.
Source: Burrow's evaluator; KIP-664.
"""

from __future__ import annotations

from collections.abc import Iterator

from runtime.texts import count_text
from tools.health.view import (
    ClusterView,
    Condition,
    GroupView,
    LagView,
    Problem,
    Severity,
    Shared,
    Since,
    TransactionView,
    name_of,
)

REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
FRESH_MS = 60_000
"""Whoever has not read a record for so long is an error, before that a warning: a commit may take its time."""
MAX_TIMEOUT_MS = 900_000
"""Kafka's default of transaction.max.timeout.ms. kafka-transactions.sh looks only at what is older: ListTransactions leaves out
what a user may not see, and a transaction that is younger may be one of those."""
LATE_MS = 30_000
"""So long after its timeout a coordinator should have aborted a transaction."""
LONG_OPEN_MS = 60_000
OLDEST = "time of the oldest record that it has not read"
_PREPARED = ("PrepareCommit", "PrepareAbort")


def stuck_groups(view: ClusterView) -> Iterator[Problem]:
    for group in view.groups:
        standing = [lag for lag in group.lags if lag.is_assigned and lag.stood_ms is not None and lag.unread]
        if not standing:
            continue
        known = [lag.oldest_unread_ms for lag in standing if lag.oldest_unread_ms is not None]
        oldest_ms = min(known, default=None)
        is_old = oldest_ms is not None and view.now_ms - oldest_ms >= FRESH_MS
        worst = max(standing, key=lambda lag: lag.lag)
        grown = sum(lag.grown for lag in standing)
        yield Problem(
            Severity.ERROR if is_old else Severity.WARNING, f"group {group.group}",
            f"it is stuck: {_members(group)} {_verb(group)} nothing for {(worst.stood_ms or 0) / 1000:.1f} s in "
            f"{_partitions(standing)}; lag {sum(lag.lag for lag in standing)}"
            f"{', ' + count_text(grown, 'more record') + ' came meanwhile' if grown else ''}",
            _next_for_share(view, group.group, worst) if group.is_share else _next_for_stuck(view, group.group, worst),
            Since(oldest_ms, OLDEST)
            if oldest_ms is not None
            else Since(),
        )  # fmt: skip


def _next_for_stuck(view: ClusterView, group: str, lag: LagView) -> str:
    next_step = (
        f"`{view.command('groups', 'describe', group)}` names the member; look at its log: it waits, or fails again and again "
        f"at offset {lag.committed} of {lag.topic}-{lag.partition}"
    )
    opened = [
        each.start_offset
        for each in view.transactions
        if each.key == (lag.topic, lag.partition) and each.start_offset <= lag.committed + 1  # a marker may be between
    ]
    if opened:
        next_step += (
            f"; if it reads with read_committed, it waits for the transaction that is open from offset {min(opened)} on: "
            f"`{view.command('transactions', 'producers', lag.topic)}`"
        )
    return next_step


def _next_for_share(view: ClusterView, group: str, lag: LagView) -> str:
    return (
        f"`{view.command('groups', 'describe', group, '--members')}` names the members; look at their logs: they wait, or fail "
        f"with the records from offset {lag.committed} of {lag.topic}-{lag.partition} on, which are given up when they were "
        "delivered share.delivery.count.limit times"
    )


def _verb(group: GroupView) -> str:
    return "acknowledged" if group.is_share else "committed"


def _members(group: GroupView) -> str:
    return "its member has" if group.members == 1 else f"its {group.members} members have"


def _partitions(lags: list[LagView]) -> str:
    names = [f"{lag.topic}-{lag.partition}" for lag in lags]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def given_up_records(view: ClusterView) -> Iterator[Problem]:
    """Records of share groups that nobody accepted."""
    for group, partitions, since in _share_conditions(view, Condition.SHARE_GAVE_UP):
        yield Problem(
            Severity.WARNING, f"group {group}",
            f"records of {partitions} were given up in the last ten minutes: they were delivered share.delivery.count.limit "
            "times, and no member accepted them",
            f"look at the logs of the members, which `{view.command('groups', 'describe', group, '--members')}` names; the "
            "records are still in the topic, and no member gets them again",
            since,
        )  # fmt: skip


def lost_locks(view: ClusterView) -> Iterator[Problem]:
    """Records that members of share groups had for too long."""
    for group, partitions, since in _share_conditions(view, Condition.SHARE_LOCKS_RAN_OUT):
        yield Problem(
            Severity.NOTICE, f"group {group}",
            f"locks of records of {partitions} ran out in the last ten minutes: members got the records, and said nothing of "
            "them in time",
            "a member hangs or is slow: let it renew its locks, or give it more time, as with "
            f"`{view.command('configs', 'alter', '--group', group, '--add-config', 'share.record.lock.duration.ms=60s')}`",
            since,
        )  # fmt: skip


def _share_conditions(view: ClusterView, condition: str) -> Iterator[tuple[str, str, Since]]:
    """Yield groups with their partitions and the time of the last event."""
    found: dict[str, dict[str, Since]] = {}
    for (told, name), since in view.began.items():
        if told == condition:
            group, _, partition = name.rpartition(" ")
            found.setdefault(group, {})[partition] = since
    for group, partitions in sorted(found.items()):
        names = sorted(partitions)
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        last = max(partitions.values(), key=lambda since: since.at_ms or 0)
        yield group, ", ".join(names[:3]) + more, last


def rebalancing_groups(view: ClusterView) -> Iterator[Problem]:
    for group in view.groups:
        if group.state in REBALANCING and group.rebalanced_ms is not None:
            yield Problem(
                Severity.WARNING, f"group {group.group}",
                f"it is in a rebalance ({group.state}), and was all {group.rebalanced_ms / 1000:.1f} s: nobody reads",
                f"`{view.command('groups', 'describe', group.group, '--members')}` shows who is there; a member that does not "
                "join in time holds the others up to max.poll.interval.ms",
            )  # fmt: skip


def idle_groups(view: ClusterView) -> Iterator[Problem]:
    for group in view.groups:
        if group.members or group.state in REBALANCING:
            continue
        lag, unread = sum(each.lag for each in group.lags), sum(each.unread for each in group.lags)
        if unread:
            left = "" if unread == lag else f", of which {unread} {'is' if unread == 1 else 'are'} still there"
            times = [each.oldest_unread_ms for each in group.lags if each.oldest_unread_ms is not None and each.unread]
            yield Problem(
                Severity.NOTICE, f"group {group.group}", f"it has no members ({group.state}), and its lag is {lag}{left}",
                _next_for_simple(view, group.group) if group.is_simple else _next_for_idle(view, group.group),
                Since(min(times), OLDEST) if times else Since(),
            )  # fmt: skip


def _next_for_simple(view: ClusterView, group: str) -> str:
    """Nobody sees whether its consumers are there: it must not be deleted for a notice."""
    return (
        "no consumer has ever joined it: a tool has set its offsets (`groups reset`), or its consumers choose their partitions "
        f"themselves; `{view.command('groups', 'describe', group)}`, twice, shows whether it goes on"
    )


def _next_for_idle(view: ClusterView, group: str) -> str:
    return (
        f"start its consumers; or `{view.command('groups', 'delete', group)}` when nobody needs it "
        f"(`{view.command('groups', 'describe', group)}`)"
    )


def hanging_transactions(view: ClusterView) -> Iterator[Problem]:
    for each in view.transactions:
        if each.is_known is not False:
            continue
        topic, partition = each.key
        may_see = "if this user may describe all transactional ids: "
        unknown = "no coordinator knows it, so nobody ends it, and read_committed consumers wait"
        is_old = each.last_written_ms is not None and view.now_ms - each.last_written_ms >= MAX_TIMEOUT_MS
        yield Problem(
            Severity.ERROR if is_old else Severity.WARNING, f"partition {name_of(each.key)}",
            f"a transaction of producer id {each.producer_id} hangs in it from offset {each.start_offset} on: {unknown}",
            f"{'' if is_old else may_see}"
            + view.command("transactions", "abort", topic, "--partition", str(partition), "--start-offset",
                           str(each.start_offset), "--execute"),
            _last_written(each),
            Shared(
                f"a transaction of producer id {each.producer_id} hangs in them: {unknown}",
                f"{'' if is_old else may_see}`{view.command('transactions', 'find-hanging')}` shows them; "
                f"`barnabas transactions abort TOPIC --partition N --producer-id {each.producer_id} --execute` ends each",
            ),
        )  # fmt: skip


def late_transactions(view: ClusterView) -> Iterator[Problem]:
    """Those that their coordinators should have ended."""
    for transaction in _by_id(view):
        started_ms, timeout_ms = transaction.started_ms, transaction.timeout_ms
        if started_ms is None or transaction.state is None:
            continue
        age_ms = view.now_ms - started_ms
        is_late = transaction.state == "Ongoing" and timeout_ms is not None and age_ms > timeout_ms + LATE_MS
        is_waiting = transaction.state in _PREPARED and age_ms > LATE_MS
        if is_late or is_waiting:
            yield Problem(
                Severity.WARNING, f"transaction {transaction.transactional_id}",
                f"it is {transaction.state} and should have ended; it blocks {name_of(transaction.key)} from offset "
                f"{transaction.start_offset} on",
                f"`{view.command('transactions', 'describe', str(transaction.transactional_id))}` names its coordinator and "
                "partitions: one of them has no leader, or its broker does not take the markers",
                Since(started_ms, "start of the transaction"),
            )  # fmt: skip


def long_transactions(view: ClusterView) -> Iterator[Problem]:
    for each in _by_id(view):
        if each.state != "Ongoing" or each.started_ms is None or view.now_ms - each.started_ms < LONG_OPEN_MS:
            continue
        if each.timeout_ms is None or view.now_ms - each.started_ms > each.timeout_ms + LATE_MS:
            continue  # told as late
        yield Problem(
            Severity.NOTICE, f"transaction {each.transactional_id}",
            f"it is open for {(view.now_ms - each.started_ms) // 1000} s, and read_committed consumers of "
            f"{name_of(each.key)} wait; it times out after {each.timeout_ms // 1000} s",
            view.command("transactions", "describe", str(each.transactional_id)),
            Since(each.started_ms, "start of the transaction"),
        )  # fmt: skip


def _by_id(view: ClusterView) -> list[TransactionView]:
    """One row a transaction, whatever the number of its partitions."""
    return list({each.transactional_id: each for each in reversed(view.transactions) if each.is_known}.values())


def _last_written(transaction: TransactionView) -> Since:
    if transaction.last_written_ms is None:
        return Since()
    return Since(transaction.last_written_ms, "time of its last record")
