"""DescribeUserScramCredentials (key 50): which users have SCRAM credentials, with how many iterations; never the credentials.

Behaviour: null or no names means all users. A user that is named twice is an error, and so is one without credentials.
Source: KIP-554; Kafka KafkaApis.handleDescribeUserScramCredentialsRequest, ZkAdminManager.describeUserScramCredentials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from broker.handlers.configs.config_resources import store_refusal
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.responses.error_responses import ErrorForm
from broker.settings.scram_users import user_of_path, user_path
from metadata.store.port import StoreError
from protocol.errors import ErrorCode
from protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from security.access import Operation, on_cluster
from security.sasl.scram import MECHANISMS, ScramCredential


@handles(
    DescribeUserScramCredentialsRequest,
    on_cluster(Operation.DESCRIBE, denial=None),
    errors=ErrorForm({"results": "users"}, user=""),
)
async def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    dynamic = context.services.dynamic_settings
    try:
        await dynamic.catch_up()
    except StoreError as error:
        raise store_refusal(error) from error
    entities = dynamic.entities
    results: list[DescribeUserScramCredentialsResult] = []
    if request.users:
        counts = Counter(user.name for user in request.users)
        async with context.services.serial_queue.begin(len(counts)) as slices:
            async for name, count in slices.over(list(counts.items())):
                results.append(_named(name, count, entities))
    else:
        async with context.services.serial_queue.begin(len(entities)) as slices:
            async for path in slices.over(sorted(entities)):
                user = user_of_path(path)
                if user is not None and MECHANISMS.keys() & entities.get(path, {}).keys():
                    results.append(_described(user, entities[path]))
    return DescribeUserScramCredentialsResponse(
        throttle_time_ms=0, error_code=ErrorCode.NONE, error_message="", results=results
    )


def _named(name: str, count: int, entities: Mapping[str, Mapping[str, str]]) -> DescribeUserScramCredentialsResult:
    settings = entities.get(user_path(name), {})
    if not name:
        return _refused(name, ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty")
    if count > 1:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return _refused(name, ErrorCode.DUPLICATE_RESOURCE, message)
    if not MECHANISMS.keys() & settings.keys():
        message = f"Attempt to describe a user credential that does not exist: {name}"
        return _refused(name, ErrorCode.RESOURCE_NOT_FOUND, message)
    return _described(name, settings)


def _described(name: str, settings: Mapping[str, str]) -> DescribeUserScramCredentialsResult:
    infos = []
    for mechanism in MECHANISMS.values():
        text = settings.get(mechanism.name)
        if text is None:
            continue
        try:
            credential = ScramCredential.parse(text)
        except ValueError as error:
            return _refused(name, ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        infos.append(CredentialInfo(mechanism=mechanism.code, iterations=credential.iterations))
    return DescribeUserScramCredentialsResult(
        user=name, error_code=ErrorCode.NONE, error_message="", credential_infos=infos
    )


def _refused(name: str, code: ErrorCode, message: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=message, credential_infos=[])
