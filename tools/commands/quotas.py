"""`barnabas quotas`: how much users, clients and addresses may use.

Source: kafka-configs.sh --entity-type users | clients | ips; KIP-546.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import click

from runtime.suggestions import did_you_mean
from tools import parsing
from tools.cluster import Cluster, cluster_command
from tools.failures import Failure, with_hint
from tools.output import Output
from tools.setting_units import with_plain_numbers

_TYPES = (("user", "user"), ("client-id", "client_id"), ("ip", "ip"))
_QUOTAS = (
    "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate", "connection_creation_rate",
)  # fmt: skip
DEFAULT = "<default>"


@click.group("quotas", help="Quotas of users, clients and addresses.")
def command() -> None:
    pass


def _entity_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed((
        click.option("--user", metavar="NAME", help=f"a user; {DEFAULT} is all without a quota of their own"),
        click.option("--client-id", "--client", metavar="NAME", help=f"a client id, alone or of --user; or {DEFAULT}"),
        click.option("--ip", metavar="ADDRESS", help=f"an address; or {DEFAULT}"),
    )):  # fmt: skip
        function = option(function)
    return function


@command.command("list")
@_entity_options
@cluster_command
def list_quotas(cluster: Cluster, output: Output, **entity: str | None) -> None:
    """List the quotas, of all or of those that match."""
    from kafka.protocol.admin.client_quotas import DescribeClientQuotasRequest as Request  # noqa: PLC0415

    components = [
        Request.ComponentData(entity_type=kind, match_type=1 if name == DEFAULT else 0,
                              match=None if name == DEFAULT else name)
        for kind, name in _named(entity)
    ]  # fmt: skip
    response = _send(cluster, Request(components=components, strict=False))
    _check(response.error_code, response.error_message)
    rows = []
    for entry in response.entries or ():
        names = {each.entity_type: DEFAULT if each.entity_name is None else each.entity_name for each in entry.entity}
        rows.append(
            {option: names.get(kind) for kind, option in _TYPES}
            | {"quotas": {value.key: value.value for value in sorted(entry.values, key=lambda value: str(value.key))}}
        )
    rows.sort(key=lambda row: [str(row[option] or "") for _, option in _TYPES])
    if output.as_json:
        output.document(rows)
        return
    shown = [
        row | {"quotas": ",".join(f"{name}={_shown(value)}" for name, value in row["quotas"].items())} for row in rows
    ]
    output.table(shown, ("user", "client_id", "ip", "quotas"))


@command.command("alter")
@_entity_options
@click.option("--add", "--add-config", "added", multiple=True, metavar="NAME=VALUE",
              help=f"{', '.join(_QUOTAS)}; may be repeated")  # fmt: skip
@click.option(
    "--delete", "--delete-config", "deleted", multiple=True, metavar="NAME", help="remove this quota; may be repeated"
)
@click.option("--validate-only", is_flag=True, help="check everything, change nothing")
@cluster_command
def alter_quotas(
    cluster: Cluster,
    output: Output,
    *,
    added: tuple[str, ...],
    deleted: tuple[str, ...],
    validate_only: bool,
    **entity: str | None,
) -> None:
    """Change the quotas of a user, a client, both together, or an address."""
    from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest as Request  # noqa: PLC0415

    named = _named(entity)
    if not named:
        raise click.UsageError("name --user, --client-id or --ip")
    if not added and not deleted:
        raise click.UsageError("nothing to change: give --add or --delete")
    operations = [
        Request.EntryData.OpData(key=name, value=_number(name, text), remove=False)
        for name, text in with_plain_numbers(parsing.listed_settings(added, "--add"), "--add").items()
    ] + [Request.EntryData.OpData(key=name, value=0.0, remove=True) for text in deleted for name in text.split(",")]
    entry = Request.EntryData(
        entity=[
            Request.EntryData.EntityData(entity_type=kind, entity_name=None if name == DEFAULT else name)
            for kind, name in named
        ],
        ops=operations,
    )
    hint = next((did_you_mean(each.key, _QUOTAS) for each in operations if each.key not in _QUOTAS), "")
    for result in _send(cluster, Request(entries=[entry], validate_only=validate_only)).entries:
        _check(result.error_code, f"{result.error_message or ''}{hint}")
    done = "valid" if validate_only else "changed"
    names = sorted(operation.key for operation in operations)
    output.result({"result": done, "quotas": names}, f"{done}: {', '.join(names)}")


def _shown(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)


def _named(entity: dict[str, str | None]) -> list[tuple[str, str]]:
    return [(kind, name) for kind, option in _TYPES if (name := entity[option]) is not None]


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isfinite(number):
        return number
    raise click.BadParameter(f"{name}={text} is no number", param_hint="--add")


def _send(cluster: Cluster, request: Any) -> Any:
    manager = cluster.other_admin._manager  # noqa: SLF001  the client has these messages, and no call for them
    return manager.run(manager.send, request)


def _check(error_code: int, message: str | None) -> None:
    """Raises Failure."""
    if error_code:
        from kafka.errors import for_code  # noqa: PLC0415

        raise Failure(with_hint(str(for_code(error_code).message), message))
