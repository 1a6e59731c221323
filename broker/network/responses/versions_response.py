"""The response to ApiVersions, before and after a client has authenticated.

Rules: pure. The rows come from the table of handlers. From v3 on the client names its software; a name or version with
other characters than letters, digits, '-' and '.' gets INVALID_REQUEST. A broker in ZooKeeper mode supports no
feature levels and has none finalized, so the response has only their epoch.
Source: KIP-35, KIP-511, KIP-584; Kafka ApiVersionsRequest, ApiVersionManager.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, KafkaError
from protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from broker.network.connections.client_connection import ClientConnection
    from broker.network.routes import ApiVersionRow

SOFTWARE_VERSION = 3
SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def versions_response(
    request: ApiVersionsRequest,
    version: int,
    client: ClientConnection,
    rows: Iterable[ApiVersionRow],
    features_epoch: int,
) -> ApiVersionsResponse:
    """Return the response to a served version of the request; the client's software is kept. `features_epoch` is that of the
    finalized features. Raises KafkaError."""
    if version >= SOFTWARE_VERSION:
        name, software_version = request.client_software_name, request.client_software_version
        if not SOFTWARE_NAME.fullmatch(name) or not SOFTWARE_NAME.fullmatch(software_version):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        client.software = (name, software_version)
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=[
            ApiVersion(api_key=row.api_key, min_version=row.first_version, max_version=row.last_version) for row in rows
        ],
        finalized_features_epoch=features_epoch,
    )
