"""AllocateProducerIds (key 67): a broker gets its next thousand producer ids from the controller.

Behaviour: NOT_CONTROLLER elsewhere; a sender with an old broker epoch gets STALE_BROKER_EPOCH.
Source: KIP-730; Kafka KafkaController.allocateProducerIds.
"""

from __future__ import annotations

from typing import cast

from broker.cluster.controller_channel import controller_response
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from security.access import Operation, on_cluster


@handles(AllocateProducerIdsRequest, on_cluster(Operation.CLUSTER_ACTION))
async def allocate_producer_ids(
    request: AllocateProducerIdsRequest, context: RequestContext
) -> AllocateProducerIdsResponse:
    controller = context.services.controller
    return cast(AllocateProducerIdsResponse, await controller_response(controller, request, context.api_version))
