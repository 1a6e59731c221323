"""AlterClientQuotas (key 49): quotas of users, client ids and addresses are set or removed.

Behaviour: each entity has its own result; of one that is named twice, the last. What is no quota stays as it is: SCRAM
credentials are settings of a user, too. `validate_only` checks everything and changes nothing. Addresses are IPv4; no name is
looked up.
Source: KIP-546, KIP-612; Kafka KafkaApis.handleAlterClientQuotasRequest, ZkAdminManager.alterClientQuotas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import AddressValueError, IPv4Address

from broker.handlers.configs.config_resources import refused, store_refusal
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.responses.error_responses import ErrorForm
from broker.observability.audited_request import audit
from metadata.client_quotas import DEFAULT, QuotaEntity, QuotaKind, quota_kind, quota_text
from metadata.store.port import StoreError
from metadata.store.sanitized_names import sanitized
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    RequestEntryData,
    ResponseEntryData,
)
from runtime.slices import Slices
from security.access import Operation, on_cluster

USER, CLIENT_ID, ADDRESS = "user", "client-id", "ip"


def _entity_name(row: RequestEntryData | ResponseEntryData) -> str:
    return " ".join(f"{each.entity_type} {each.entity_name or '<default>'}" for each in row.entity)


@handles(
    AlterClientQuotasRequest,
    on_cluster(Operation.ALTER_CONFIGS, denial=ErrorCode.CLUSTER_AUTHORIZATION_FAILED.message),
    errors=ErrorForm({"entries": "entries"}),
    audit=audit(Operation.ALTER_CONFIGS, "QUOTA", "entries", "entries", _entity_name),
)
async def alter_client_quotas(request: AlterClientQuotasRequest, context: RequestContext) -> AlterClientQuotasResponse:
    results: dict[frozenset[tuple[str, str | None]], ResponseEntryData] = {}
    async for entry in Slices(context.services.clock).over(request.entries):
        names = {part.entity_type: part.entity_name for part in entry.entity}
        row = ResponseEntryData(
            error_code=ErrorCode.NONE,
            error_message=None,
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in names.items()],
        )
        try:
            await _alter(entry, names, context, validate_only=request.validate_only)
        except KafkaError as error:
            row.error_code, row.error_message = error.code, error.message
        results[frozenset(names.items())] = row
    return AlterClientQuotasResponse(throttle_time_ms=0, entries=list(results.values()))


async def _alter(
    entry: RequestEntryData, names: Mapping[str, str | None], context: RequestContext, *, validate_only: bool
) -> None:
    """Raises KafkaError."""
    entity = _entity(names)

    def edit(stored: Mapping[str, str]) -> Mapping[str, str]:
        return _edited(stored, entity, entry.ops)

    try:
        await context.services.dynamic_settings.alter_entity(entity.path, edit, validate_only=validate_only)
    except StoreError as error:
        raise store_refusal(error) from error


def _entity(names: Mapping[str, str | None]) -> QuotaEntity:
    """Raises KafkaError."""
    if not names:
        raise refused("Invalid empty client quota entity")
    for kind, name in names.items():
        if kind not in (USER, CLIENT_ID, ADDRESS):
            raise refused(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise refused(f"Empty {kind} not supported")
    entity = QuotaEntity(*(_part(names, kind) for kind in (USER, CLIENT_ID, ADDRESS)))
    if entity.address is None:
        return entity
    if entity.user is not None or entity.client_id is not None:
        raise refused("Invalid quota entity combination, IP entity should not be used with user/client ID entity.")
    if entity.address != DEFAULT:
        try:
            IPv4Address(entity.address)
        except AddressValueError:
            raise refused(f"{sanitized(entity.address)} is not a valid IP or resolvable host.") from None
    return entity


def _part(names: Mapping[str, str | None], kind: str) -> str | None:
    """Return a name of the entity; null in the request is the default."""
    return (names[kind] or DEFAULT) if kind in names else None


def _edited(stored: Mapping[str, str], entity: QuotaEntity, operations: Sequence[OpData]) -> Mapping[str, str]:
    """Raises KafkaError."""
    changed = dict(stored)
    for operation in operations:
        kind: QuotaKind | None = quota_kind(operation.key)
        if kind not in entity.kinds:
            kind = None
        if operation.remove:
            if kind is not None:
                changed.pop(kind.value, None)
        elif kind is None:
            raise refused(f"Invalid configuration key {operation.key}")
        else:
            try:
                changed[kind.value] = quota_text(kind, operation.value)
            except ValueError as error:
                raise refused(str(error)) from error
    return changed
