"""ApiVersions (key 18): which APIs this broker serves, in which versions.

Behaviour: as `broker.network.responses.versions_response`, which also responds to clients that have not authenticated yet.
A version that is not served never gets here: `error_responses.unsupported_api_versions`.
Source: KIP-35, KIP-511; Kafka ApiVersionsRequest, ApiVersionManager.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.responses.versions_response import versions_response
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from security.access import NOTHING


@handles(ApiVersionsRequest, NOTHING)
async def api_versions(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    return versions_response(request, context.api_version, context.connection, context.services.table)
