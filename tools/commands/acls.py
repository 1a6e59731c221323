"""`barnabas acls`: who may do what.

Source: kafka-acls.sh.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tools.cluster import Cluster, cluster_command
from tools.output import Output

_OPERATIONS = ("all", "read", "write", "create", "delete", "alter", "describe", "cluster-action", "describe-configs",
               "alter-configs", "idempotent-write", "create-tokens", "describe-tokens")  # fmt: skip
_COLUMNS = ("resource_type", "resource", "pattern", "principal", "host", "operation", "permission")
CLUSTER_NAME = "kafka-cluster"


@click.group("acls", help="Who may do what on which resource.")
def command() -> None:
    pass


def _resource_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed((
        click.option("--topic", metavar="NAME", help="a topic; * is any"),
        click.option("--group", metavar="NAME", help="a group"),
        click.option("--transactional-id", metavar="NAME", help="a transactional id"),
        click.option("--cluster", "is_cluster", is_flag=True, help="the cluster"),
        click.option("--resource-pattern-type", "pattern", type=click.Choice(["literal", "prefixed", "match", "any"]),
                     default=None, help="how the name is meant"),
    )):  # fmt: skip
        function = option(function)
    return function


@command.command("list")
@_resource_options
@click.option("--principal", metavar="User:NAME", help="only of this principal")
@cluster_command
def list_acls(cluster: Cluster, output: Output, *, principal: str | None, pattern: str | None, **named: Any) -> None:
    """List ACLs, of one resource or of all. `--resource-pattern-type match` shows all that concern a name."""
    resource_type, name = _resource(named, needs_one=False)
    rows = _described(cluster, resource_type, name, pattern or "any", principal, "any")
    output.table(sorted(rows, key=lambda row: tuple(row.values())), _COLUMNS)


@command.command("add")
@_resource_options
@click.option("--allow-principal", "allowed", multiple=True, metavar="User:NAME", help="may; may be repeated")
@click.option("--deny-principal", "denied", multiple=True, metavar="User:NAME", help="may not, whatever else says")
@click.option("--operation", "operations", multiple=True, type=click.Choice(_OPERATIONS, case_sensitive=False),
              help="what; may be repeated [all]")  # fmt: skip
@click.option("--host", "hosts", multiple=True, metavar="ADDRESS", help="from this address; may be repeated [any]")
@click.option("--producer", is_flag=True, help="what a producer of --topic needs")
@click.option("--consumer", is_flag=True, help="what a consumer of --topic in --group needs")
@cluster_command
def add_acls(
    cluster: Cluster,
    output: Output,
    *,
    allowed: tuple[str, ...],
    denied: tuple[str, ...],
    operations: tuple[str, ...],
    hosts: tuple[str, ...],
    pattern: str | None,
    producer: bool,
    consumer: bool,
    **named: Any,
) -> None:
    """Add ACLs."""
    from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType  # noqa: PLC0415

    if pattern in ("match", "any"):
        raise click.UsageError("an ACL is literal or prefixed")
    if not allowed and not denied:
        raise click.UsageError("name --allow-principal or --deny-principal")
    for text in (*allowed, *denied):
        if not all(text.partition(":")):
            raise click.UsageError(f"{text!r} is not of the form User:NAME")
    if (producer or consumer) and operations:
        raise click.UsageError("--producer and --consumer say the operations")
    wanted = _of_roles(named, producer=producer, consumer=consumer) if producer or consumer else [
        (*_resource(named, needs_one=True), operation) for operation in operations or ("all",)
    ]  # fmt: skip
    bindings = [
        AclBinding(_type(resource_type), name, _pattern(pattern or "literal"), principal, host, operation, permission)
        for resource_type, name, text in wanted
        for operation in [AclOperation[_constant(text)]]
        for principals, permission in ((allowed, AclPermissionType.ALLOW), (denied, AclPermissionType.DENY))
        for principal in principals
        for host in hosts or ("*",)
    ]
    for binding, future in cluster.admin.create_acls(bindings).items():
        cluster.result(future)
        row = _row(binding)
        output.line(row, "added: " + " ".join(str(row[column]) for column in _COLUMNS))


@command.command("remove")
@_resource_options
@click.option("--principal", metavar="User:NAME", help="only of this principal")
@click.option("--operation", type=click.Choice(_OPERATIONS, case_sensitive=False), help="only of this operation")
@click.option("--execute", is_flag=True, help="remove; without it they are only shown")
@cluster_command
def remove_acls(
    cluster: Cluster,
    output: Output,
    *,
    principal: str | None,
    operation: str | None,
    pattern: str | None,
    execute: bool,
    **named: Any,
) -> None:
    """Remove the ACLs of a resource. A dry run, unless --execute is given."""
    from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType  # noqa: PLC0415

    resource_type, name = _resource(named, needs_one=True)
    form, what = pattern or "literal", operation or "any"
    if execute:
        asked = AclBindingFilter(_type(resource_type), name, _pattern(form), principal, None,
                                 AclOperation[_constant(what)], AclPermissionType.ANY)  # fmt: skip
        removed = [_row(binding) for binding in cluster.result(cluster.admin.delete_acls([asked])[asked])]
    else:
        removed = _described(cluster, resource_type, name, form, principal, what)
    output.table(removed, _COLUMNS)
    if not execute:
        Output.note("nothing was removed: --execute removes these ACLs")


def _described(
    cluster: Cluster, resource_type: str, name: str | None, pattern: str, principal: str | None, operation: str
) -> list[dict[str, Any]]:
    """Return the ACLs that are there. By the other client: librdkafka's reports no error of this request."""
    from kafka.admin import (  # noqa: PLC0415  # noqa: PLC0415
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        ResourcePatternFilter,
        ResourceType,
    )

    asked = ResourcePatternFilter(
        ResourceType[_constant(resource_type)], name, ACLResourcePatternType[_constant(pattern)]
    )
    found, _ = cluster.other_admin.describe_acls(
        ACLFilter(principal, None, ACLOperation[_constant(operation)], ACLPermissionType.ANY, asked)
    )
    return [
        {
            "resource_type": _word(acl.resource_pattern.resource_type),
            "resource": acl.resource_pattern.resource_name,
            "pattern": _word(acl.resource_pattern.pattern_type),
            "principal": acl.principal,
            "host": acl.host,
            "operation": _word(acl.operation),
            "permission": _word(acl.permission_type),
        }
        for acl in found
    ]


def _resource(named: dict[str, Any], *, needs_one: bool) -> tuple[str, str | None]:
    """Return type and name of the resource that the options name, ("any", None) for none. Raises click.UsageError."""
    found = [(each, named[each]) for each in ("topic", "group", "transactional_id") if named[each] is not None]
    if named["is_cluster"]:
        found.append(("cluster", CLUSTER_NAME))
    if len(found) > 1 or (needs_one and not found):
        raise click.UsageError("name one of --topic, --group, --transactional-id and --cluster")
    return found[0] if found else ("any", None)


def _of_roles(named: dict[str, Any], *, producer: bool, consumer: bool) -> list[tuple[str, str, str]]:
    """Return what producers and consumers need, as kafka-acls.sh gives it. Raises click.UsageError."""
    topic, group, transactional_id = named["topic"], named["group"], named["transactional_id"]
    if topic is None or (consumer and group is None):
        raise click.UsageError("--producer goes with --topic, --consumer with --topic and --group")
    wanted = []
    if producer:
        wanted += [("topic", topic, operation) for operation in ("write", "describe", "create")]
        if transactional_id is not None:
            wanted += [("transactional_id", transactional_id, operation) for operation in ("write", "describe")]
    if consumer:
        wanted += [("topic", topic, "read"), ("topic", topic, "describe"), ("group", group, "read")]
    return list(dict.fromkeys(wanted))


def _type(text: str) -> Any:
    """Return librdkafka's constant, which has its own name for the cluster."""
    from confluent_kafka.admin import ResourceType  # noqa: PLC0415

    return ResourceType["BROKER" if text == "cluster" else _constant(text)]


def _constant(text: str) -> str:
    return text.upper().replace("-", "_")


def _word(constant: Any) -> str:
    name: str = constant.name
    return name.lower().replace("_", "-")


def _pattern(text: str) -> Any:
    from confluent_kafka.admin import ResourcePatternType  # noqa: PLC0415

    return ResourcePatternType[text.upper()]


def _row(binding: Any) -> dict[str, Any]:
    resource_type = _word(binding.restype)
    return {
        "resource_type": "cluster" if resource_type == "broker" else resource_type,
        "resource": binding.name,
        "pattern": _word(binding.resource_pattern_type),
        "principal": binding.principal,
        "host": binding.host,
        "operation": _word(binding.operation),
        "permission": _word(binding.permission_type),
    }
