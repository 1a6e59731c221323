"""What the histories of the store server must have met, for a hundred seeds."""

from __future__ import annotations

MINIMUMS = {
    "faults": 100 * 6,
    "virtual seconds": 100 * 30,
    "starts of the server": 300,
    "commits": 50_000,
    "commits that writes shared": 10_000,
    "commits that a full disk refused": 1_000,
    "writes acknowledged": 100_000,
    "outcomes unknown": 2_000,
    "reads": 40_000,
    "watch events": 40_000,
    "ephemeral nodes made": 3_000,
    "sequential nodes made": 4_000,
    "sessions taken up": 800,
    "sessions expired": 30,
    "sessions closed with ephemeral nodes": 200,
    "fault: process_crash": 70,
    "fault: power_loss": 40,
    "fault: full_disk": 50,
    "fault: kill_client": 40,
    "fault: cut": 50,
    "fault: one_way_cut": 20,
    "fault: pause": 30,
}
