"""Quotas of users, clients and addresses. Pure.

Source: KIP-546.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from client.admin.steps import Steps, ask, error_of
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest, EntryData

Entity = Sequence[tuple[str, str | None]]
"""Types ("user", "client-id", "ip") with names; None is the default of a type."""
_EXACT, _DEFAULT = 0, 1


def describe(entity: Entity) -> Steps[list[EntryData]]:
    """Return the quotas of all entities that have at least these parts. Raises KafkaError."""
    components = [
        ComponentData(entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name)
        for kind, name in entity
    ]
    response = yield from ask(DescribeClientQuotasRequest(components=components, strict=False))
    return response.entries or []


def alter(entity: Entity, changes: Mapping[str, float | None], *, validate_only: bool) -> Steps[None]:
    """Change quotas of one entity; None removes one. Raises KafkaError."""
    entry = RequestEntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in changes.items()],
    )
    response = yield from ask(AlterClientQuotasRequest(entries=[entry], validate_only=validate_only))
    for row in response.entries:
        error = error_of(row)
        if error is not None:
            raise error
