"""UpdateMetadata (key 6): the controller sends brokers and partition states, which update this broker's cluster image.

Behaviour: as LeaderAndIsr, accepted only from the controller. After the first one that lists this broker, clients are served.
Served before the broker is ready.
Versions: v0 one address a broker; v1 several; v3 listener names; v5 broker epochs, partitions by topic; v7 topic ids.
Source: KIP-380, KIP-516; Kafka KafkaApis.handleUpdateMetadataRequest.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.errors import ErrorCode
from protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from security.access import Operation, on_cluster


@handles(UpdateMetadataRequest, on_cluster(Operation.CLUSTER_ACTION))
async def update_metadata(request: UpdateMetadataRequest, context: RequestContext) -> UpdateMetadataResponse:
    control = context.services.control
    refusal = await control.refusal(request)
    if refusal is not ErrorCode.NONE:
        return UpdateMetadataResponse(error_code=refusal)
    return await control.on_update_metadata(request)
