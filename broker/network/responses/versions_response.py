"""The response to ApiVersions, before and after a client has authenticated.

Rules: pure. The rows come from the table of handlers. From v3 on the client names its software; a name or version with
other characters than letters, digits, '-' and '.' gets INVALID_REQUEST. While all feature levels are 0 the response has
only their epoch, as that of a broker of Apache Kafka 3.9. Else it has the finalized levels, and from v4 on the supported
ones, which begin at 0: older clients fail on that (KAFKA-17492).
Source: KIP-35, KIP-511, KIP-584, KIP-1022; Kafka ApiVersionsRequest, ApiVersionsResponse, ApiVersionManager.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metadata.features import NEWEST
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from broker.network.connections.client_connection import ClientConnection
    from broker.network.routes import DispatchTable

SOFTWARE_VERSION = 3
MINIMUM_ZERO_VERSION = 4
SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def versions_response(
    request: ApiVersionsRequest,
    version: int,
    client: ClientConnection,
    table: DispatchTable,
) -> ApiVersionsResponse:
    """Return the response to a served version of the request; the client's software is kept. Raises KafkaError."""
    if version >= SOFTWARE_VERSION:
        name, software_version = request.client_software_name, request.client_software_version
        if not SOFTWARE_NAME.fullmatch(name) or not SOFTWARE_NAME.fullmatch(software_version):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        client.software = (name, software_version)
    features, levels = table.levels, table.levels.levels
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=[
            ApiVersion(api_key=row.api_key, min_version=row.first_version, max_version=row.last_version)
            for row in table.api_versions()
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=0, max_version=newest)
            for name, newest in (NEWEST.items() if levels.any_above_zero and version >= MINIMUM_ZERO_VERSION else ())
        ],
        finalized_features_epoch=features.epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in levels.above_zero.items()
        ],
    )
