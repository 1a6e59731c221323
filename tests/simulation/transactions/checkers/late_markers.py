"""Late markers: a marker ends the transaction that it was written for, and no other (KIP-890).

The end of a transaction raises the epoch in clusters with transaction.version 2, and leaves it where it was otherwise,
except for one that timed out. So a marker has a later epoch than the records that it ends, or, below that version, the same
one, and never an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.transactions.final_logs import FinalLogs


def late_markers(logs: FinalLogs, *, ends_raise_epoch: bool) -> Iterator[str]:
    """What is wrong, as text. `ends_raise_epoch`: in every transaction."""
    for key, records in logs.records.items():
        open_epochs: dict[int, int] = {}
        for record in records:
            if record.marker is None:
                epoch = open_epochs.setdefault(record.producer_id, record.producer_epoch)
                if epoch != record.producer_epoch:
                    yield f"{key}: epoch {record.producer_epoch} at {record.offset} in a transaction of epoch {epoch}"
                continue
            ended = open_epochs.pop(record.producer_id, None)
            if ended is not None and record.producer_epoch < ended + ends_raise_epoch:
                yield (
                    f"late marker: {record.marker.name} of epoch {record.producer_epoch} at {key} {record.offset} ends a "
                    f"transaction of epoch {ended}"
                )
