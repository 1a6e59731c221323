"""The index of what waits in a relay, by itself: memory, replay at a start, and the time of each call.

    python -m benchmarks.relay_index            1 million entries, then 10 million, each in a process of its own
    python -m benchmarks.relay_index 200000     so many

Every entry has an id. Due times are random within a month, so each run has what is due next. A restart reads the runs as merges
leave them, and then done records of a tenth of the entries. All times are of the processor.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
from collections.abc import Callable
from time import process_time

from relay.waiting.entries import HOUR, YEAR, WaitingEntry, place_of
from relay.waiting.index import WaitingIndex
from relay.waiting.index_records import EntryOutcome, done_record, taken_record
from relay.waiting.merging import MOST_MERGED

TOPIC, PARTITION = "later", 0
MONTH_MS = 30 * 86_400_000
COUNTS = (1_000_000, 10_000_000)
CALLS = 1_000


def resident_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


class Fill:
    """Replays runs and done records, and counts the time of the replays alone."""

    def __init__(self) -> None:
        self.index = WaitingIndex(TOPIC, PARTITION)
        self.random = random.Random(1)
        self.replay_seconds = 0.0
        self.longest_seconds = 0.0
        self.written_bytes = 0
        self._sequence = 0
        self._offset = 0

    def replay(self, key: bytes, value: bytes | None) -> None:
        self.written_bytes += len(key) + len(value or b"")
        start = process_time()
        self.index.replay(key, value)
        seconds = process_time() - start
        self.replay_seconds += seconds
        self.longest_seconds = max(self.longest_seconds, seconds)

    def take_in(self, count: int, least_ms: int = 0) -> list[WaitingEntry]:
        entries = []
        for _ in range(count):
            self._offset += self.random.randrange(1, 4)
            place = place_of(self.random.randrange(HOUR, YEAR), self._offset)
            entries.append(
                WaitingEntry(least_ms + self.random.randrange(MONTH_MS), place, self.random.getrandbits(64) or 1)
            )
        self.replay(*taken_record(TOPIC, PARTITION, self._sequence, entries))
        self._sequence += 1
        return entries

    def done(self, entries: list[WaitingEntry]) -> None:
        rows = [(entry.place, EntryOutcome.DELIVERED, entry.id_hash) for entry in entries]
        self.replay(*done_record(TOPIC, PARTITION, self._sequence, rows, 0))
        self._sequence += 1


def microseconds(call: Callable[[], object], times: int = CALLS) -> float:
    start = process_time()
    for _ in range(times):
        call()
    return (process_time() - start) / times * 1e6


def measure(count: int) -> None:
    fill = Fill()
    before_mb = resident_mb()
    known = [fill.take_in(min(MOST_MERGED, count - fill.index.count))[7] for _ in range(0, count, MOST_MERGED)]
    index = fill.index
    print(
        f"{index.count:,} entries: {resident_mb():.0f} MB resident, {resident_mb() - before_mb:.0f} MB of it the index"
    )
    print(f"  replay of the runs {fill.replay_seconds:.1f} s, the longest of a run {fill.longest_seconds * 1e3:.0f} ms")
    fill.replay_seconds = fill.longest_seconds = 0.0
    while index.count > count * 9 // 10:
        fill.done(index.take_due(MONTH_MS, 1_000))
    print(
        f"  replay of done records of a tenth {fill.replay_seconds:.1f} s, each of 1,000 {fill.longest_seconds * 1e3:.0f} ms"
    )
    due_ms = index.next_due_ms() or 0
    print(f"  next_due_ms {microseconds(index.next_due_ms):.1f} us")
    print(f"  find {microseconds(lambda: index.find(known[-1].id_hash)):.1f} us")
    print(f"  find of what does not wait {microseconds(lambda: index.find(fill.random.getrandbits(64))):.1f} us")
    print(f"  take_due when nothing is due {microseconds(lambda: index.take_due(due_ms - 1, 300)):.1f} us")
    for limit in (300, 10_000):
        until_ms = index.ahead(MONTH_MS, limit)[-1].due_ms
        print(
            f"  take_due of {limit:,} that are due {microseconds(lambda at=until_ms: index.take_due(at, 20_000), 20):.0f} us"
        )
        print(
            f"  take_due of {limit:,} when all are {microseconds(lambda most=limit: index.take_due(MONTH_MS, most), 20):.0f} us"
        )
    print(f"  merge when all is well {microseconds(lambda: index.merge(0)):.1f} us, "
          f"lowest_offsets {microseconds(index.lowest_offsets):.1f} us")  # fmt: skip
    fill.longest_seconds = 0.0
    fill.written_bytes = 0
    start, rounds = process_time(), 0
    merge_seconds = 0.0
    while rounds < CALLS:
        fill.take_in(300, MONTH_MS)
        fill.done(index.take_due(2 * MONTH_MS, 300))
        merging = process_time()
        records = index.merge(0)
        merge_seconds = max(merge_seconds, process_time() - merging)
        for each in records:
            fill.replay(*each)
        rounds += 1
    print(f"  a cycle of 300 in and 300 out with merges {(process_time() - start) / rounds * 1e3:.1f} ms, "
          f"longest merge {merge_seconds * 1e3:.0f} ms, longest replay {fill.longest_seconds * 1e3:.0f} ms")  # fmt: skip
    print(f"  written to the log by each: {fill.written_bytes / rounds / 300:.0f} bytes a record")
    print(f"  peak {peak_mb():.0f} MB")


if __name__ == "__main__":
    if sys.argv[1:]:
        measure(int(sys.argv[1]))
    else:
        for each in COUNTS:
            subprocess.run([sys.executable, "-m", "benchmarks.relay_index", str(each)], check=True)
