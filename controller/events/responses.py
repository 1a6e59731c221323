"""The controller's handling of responses to control requests.

Rules: pure except `on_leader_and_isr`. A replica whose log directory has failed is offline until its broker reports otherwise;
only results of replicas count: a refused request has none.
Source: Kafka KafkaController.processLeaderAndIsrResponseReceived, processTopicDeletionStopReplicaResponseReceived.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from controller.controller_context import ControllerContext, Replica
from controller.controller_term import Term
from controller.events import event_handlers
from protocol.errors import ErrorCode
from protocol.messages.leader_and_isr import LeaderAndIsrResponse
from protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from protocol.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


def deletion_results(
    broker_id: int, request: StopReplicaRequest, response: StopReplicaResponse
) -> tuple[list[Replica], list[Replica]]:
    """Return the replicas that were deleted, and those whose deletion failed."""
    failed_rows = {(row.topic_name, row.partition_index) for row in response.partition_errors if row.error_code}
    everything_failed = response.error_code != ErrorCode.NONE
    deleted: list[Replica] = []
    failed: list[Replica] = []
    for topic in request.topic_states:
        for state in topic.partition_states:
            if state.delete_partition:
                key = (topic.topic_name, state.partition_index)
                (failed if everything_failed or key in failed_rows else deleted).append((*key, broker_id))
    return deleted, failed


def is_of_interest(context: ControllerContext, broker_id: int, response: LeaderAndIsrResponse) -> bool:
    """Whether a replica has failed, or may be online again."""
    return bool(context.offline_directories.get(broker_id)) or any(
        code == ErrorCode.KAFKA_STORAGE_ERROR for _, code in _partition_errors(context, response)
    )


def _partition_errors(
    context: ControllerContext, response: LeaderAndIsrResponse
) -> Iterator[tuple[TopicPartition, int]]:
    for topic in response.topics:
        name = context.names_by_id.get(topic.topic_id)
        if name is not None:
            for row in topic.partition_errors:
                yield (name, row.partition_index), row.error_code
    for row in response.partition_errors:
        yield (row.topic_name, row.partition_index), row.error_code


async def on_leader_and_isr(term: Term, broker_id: int, response: LeaderAndIsrResponse) -> None:
    context = term.context
    offline = context.offline_directories.setdefault(broker_id, set())
    newly: list[Replica] = []
    for key, code in _partition_errors(context, response):
        if code == ErrorCode.KAFKA_STORAGE_ERROR and key not in offline:
            offline.add(key)
            newly.append((*key, broker_id))
        elif code == ErrorCode.NONE:
            offline.discard(key)
    if newly:
        logger.warning("replicas offline: broker=%d replicas=%d examples=%s", broker_id, len(newly), newly[:1])
        await event_handlers.on_replicas_lost(term, newly)
