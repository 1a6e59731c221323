"""UpdateFeatures (key 57): change finalized feature levels.

Behaviour: the controller checks each feature independently. No broker in ZooKeeper mode supports any feature, so every
update is refused. NOT_CONTROLLER on other brokers.
Versions: v0 has a flag that allows a downgrade; v1 the kind of change, and a flag to validate only (KIP-778).
Source: KIP-584, KIP-778; Kafka KafkaController.updateFeatures.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.observability.audited_request import audit
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from security.access import Operation, on_cluster


@handles(
    UpdateFeaturesRequest,
    on_cluster(Operation.ALTER, denial=ErrorCode.CLUSTER_AUTHORIZATION_FAILED.message),
    audit=audit(Operation.ALTER, "FEATURE", "feature_updates", "results"),
    versions="0-1",
)
async def update_features(request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    try:
        return await context.services.controller.update_features(request, context.api_version)
    except KafkaError as error:
        return UpdateFeaturesResponse(
            throttle_time_ms=0, error_code=error.code, error_message=error.message, results=[]
        )
