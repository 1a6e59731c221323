"""What the histories of share groups must have met, for a hundred seeds."""

from __future__ import annotations

MINIMUMS: dict[str, int] = {
    "requests": 100 * 500,
    "faults": 100 * 4,
    "virtual seconds": 100 * 30,
    "share partitions loaded": 1_000,
    "share fetches": 20_000,
    "records delivered": 20_000,
    "records delivered again": 2_000,
    "records finished": 20_000,
    "acknowledged: accept": 20_000,
    "acknowledged: release": 1_000,
    "acknowledged: reject": 500,
    "acknowledged: renew": 300,
    "acknowledgements refused": 200,
    "acknowledgements in doubt": 50,
    "acknowledgements of others' records": 50,
    "records committed": 2_000,
    "records aborted": 500,
    "heartbeats of share groups": 5_000,
    "share sessions lost": 200,
    "share members: leaves": 100,
    "share members: hangs": 100,
    "share members: crashes": 100,
    "start offsets told": 2_000,
    "start offsets set": 100,
    "elections": 400,
    "ended: process crash": 50,
    "ended: power crash": 10,
}
