"""The page of figures of a relay's process, for Prometheus. Pure: the table, and how the page is made of what is known.

Rules: every metric is in this table, and in docs/relay.md. No name of a topic is a label: there may be many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from runtime.monitoring.metric import Kind, Metric, Sample, histogram_samples

if TYPE_CHECKING:
    from relay.figures import RelayFigures
    from runtime.loop_times import LoopTimes


class RelayState(NamedTuple):
    """What holds now: `waiting` records in `partitions` source partitions of this process, `troubled` source topics whose
    targets do not take records. `overdue_s` is for how long the record has been due that was due first."""

    is_ready: bool = False
    rules: int = 0
    suspended: int = 0
    partitions: int = 0
    waiting: int = 0
    troubled: int = 0
    overdue_s: float = 0


def _relay(name: str, kind: Kind, doc: str) -> Metric:
    return Metric("barnabas", "relay", name, kind, (), doc, own=True)


COUNTERS: Final = {
    "taken_in": "Records taken in from source topics.",
    "delivered": "Records delivered to targets.",
    "dead_letters": "Records that went to dead letters.",
    "expired": "Records that were not delivered, since their barnabas-expires-at had passed.",
    "cancelled": "Records that were cancelled.",
    "replaced": "Records that others with the same id replaced.",
    "too_late": "Cancellations and replacements of records that had been delivered.",
    "gone": "Records that were due and were not there any more.",
    "copied": "Records copied into topics of the relay, since they are due late.",
    "commits": "Transactions that were committed.",
    "aborts": "Transactions that were aborted, whose work was done again.",
}
"""By the name of the field of RelayFigures."""
STATES: Final = {
    "is_ready": ("ready", "1 while the process knows its rules and is a member of its group."),
    "rules": ("rules", "Rules that hold."),
    "suspended": ("suspended-rules", "Rules that do not hold: the log says why."),
    "partitions": ("source-partitions", "Source partitions of this process."),
    "waiting": ("waiting-records", "Records that wait in these partitions."),
    "troubled": ("troubled-sources", "Source topics whose targets do not take records."),
    "overdue_s": ("overdue-seconds", "For how long the record has been due that was due first; 0 where none is due."),
}
"""By the name of the field of RelayState."""
LATENESS: Final = _relay("lateness-seconds", Kind.HISTOGRAM, "How much later than it was due a record was delivered.")
LOOP_DELAY: Final = _relay(
    "event-loop-delay-seconds",
    Kind.HISTOGRAM,
    "How late the event loop comes to what is due, measured ten times a second.",
)
COUNTER_METRICS: Final = {name: _relay(name, Kind.COUNTER, doc) for name, doc in COUNTERS.items()}
STATE_METRICS: Final = {field: _relay(name, Kind.GAUGE, doc) for field, (name, doc) in STATES.items()}
METRICS: Final = (*COUNTER_METRICS.values(), *STATE_METRICS.values(), LATENESS, LOOP_DELAY)


def samples(figures: RelayFigures, state: RelayState, loop: LoopTimes) -> Iterator[Sample]:
    """Yield what the page has, but for the figures of the process."""
    for name, metric in COUNTER_METRICS.items():
        yield Sample(metric, (), getattr(figures, name))
    for name, metric in STATE_METRICS.items():
        value = getattr(state, name)
        yield Sample(metric, (), int(value) if isinstance(value, bool) else value)
    yield from histogram_samples(LATENESS, (), figures.lateness)
    yield from histogram_samples(LOOP_DELAY, (), loop.delays)
