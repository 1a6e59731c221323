"""Late markers: a marker ends the transaction that it was written for, and no other (KIP-890).

The end of a transaction raises the epoch in clusters with transaction.version 2, and leaves it where it was otherwise,
except for one that timed out. So a marker has the epoch of the records that it ends, or a later one, and never an earlier
one.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.transactions.final_logs import FinalLogs


def late_markers(logs: FinalLogs) -> Iterator[str]:
    """What is wrong, as text."""
    for key, records in logs.records.items():
        open_epochs: dict[int, int] = {}
        for record in records:
            if record.marker is None:
                epoch = open_epochs.setdefault(record.producer_id, record.producer_epoch)
                if epoch != record.producer_epoch:
                    yield f"{key}: epoch {record.producer_epoch} at {record.offset} in a transaction of epoch {epoch}"
                continue
            ended = open_epochs.pop(record.producer_id, record.producer_epoch)
            if record.producer_epoch < ended:
                yield (
                    f"late marker: {record.marker.name} of epoch {record.producer_epoch} at {key} {record.offset} ends a "
                    f"transaction of epoch {ended}"
                )
