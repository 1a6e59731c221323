"""AlterPartition (key 56): a leader requests a change of an ISR from the controller.

Behaviour: the controller decides partition by partition; NOT_CONTROLLER on other brokers, and the leader retries. A sender
with an old broker epoch is refused as a whole (STALE_BROKER_EPOCH).
Versions: v1 leader recovery; v2 topic ids instead of names; v3 broker epochs of the members.
Source: KIP-497, KIP-841, KIP-903; Kafka KafkaController.alterPartitions.
"""

from __future__ import annotations

from typing import cast

from broker.cluster.controller_channel import controller_response
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from security.access import Operation, on_cluster


@handles(AlterPartitionRequest, on_cluster(Operation.CLUSTER_ACTION))
async def alter_partition(request: AlterPartitionRequest, context: RequestContext) -> AlterPartitionResponse:
    controller = context.services.controller
    return cast(AlterPartitionResponse, await controller_response(controller, request, context.api_version))
