"""DescribeClientQuotas (key 48): the quotas of users, client ids and addresses that a filter matches.

Behaviour: a filter has a component for each type of name that must be in the entity: this one, the default, or any. Types
without a component may be there too, unless the filter is `strict`. An entity without quotas is not in the response.
Source: KIP-546, KIP-612; Kafka KafkaApis.handleDescribeClientQuotasRequest, ZkAdminManager.describeClientQuotas.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.handlers.configs.alter_client_quotas import ADDRESS, CLIENT_ID, USER
from broker.handlers.configs.config_resources import refused, store_refusal
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from metadata.client_quotas import DEFAULT, QuotaEntity, quotas_in
from metadata.store.port import StoreError
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from security.access import Operation, on_cluster

EXACTLY, DEFAULT_NAME, ANY_NAME = 0, 1, 2
_TYPES = {USER: "user", CLIENT_ID: "client", ADDRESS: "ip"}


@handles(DescribeClientQuotasRequest, on_cluster(Operation.DESCRIBE_CONFIGS, denial=None))
async def describe_client_quotas(
    request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    try:
        wanted = _components(request.components)
        dynamic = context.services.dynamic_settings
        await dynamic.catch_up()
    except KafkaError as error:
        return DescribeClientQuotasResponse(
            throttle_time_ms=0, error_code=error.code, error_message=error.message, entries=None
        )
    except StoreError as error:
        refusal = store_refusal(error)
        return DescribeClientQuotasResponse(
            throttle_time_ms=0, error_code=refusal.code, error_message=refusal.message, entries=None
        )
    entries: list[EntryData] = []
    async with context.services.serial_queue.begin(len(dynamic.entities)) as slices:
        async for path, settings in slices.over(list(dynamic.entities.items())):
            entity = QuotaEntity.of_path(path)
            if entity is None or not _is_match(entity, wanted, is_strict=request.strict):
                continue
            quotas = quotas_in(settings, entity.kinds)
            if quotas:
                values = [ValueData(key=kind.value, value=value) for kind, value in quotas.items()]
                entries.append(EntryData(entity=_parts(entity), values=values))
    return DescribeClientQuotasResponse(
        throttle_time_ms=0, error_code=ErrorCode.NONE, error_message="", entries=entries
    )


def _components(components: Sequence[ComponentData]) -> dict[str, str | None]:
    """Return the name that each type must have; None: any. Raises KafkaError."""
    wanted: dict[str, str | None] = {}
    for component in components:
        kind = component.entity_type
        if kind in wanted:
            raise refused(f"Duplicate {_TYPES[kind]} filter component entity type")
        wanted[kind] = _name(component)
        if not kind:
            raise refused("Unexpected empty filter component entity type")
        if kind not in _TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{kind}' not supported")
    if ADDRESS in wanted and len(wanted) > 1:
        raise refused(
            "Invalid entity filter component combination, IP filter component should not be used with user or clientId "
            "filter component."
        )
    return wanted


_NO_NAME = "\0"
"""Matches nothing: no name is empty, but this is what an exact match of the empty name asks for."""


def _name(component: ComponentData) -> str | None:
    """Raises KafkaError."""
    if component.match_type == EXACTLY:
        if component.match is None:
            raise refused(f"An exact match of the type {component.entity_type} needs a name")
        return component.match or _NO_NAME
    if component.match_type not in (DEFAULT_NAME, ANY_NAME):
        raise refused(f"Unknown match type {component.match_type}")
    return DEFAULT if component.match_type == DEFAULT_NAME else None


def _is_match(entity: QuotaEntity, wanted: dict[str, str | None], *, is_strict: bool) -> bool:
    for kind, name in ((USER, entity.user), (CLIENT_ID, entity.client_id), (ADDRESS, entity.address)):
        if kind not in wanted:
            if is_strict and name is not None:
                return False
        elif name is None or wanted[kind] not in (None, name):
            return False
    return True


def _parts(entity: QuotaEntity) -> list[EntityData]:
    names = ((USER, entity.user), (CLIENT_ID, entity.client_id), (ADDRESS, entity.address))
    return [EntityData(entity_type=kind, entity_name=name or None) for kind, name in names if name is not None]
