"""The leaderships that should return to the preferred replica of their partition. Pure.

Rules: a broker is out of balance when a larger share of the partitions it should lead than `percentage` is led elsewhere.
Candidates are only partitions whose preferred replica could lead now. Reassignments do not stop it: during its own, a
partition's first target replica is preferred.
Source: Kafka KafkaController.checkAndTriggerAutoLeaderRebalance.
"""

from __future__ import annotations

from functools import partial

from controller.controller_context import ControllerContext
from controller.elections.leader_election_rules import elect_preferred
from protocol.topic_partition import TopicPartition


def misplaced_leaders(context: ControllerContext) -> dict[int, tuple[list[TopicPartition], int]]:
    """Return by broker the partitions that it should lead and does not, and how many it should lead in total."""
    found: dict[int, tuple[list[TopicPartition], int]] = {}
    for key, assignment in context.assignments.pairs():
        replicas = assignment.replicas
        if not replicas or context.is_being_deleted(key[0]):
            continue
        misplaced, total = found.get(replicas[0], ([], 0))
        state = context.leadership.find(key)
        if state is not None and state.leader != replicas[0]:
            misplaced.append(key)
        found[replicas[0]] = (misplaced, total + 1)
    return found


def candidates(context: ControllerContext, percentage: int) -> list[TopicPartition]:
    """Return the partitions that an automatic preferred election should move."""
    return [
        key
        for misplaced, total in misplaced_leaders(context).values()
        if len(misplaced) / total > percentage / 100
        for key in misplaced
        if _can_move(context, key)
    ]


def _can_move(context: ControllerContext, key: TopicPartition) -> bool:
    is_online = partial(context.is_replica_online, topic_partition=key)
    return elect_preferred(context.assignment(key).replicas, context.leadership[key].isr, is_online) is not None
