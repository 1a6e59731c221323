"""What the histories of groups must have met, for a hundred seeds."""

from __future__ import annotations

MINIMUMS = {
    "requests": 100 * 500,
    "faults": 100 * 4,
    "virtual seconds": 100 * 30,
    "consumer members begun": 500,
    "classic members begun": 150,
    "heartbeats of consumer groups": 2_000,
    "log: group converted": 50,
    "partitions assigned": 1_500,
    "partitions let go of": 300,
    "commits of members": 5_000,
    "commits that came late and were refused": 200,
    "records read": 40_000,
    "records read again": 300,
    "members: leaves": 100,
    "members: hangs": 100,
    "members: crashes": 100,
    "loads of __consumer_offsets": 200,
    "elections": 400,
    "ended: process crash": 50,
    "ended: power crash": 10,
}
