"""Leader elections on demand: by a request, /admin/preferred_replica_election, or the balance of leaders.

Rules: a partition that has the right leader is not changed. The node is removed after its elections, whether they were
successful or not; then it is watched again.
Source: Kafka KafkaController.processReplicaLeaderElection, fetchPendingPreferredReplicaElections,
processAutoPreferredReplicaLeaderElection.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from controller.controller_context import ControllerContext
from controller.controller_term import Term
from controller.elections import balance
from controller.elections.leader_election_rules import NO_LEADER, ElectionReason
from metadata.admin.topic_requests import Outcome
from metadata.store import znodes
from metadata.store.port import BadVersionError, Delete, NoNodeError, StoreError
from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition
from runtime.error_texts import reason_of

logger = logging.getLogger(__name__)

_FAILURES = {
    ElectionReason.PREFERRED: (
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        "PreferredReplicaPartitionLeaderElectionStrategy",
    ),
    ElectionReason.UNCLEAN: (ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "OfflinePartitionLeaderElectionStrategy(true)"),
}
"""The error of a failed election, and Apache Kafka's name for its strategy, which the error message has."""


async def elect(
    term: Term, wanted: Iterable[TopicPartition], reason: ElectionReason
) -> tuple[dict[TopicPartition, Outcome], dict[TopicPartition, int]]:
    """Elect leaders for `reason` PREFERRED or UNCLEAN. Returns (outcomes that are final, elected leaders)."""
    context = term.context
    outcomes: dict[TopicPartition, Outcome] = {}
    electable: list[TopicPartition] = []
    for key in wanted:
        state = context.leadership.find(key)
        if not context.assignment(key).replicas:
            outcomes[key] = Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
        elif context.is_being_deleted(key[0]):
            outcomes[key] = Outcome(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
        elif state is None or _needs_election(context, key, state.leader, reason):  # None: it never had a leader
            electable.append(key)
        else:
            outcomes[key] = Outcome(ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.ELECTION_NOT_NEEDED.message)
        await term.yield_if_due()
    elections = await term.elect(electable, reason)
    code, strategy = _FAILURES[reason]
    for name, partition in elections.failures:
        message = f"Failed to elect leader for partition {name}-{partition} under strategy {strategy}"
        outcomes[name, partition] = Outcome(code, message)
    return outcomes, {key: state.leader for key, state in elections.elected.items()}


def _needs_election(context: ControllerContext, key: TopicPartition, leader: int, reason: ElectionReason) -> bool:
    if reason is ElectionReason.PREFERRED:
        return leader != context.assignment(key).replicas[0]
    return leader == NO_LEADER or not context.is_live(leader)


async def on_preferred_elections_requested(term: Term) -> None:
    """Handle a written or removed /admin/preferred_replica_election, and watch it again."""
    while await term.session.exists(znodes.PREFERRED_ELECTION, term.watch) is not None:
        try:
            data, stat = await term.session.get(znodes.PREFERRED_ELECTION)
            wanted = znodes.decode_topic_partitions(data)
        except NoNodeError:
            continue
        except ValueError as error:
            logger.warning("request for preferred leader election unreadable, removed: error=%s", error)
            wanted = []
        outcomes, elected = await elect(term, dict.fromkeys(wanted), ElectionReason.PREFERRED)
        logger.info("preferred leaders elected: requests=%d leaders=%d", len(wanted), len(elected))
        for (name, partition), outcome in outcomes.items():
            if outcome.code is not ErrorCode.ELECTION_NOT_NEEDED:
                logger.warning(
                    "preferred leader not elected: topic=%s partition=%d reason=%s", name, partition, outcome.message
                )
        [deleted] = await term.write_many([[Delete(znodes.PREFERRED_ELECTION, stat.version)]])
        if isinstance(deleted, StoreError) and not isinstance(deleted, BadVersionError | NoNodeError):
            logger.warning("request for preferred leader election not removed: error=%s", reason_of(deleted))
            return


async def balance_leaders(term: Term) -> None:
    """Move leaderships back to preferred replicas, for auto.leader.rebalance.enable."""
    candidates = balance.candidates(term.context, term.settings.leader_imbalance_per_broker_percentage)
    if candidates:
        elections = await term.elect(candidates, ElectionReason.PREFERRED)
        logger.info("preferred leaders restored: leaders=%d candidates=%d", len(elections.elected), len(candidates))
