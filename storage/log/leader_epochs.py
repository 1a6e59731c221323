"""Maps the offsets of a log to the leader epochs that wrote them; followers and clients truncate by it. Pure.

    epoch 0 from offset 0, epoch 3 from offset 120   ->   epochs 0..2 end at 120, epoch 3 ends at the log end

Rules: pure. Source: KIP-101, KIP-279; Kafka LeaderEpochFileCache, LeaderEpochCheckpointFile.
Invariant: entries rise strictly in epoch and in start offset; an epoch under which nothing was written leaves no trace
once a later one starts at the same offset.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache

from storage.checkpoint import CorruptCheckpoint, decode_integer, decode_lines, encode_lines

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


@lru_cache(maxsize=1024)
def _shared(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Return one tuple for all logs with the same numbers, which is most of thousands of logs without writes."""
    return numbers


class LeaderEpochs:
    """Holds epochs and their start offsets. Owner: the log, which stores them in `leader-epoch-checkpoint`."""

    __slots__ = ("_epochs", "_start_offsets")

    def __init__(self) -> None:
        self._epochs: tuple[int, ...] = ()
        self._start_offsets: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self._epochs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LeaderEpochs) and self.entries == other.entries

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"LeaderEpochs({self.entries})"

    @property
    def entries(self) -> list[tuple[int, int]]:
        """Return (epoch, start offset) pairs, rising."""
        return list(zip(self._epochs, self._start_offsets, strict=True))

    @property
    def latest_epoch(self) -> int:
        """The newest epoch; UNDEFINED_EPOCH without any."""
        return self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` writes from `start_offset` on, and drop entries that contradict it. Returns whether anything
        changed."""
        assert epoch >= 0, f"leader epoch {epoch}"
        assert start_offset >= 0, f"start offset {start_offset}"
        epochs, start_offsets = self._epochs, self._start_offsets
        if epochs and epoch == epochs[-1] and start_offset >= start_offsets[-1]:
            return False
        kept = len(epochs)
        while kept and (epochs[kept - 1] >= epoch or start_offsets[kept - 1] >= start_offset):
            kept -= 1
        self._set((*epochs[:kept], epoch), (*start_offsets[:kept], start_offset))
        return True

    def _set(self, epochs: tuple[int, ...], start_offsets: tuple[int, ...]) -> None:
        if len(epochs) <= 1:
            epochs, start_offsets = _shared(epochs), _shared(start_offsets)
        self._epochs, self._start_offsets = epochs, start_offsets

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (largest known epoch at or below `epoch`, its end offset); both undefined (-1) when that is not known."""
        if epoch == UNDEFINED_EPOCH or not self._epochs:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        following = bisect_right(self._epochs, epoch)
        if following == len(self._epochs):  # an epoch that has not begun here
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if following == 0:  # older than everything here: it ends where the first known one starts
            return epoch, self._start_offsets[0]
        return self._epochs[following - 1], self._start_offsets[following]

    def epoch_for(self, offset: int) -> int:
        """Return the epoch that wrote `offset`; UNDEFINED_EPOCH before the first known one."""
        at = bisect_right(self._start_offsets, offset)
        return self._epochs[at - 1] if at else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drop what lies at or above `end_offset`, the new log end. Returns whether anything changed."""
        kept = bisect_left(self._start_offsets, end_offset)
        if kept == len(self._start_offsets):
            return False
        self._set(self._epochs[:kept], self._start_offsets[:kept])
        return True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Raise the start of the first epoch to `start_offset`, the new log start, and drop older ones. Returns whether
        anything changed."""
        removed = bisect_right(self._start_offsets, start_offset)
        if removed == 0 or (removed == 1 and self._start_offsets[0] == start_offset):
            return False
        self._set(self._epochs[removed - 1 :], (start_offset, *self._start_offsets[removed:]))
        return True

    def to_checkpoint(self) -> bytes:
        """Encode the content of `leader-epoch-checkpoint`: a line `epoch start_offset` for each entry."""
        return encode_lines(f"{epoch} {start_offset}" for epoch, start_offset in self.entries)

    @classmethod
    def from_checkpoint(cls, content: bytes) -> LeaderEpochs:
        """Decode the content of `leader-epoch-checkpoint`. Raises CorruptCheckpoint."""
        epochs = cls()
        if content and not content.endswith(b"\n"):  # the last offset may lack digits
            raise CorruptCheckpoint("cut off")
        for line in decode_lines(content):
            fields = line.split()
            if len(fields) != 2:
                raise CorruptCheckpoint(f"{line!r} is no epoch and start offset")
            epoch, start_offset = decode_integer(fields[0]), decode_integer(fields[1])
            if epoch < 0 or start_offset < 0:
                raise CorruptCheckpoint(f"{line!r} is no epoch and start offset")
            epochs.assign(epoch, start_offset)
        return epochs
