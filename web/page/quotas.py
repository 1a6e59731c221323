"""Quotas of users, clients and addresses, as the page shows and changes them."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from client.admin import quotas as quota_steps
from web.errors import HttpProblem
from web.page.routing import RequestBody, page_router
from web.requests import WRITING, Cluster

router = page_router("Quotas")
_KINDS = (("user", "user"), ("client-id", "client_id"), ("ip", "ip"))
FiniteNumber = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Entity(RequestBody):
    """Whose quotas: a user, a client, both together, or an address. A null is all that have none of their own; what is not
    named is no part of it."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @property
    def parts(self) -> list[tuple[str, str | None]]:
        return [(kind, getattr(self, field)) for kind, field in _KINDS if field in self.model_fields_set]


class Part(BaseModel):
    """`kind` is user, client-id or ip; a `name` of null is the default of the kind."""

    kind: str
    name: str | None


class Quotas(BaseModel):
    entity: list[Part]
    quotas: dict[str, float]


class QuotaList(BaseModel):
    entries: list[Quotas]


class QuotaChange(RequestBody):
    """A value of null removes a quota."""

    entity: Entity
    quotas: dict[str, FiniteNumber | None]


@router.get("/quotas")
async def list_quotas(cluster: Cluster) -> QuotaList:
    """List the quotas of all."""
    rows = [
        Quotas(
            entity=[Part(kind=each.entity_type, name=each.entity_name) for each in entry.entity],
            quotas={value.key: value.value for value in sorted(entry.values, key=lambda value: str(value.key))},
        )
        for entry in await cluster.run(quota_steps.describe(()))
    ]
    rows.sort(key=lambda row: [(part.kind, part.name or "") for part in row.entity])
    return QuotaList(entries=rows)


@router.post("/quotas", dependencies=[WRITING])
async def alter_quotas(cluster: Cluster, body: QuotaChange) -> QuotaList:
    """Change the quotas of one entity."""
    if not body.entity.parts or not body.quotas:
        raise HttpProblem(422, "name a user, a client or an address, and a quota", code="INVALID")
    await cluster.run(quota_steps.alter(body.entity.parts, body.quotas, validate_only=False))
    return await list_quotas(cluster)
