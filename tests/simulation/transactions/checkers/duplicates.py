"""Duplicates: nothing is in a log twice, and the records of one producer are in the order in which it sent them."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.transactions.final_logs import FinalLogs


def duplicates(logs: FinalLogs) -> Iterator[str]:
    """What is wrong, as text. Values are `<writer>#<counter> ...`, and counters of a writer rise."""
    for key, records in logs.records.items():
        last: dict[str, tuple[int, int]] = {}
        offsets: dict[str, int] = {}
        for record in records:
            if record.marker is not None:
                continue
            if record.value in offsets:
                yield f"duplicate: {record.value[:80]!r} is at {key} {offsets[record.value]} and {record.offset}"
            offsets[record.value] = record.offset
            writer, _, rest = record.value.partition(" ")[0].rpartition("#")
            counter = int(rest)
            if writer in last and last[writer][0] > counter:
                yield f"{key}: record {counter} of {writer} at {record.offset} is behind {last[writer]}"
            last[writer] = (counter, record.offset)
