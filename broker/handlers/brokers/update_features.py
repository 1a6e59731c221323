"""UpdateFeatures (key 57): change finalized feature levels.

Behaviour: the controller decides (`controller.features`), and it responds once this broker tells the new levels itself.
NOT_CONTROLLER on other brokers.
Versions: v0 has a flag that allows a downgrade; v1 the kind of change, and a flag to validate only (KIP-778); v2 updates all
features or none, and has one error for all.
Source: KIP-584, KIP-778; Kafka KafkaController.updateFeatures.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.observability.audited_request import Results, audit
from metadata.admin.metadata_wait import wait_for_levels
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from security.access import Operation, on_cluster


def _done(request: UpdateFeaturesRequest, response: UpdateFeaturesResponse) -> Results:
    """A response without rows says of all features what it says as a whole."""
    own = {row.feature: row.error_code for row in response.results}
    return [(row.feature, own.get(row.feature, response.error_code)) for row in request.feature_updates]


@handles(
    UpdateFeaturesRequest,
    on_cluster(Operation.ALTER, denial=ErrorCode.CLUSTER_AUTHORIZATION_FAILED.message),
    audit=audit(Operation.ALTER, "FEATURE", "feature_updates", _done),
)
async def update_features(request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    services = context.services
    try:
        updated = await services.controller.update_features(request, context.api_version)
    except KafkaError as error:
        return UpdateFeaturesResponse(
            throttle_time_ms=0, error_code=error.code, error_message=error.message, results=[]
        )
    if updated.epoch is not None:
        await wait_for_levels(services.features, updated.epoch, request.timeout_ms)
    return updated.response
