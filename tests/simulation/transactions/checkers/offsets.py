"""Offsets that a transaction commits share its fate: a group's committed offset is that of a transaction that may be visible,
never older than the newest acknowledged one, and what it has processed is there exactly once.

A processor's records are named by the input offset that each was made of (`input_of`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from protocol.topic_partition import TopicPartition
from tests.simulation.checkers.logs import Report
from tests.simulation.transactions.final_logs import FinalLogs
from tests.simulation.transactions.ledger import Ledger, OffsetKey, Transaction

NOTHING = -1


class OffsetChecker:
    def __init__(self, report: Report, ledger: Ledger, is_excused: Callable[[], bool]) -> None:
        self._report = report
        self._ledger = ledger
        self._is_excused = is_excused
        self._last: dict[OffsetKey, int] = {}

    def floor(self, key: OffsetKey) -> int:
        """What a stable offset may not be below, for requests that are sent now."""
        return max((each.offsets[key] for each in self._of(key) if each.must_be_visible), default=NOTHING)

    def _of(self, key: OffsetKey) -> list[Transaction]:
        return [each for each in self._ledger.transactions if key in each.offsets]

    def on_stable(self, who: str, key: OffsetKey, floor: int, offset: int) -> None:
        """`offset` was fetched as a stable one; `floor` is from before the request."""
        if offset < floor and not self._is_excused():
            self._report(f"{who}: the offset of {key} is {offset}, but {floor} was acknowledged")
        if offset == NOTHING:
            return
        owners = [each for each in self._of(key) if each.offsets[key] == offset]
        if not any(each.may_be_visible for each in owners):
            names = ", ".join(map(str, owners)) or "no transaction"
            self._report(f"aborted offset: {who} got {offset} of {key}, which is of {names}")
        self._last[key] = offset

    def disagreements(self, logs: FinalLogs) -> Iterator[str]:
        """How the last offset of each group and the records of its transactions differ, as text."""
        for key, last in self._last.items():
            for each in self._of(key):
                if _is_visible(each, logs) and each.offsets[key] > last:
                    yield f"{each} is visible, but {key} is committed at {last}, not {each.offsets[key]}"
            owners = [each for each in self._of(key) if each.offsets[key] == last and each.may_be_visible]
            if owners and not any(_is_visible(each, logs) for each in owners):
                yield f"{key} is committed at {last} by {owners[0]}, of which no record is visible"

    def not_exactly_once(
        self, key: OffsetKey, logs: FinalLogs, input_of: Callable[[str], tuple[str, TopicPartition, int] | None]
    ) -> Iterator[str]:
        """Which input records below the group's last offset were not processed exactly once, as text."""
        group, source = key
        made: Counter[int] = Counter()
        for values in logs.committed_values.values():
            for value in values:
                made_of = input_of(value)
                if made_of is not None and made_of[:2] == (group, source):
                    made[made_of[2]] += 1
        last = self._last.get(key, NOTHING)
        for offset, _ in logs.committed[source]:
            if made[offset] != (1 if offset < last else 0):
                yield f"{group} has processed {source} {offset} {made[offset]} times, its committed offset is {last}"


def _is_visible(transaction: Transaction, logs: FinalLogs) -> bool:
    """Whether anything of it is: the transactions of processors have records."""
    return any(value in logs.committed_values[key] for key, value in transaction.all_values())
