"""What the histories of clusters must have met, for a hundred seeds."""

from __future__ import annotations

MINIMUMS = {
    "requests": 100 * 200,
    "faults": 100 * 5,
    "virtual seconds": 100 * 30,
    "controllers elected": 100,
    "elections": 400,
    "isr shrinks": 500,
    "isr expansions": 500,
    "truncations": 40,
    "loads of __consumer_offsets": 200,
    "ended: process crash": 50,
    "ended: power crash": 20,
    "ended: stopped": 300,
    "reassignments begun": 100,
    "preferred leaders elected": 20,
    "logs moved": 500,
    "batches acknowledged": 5_000,
    "retries acknowledged": 50,
    "records deleted": 100,
    "records expired": 4_000,
    "topics deleted": 100,
    "commits acknowledged": 500,
    "commits fetched": 300,
    "commits of members": 300,
    "fault: pause": 20,
    "fault: partition": 20,
    "fault: one_way_partition": 10,
    "fault: cut_off_from_ensemble": 15,
    "fault: expire_session": 10,
    "fault: late_requests": 8,
    "fault: controller_deposed": 8,
    "fault: unseen_power_loss": 5,
    "fault: one_at_a_time": 8,
    "late control requests refused": 100,
    "unclean elections": 10,
    "ranges of files sent": 1_000,
}
SERVER_MINIMUMS = {
    "fault: store_crash": 20,
    "fault: store_full_disk": 15,
    "fault: store_pause": 8,
}
"""With a store server."""
