"""ControlledShutdown: the leaderships of a broker that is about to stop are moved, and its followers stopped.

Rules: from the first request until its registration is removed, the broker is shutting down: it is not elected, and enters no
ISR. It keeps partitions that no other broker can lead, and may send the request again. Topics that are being deleted and
partitions with one replica are ignored.
Source: Kafka KafkaController.doControlledShutdown; KIP-380 (broker epoch).
"""

from __future__ import annotations

import logging

from controller.controller_term import Term
from controller.elections.leader_election_rules import ElectionReason
from protocol.errors import ErrorCode, KafkaError
from protocol.topic_partition import TopicPartition

UNKNOWN_EPOCH = -1  # of brokers before KIP-380

logger = logging.getLogger(__name__)


async def controlled_shutdown(term: Term, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
    """Move leaderships; return the partitions that the broker still leads. Raises KafkaError: STALE_BROKER_EPOCH,
    BROKER_NOT_AVAILABLE."""
    context = term.context
    known = context.live_brokers.get(broker_id)
    if known is None:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {broker_id} does not exist.")
    if broker_epoch != UNKNOWN_EPOCH and broker_epoch < known.epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Received controlled shutdown request from an old broker epoch {broker_epoch} for broker {broker_id}. "
            f"Current broker epoch is {known.epoch}.",
        )
    context.shutting_down.add(broker_id)
    led: list[TopicPartition] = []
    followed: list[TopicPartition] = []
    for name, partition, _ in context.replicas_on({broker_id}):
        key = (name, partition)
        state = context.leadership.find(key)
        if state is None or context.is_being_deleted(name) or len(context.assignment(key).replicas) == 1:
            continue
        (led if state.leader == broker_id else followed).append(key)
    logger.info("controlled shutdown requested: broker=%d leaders=%d followers=%d", broker_id, len(led), len(followed))
    await term.elect(led, ElectionReason.CONTROLLED_SHUTDOWN)
    await term.take_replicas_offline([(*key, broker_id) for key in followed])
    return [key for key in led if context.leadership[key].leader == broker_id]
