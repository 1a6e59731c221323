"""How far a topic of dead letters can be deleted: records are deleted from the start of a partition only."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from relay.dead_letters.fates import Fate

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.records.record import Record
    from relay.dead_letters.fates import RequeueRule
    from relay.dead_letters.marks import Marks
    from relay.dead_letters.scan import RangeScan


@dataclass
class Purge:
    """Looks for the first letter of each partition that is to stay. `selects`: the letters that `rule` means go, too, and not
    only those that were brought back or have expired."""

    rule: RequeueRule
    marks: Marks
    now_ms: int
    selects: bool
    progress: Callable[[Purge], None] = lambda _: None
    stays_from: dict[int, int] = field(default_factory=dict)
    """The offset of the first letter that stays, by partition; none where all go."""
    going: dict[int, int] = field(default_factory=dict)
    """How many letters go, by partition."""
    behind: int = 0
    """How many are meant, and stay behind one that is not."""
    looked: int = 0

    async def look(self, scan: RangeScan) -> None:
        async with aclosing(scan.batches()) as batches:
            async for records in batches:
                for read in records:
                    self._take(read.partition, read.record.offset, is_meant=self._is_meant(read.partition, read.record))
                self.looked += len(records)
                self.progress(self)

    def _is_meant(self, partition: int, record: Record) -> bool:
        fate, letter = self.rule.fate(partition, record, self.marks, self.now_ms)
        if fate is Fate.HANDLED or letter.is_expired(self.now_ms):
            return True
        return self.selects and fate is not Fate.NOT_MEANT

    def _take(self, partition: int, offset: int, *, is_meant: bool) -> None:
        if not is_meant:
            self.stays_from.setdefault(partition, offset)
        elif partition in self.stays_from:
            self.behind += 1
        else:
            self.going[partition] = self.going.get(partition, 0) + 1
