"""What the histories of the relay must have met, for a hundred seeds."""

from __future__ import annotations

MINIMUMS: dict[str, int] = {
    "requests": 100 * 500,
    "faults": 100 * 4,
    "virtual seconds": 100 * 30,
    "records produced": 20_000,
    "records aborted": 700,
    "outcome: delivered": 10_000,
    "outcome: cancelled": 700,
    "outcome: cancelled in vain": 700,
    "outcome: replaced": 700,
    "outcome: too late": 500,
    "outcome: dead letter": 700,
    "outcome: expired": 300,
    "records delivered on time": 3_000,
    "attempts that failed": 2_000,
    "relay transactions committed": 8_000,
    "relay transactions aborted": 10,
    "relays killed": 50,
    "relays that stood still in a transaction": 15,
    "relay clocks set": 10,
    "rules taken away": 150,
    "targets deleted": 10,
    "elections": 800,
}
