"""What becomes of a dead letter when the letters of a topic are brought back. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from client.letters.headers import read, requeued_headers
from protocol.key_hashes import by_murmur2

if TYPE_CHECKING:
    from client.letters.headers import Letter
    from protocol.records.record import Record
    from relay.dead_letters.marks import Marks
    from relay.dead_letters.selection import LetterSelection


class Fate(Enum):
    """The values are for people: "3 letters ..."."""

    REQUEUED = "to be brought back"
    NOT_MEANT = "not meant"
    HANDLED = "brought back before"
    EXPIRED = "expired"
    NO_SOURCE = "without a source topic: --to names where they go"
    TO_ITSELF = "whose source is this topic itself: --to names where they go"
    NO_TARGET = "whose topic does not exist"


@dataclass(frozen=True, slots=True)
class RequeueRule:
    """Which letters of a topic go where. `to` is the topic for all of them, in the place of their own."""

    topic: str
    selection: LetterSelection
    to: str | None = None
    keeps_attempts: bool = False
    takes_expired: bool = False

    def fate(self, partition: int, record: Record, marks: Marks, now_ms: int) -> tuple[Fate, Letter]:
        """Return what becomes of a letter, as far as its target exists, and what its headers say."""
        letter = read(record.headers)
        if marks.has(partition, record.offset):
            return Fate.HANDLED, letter
        if not self.selection.takes(letter, record.offset, record.timestamp):
            return Fate.NOT_MEANT, letter
        if letter.is_expired(now_ms) and not self.takes_expired:
            return Fate.EXPIRED, letter
        target = self.target(letter)
        if target is None:
            return Fate.NO_SOURCE, letter
        return Fate.TO_ITSELF if target == self.topic else Fate.REQUEUED, letter

    def target(self, letter: Letter) -> str | None:
        """Return the topic of a letter; None without one."""
        return self.to or letter.source_topic

    def partition(self, letter: Letter, key: bytes | None, count: int) -> int | None:
        """Return the partition of a letter in its target, which has `count`: where it was, as long as that is its topic. So
        each key stays where its producers put it, whatever their partitioner. None: no matter which."""
        before = letter.source_partition
        if before is not None and before < count and self.target(letter) == letter.source_topic:
            return before
        return None if key is None else by_murmur2(key, count)

    def headers(self, record: Record) -> list[tuple[str, bytes | None]]:
        """Return the headers of a letter that is brought back."""
        return requeued_headers(record.headers, keeps_attempts=self.keeps_attempts)
