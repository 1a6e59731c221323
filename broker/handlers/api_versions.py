"""ApiVersions (key 18): which APIs this broker serves, in which versions.

Behaviour: the rows come from the table of handlers. From v3 on the client names its software; a name or version with
other characters than letters, digits, '-' and '.' gets INVALID_REQUEST. A broker in ZooKeeper mode supports no
feature levels and has none finalized, so the response has only the epoch of the feature znode.
A version that is not served never gets here: `error_responses.unsupported_api_versions`.
Source: KIP-35, KIP-511, KIP-584; Kafka ApiVersionsRequest, ApiVersionManager.
"""

from __future__ import annotations

import re

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from security.access import NOTHING

SOFTWARE_VERSION = 3
SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
# The feature znode is written once, when the first controller starts, and never changes after.
FINALIZED_FEATURES_EPOCH = 0


@handles(ApiVersionsRequest, NOTHING)
async def api_versions(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.api_version >= SOFTWARE_VERSION:
        name, version = request.client_software_name, request.client_software_version
        if not SOFTWARE_NAME.fullmatch(name) or not SOFTWARE_NAME.fullmatch(version):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        context.connection.software = (name, version)
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=[
            ApiVersion(api_key=row.api_key, min_version=row.first_version, max_version=row.last_version)
            for row in context.services.api_versions
        ],
        finalized_features_epoch=FINALIZED_FEATURES_EPOCH,
    )
