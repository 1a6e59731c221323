"""All checks, one a row, and what they find in a view of a cluster. Pure.

Rules: a check is a function over the view alone; the worst comes first, and among equals what causes the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tools.health import broker_checks, client_checks, internal_topics, partition_checks
from tools.health.view import ClusterView, Problem


@dataclass(frozen=True, slots=True)
class Check:
    """`name` is what it finds, as the documentation and `--json` call it."""

    name: str
    find: Callable[[ClusterView], Iterator[Problem]]


CHECKS = (
    Check("no controller", partition_checks.without_controller),
    Check("broker gone", broker_checks.gone),
    Check("broker silent", broker_checks.silent),
    Check("broker stalls", broker_checks.stalled),
    Check("log directory offline", broker_checks.directories_offline),
    Check("disk full", broker_checks.disks_full),
    Check("partition without leader", partition_checks.without_leader),
    Check("under min ISR", partition_checks.under_min_isr),
    Check("internal topic missing", internal_topics.internal_topics_missing),
    Check("racks incomplete", broker_checks.without_rack),
    Check("certificate expires", broker_checks.certificates_end),
    Check("brokers disagree", broker_checks.disagreeing),
    Check("hanging transaction", client_checks.hanging_transactions),
    Check("stuck group", client_checks.stuck_groups),
    Check("records given up", client_checks.given_up_records),
    Check("slow broker", broker_checks.slow),
    Check("replicas behind", partition_checks.replicas_behind),
    Check("rebalance does not end", client_checks.rebalancing_groups),
    Check("late transaction", client_checks.late_transactions),
    Check("reassignment stands still", partition_checks.standing_reassignments),
    Check("throttle left behind", partition_checks.throttles_left),
    Check("long transaction", client_checks.long_transactions),
    Check("group without members", client_checks.idle_groups),
    Check("locks run out", client_checks.lost_locks),
    Check("leaders uneven", partition_checks.leaders_uneven),
    Check("log directories uneven", broker_checks.directories_uneven),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check has found."""

    check: str
    problem: Problem


def findings(view: ClusterView) -> list[Finding]:
    """Return what is wrong, the worst first."""
    found = [Finding(check.name, problem) for check in CHECKS for problem in check.find(view)]
    return sorted(found, key=lambda each: each.problem.severity)
