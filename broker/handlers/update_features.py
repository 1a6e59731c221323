"""UpdateFeatures (key 57): finalized feature levels change.

Behaviour: the controller checks each feature for itself. No broker in ZooKeeper mode supports any feature, so every
update but the deletion of what is not there is refused. NOT_CONTROLLER elsewhere.
Versions: v0 may allow a downgrade; v1 says which kind it is, and may only validate (KIP-778).
Source: KIP-584, KIP-778; Kafka KafkaController.updateFeatures.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from security.access import Operation, on_cluster


@handles(UpdateFeaturesRequest, on_cluster(Operation.ALTER))
async def update_features(request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    return await context.services.controller.update_features(request, context.api_version)
