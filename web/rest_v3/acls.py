"""ACLs: search, create one or many, delete.

Rules: a filter that is not given, or is empty, selects all; to delete, type, pattern, operation and permission are to be given,
ANY if it is meant. Words are Kafka's, in capitals; small letters are taken as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastapi.responses import Response

from client.admin import acls
from client.admin.acls import AclWords
from security.access import Operation, ResourceType
from security.acls.entries import PatternType, PermissionType
from web.requests import WRITING
from web.rest_v3.asked import V3, answer, done, invalid, v3_router
from web.rest_v3.bodies import CreateAclRequest, CreateAclsRequest
from web.rest_v3.resources import AclData, AclDataList, DeletedAcls

if TYPE_CHECKING:
    from enum import IntEnum

    from web.rest_v3.links import Links

router = v3_router("ACL (v3)")
_ACLS: Final = "/clusters/{cluster_id}/acls"
_ANY: Final = "ANY"
_CODES: Final[dict[str, type[IntEnum]]] = {
    "resource_type": ResourceType,
    "pattern_type": PatternType,
    "operation": Operation,
    "permission": PermissionType,
}


@router.get(_ACLS, response_model=AclDataList)
async def search_acls(
    v3: V3,
    resource_type: str = _ANY,
    resource_name: str = "",
    pattern_type: str = _ANY,
    principal: str = "",
    host: str = "",
    operation: str = _ANY,
    permission: str = _ANY,
) -> Response:
    """List the ACLs that match."""
    wanted = _filter(resource_type, resource_name, pattern_type, principal, host, operation, permission)
    rows = [acl_data(v3.links, each) for each in await v3.user.run(acls.describe(wanted))]
    return v3.collection("KafkaAclList", _sorted(rows), "acls", query=_query(wanted))


@router.post(_ACLS, status_code=201, response_class=Response, dependencies=[WRITING])
async def create_acl(v3: V3, body: CreateAclRequest) -> Response:
    """Create an ACL."""
    wanted = _entry(body)
    await v3.user.run(acls.create([wanted]))
    return done(201, location=v3.links.to("acls", query=_query(wanted)))


@router.post(_ACLS + ":batch", status_code=201, response_class=Response, dependencies=[WRITING])
async def create_acls(v3: V3, body: CreateAclsRequest) -> Response:
    """Create many ACLs."""
    await v3.user.run(acls.create([_entry(each) for each in body.data]))
    return done(201)


@router.delete(_ACLS, response_model=DeletedAcls, dependencies=[WRITING])
async def delete_acls(
    v3: V3,
    resource_type: str,
    pattern_type: str,
    operation: str,
    permission: str,
    resource_name: str = "",
    principal: str = "",
    host: str = "",
) -> Response:
    """Delete the ACLs that match, and tell which they were."""
    wanted = _filter(resource_type, resource_name, pattern_type, principal, host, operation, permission)
    rows = [acl_data(v3.links, each) for each in await v3.user.run(acls.delete(wanted))]
    return answer({"data": _sorted(rows)})


def acl_data(links: Links, acl: AclWords) -> AclData:
    query = _query(acl)
    return {
        "kind": "KafkaAcl",
        "metadata": {"self": links.to("acls", query=query)},
        "cluster_id": links.cluster_id,
        "resource_type": query["resource_type"],
        "resource_name": query["resource_name"],
        "pattern_type": query["pattern_type"],
        "principal": query["principal"],
        "host": query["host"],
        "operation": query["operation"],
        "permission": query["permission"],
    }


def _filter(
    resource_type: str,
    resource_name: str,
    pattern_type: str,
    principal: str,
    host: str,
    operation: str,
    permission: str,
) -> AclWords:
    """Raises HttpProblem 400."""
    return AclWords(
        _word("resource_type", resource_type),
        resource_name or None,
        _word("pattern_type", pattern_type),
        principal or None,
        host or None,
        _word("operation", operation),
        _word("permission", permission),
    )


def _entry(body: CreateAclRequest) -> AclWords:
    """Raises HttpProblem 400 for what only a filter may have."""
    for name, value in (
        ("resource_type", body.resource_type), ("pattern_type", body.pattern_type), ("operation", body.operation),
        ("permission", body.permission),
    ):  # fmt: skip
        if value.upper() in (_ANY, "MATCH"):
            raise invalid(f"{name} of an ACL cannot be {value}: that is for a search.")
    found = _filter(
        body.resource_type,
        body.resource_name,
        body.pattern_type,
        body.principal,
        body.host,
        body.operation,
        body.permission,
    )
    for name, given in (("resource_name", found.resource), ("principal", found.principal), ("host", found.host)):
        if given is None:
            raise invalid(f"{name} is empty.")
    return found


def _word(name: str, value: str) -> str:
    """Return a word as the client has it. Raises HttpProblem 400."""
    codes, wanted = _CODES[name], value.upper()
    if wanted != _ANY and wanted not in codes.__members__:
        known = ", ".join(dict.fromkeys((_ANY, *codes.__members__)))
        raise invalid(f"{name} is {value!r}, and can be {known}.")
    return wanted.lower().replace("_", "-")


def _query(acl: AclWords) -> dict[str, str]:
    """Return an ACL, or a filter, by the names of REST v3."""

    def capitals(word: str) -> str:
        return word.upper().replace("-", "_")

    return {
        "resource_type": capitals(acl.resource_type),
        "resource_name": acl.resource or "",
        "pattern_type": capitals(acl.pattern),
        "principal": acl.principal or "",
        "host": acl.host or "",
        "operation": capitals(acl.operation),
        "permission": capitals(acl.permission),
    }


def _sorted(rows: list[AclData]) -> list[AclData]:
    return sorted(rows, key=lambda row: row["metadata"]["self"])
