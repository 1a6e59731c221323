"""`barnabas quotas`: how much users, clients and addresses may use.

Source: kafka-configs.sh --entity-type users | clients | ips; KIP-546.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import click

from client.admin import quotas as quota_steps
from protocol.errors import KafkaError
from runtime.command_line import parsing
from runtime.command_line.failure import Failure
from runtime.command_line.group import Commands
from runtime.command_line.output import Output
from runtime.suggestions import did_you_mean
from tools.cluster import Cluster, cluster_command
from tools.failures import told
from tools.setting_units import with_plain_numbers

_TYPES = (("user", "user"), ("client-id", "client_id"), ("ip", "ip"))
_QUOTAS = (
    "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate", "connection_creation_rate",
)  # fmt: skip
DEFAULT = "<default>"


command = Commands("quotas", help="Quotas of users, clients and addresses.")


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
    rows: list[dict[str, Any]] = []
    for entry in cluster.run(quota_steps.describe(_parts(_named(entity)))):
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
    named = _named(entity)
    if not named:
        raise click.UsageError("name --user, --client-id or --ip")
    if not added and not deleted:
        raise click.UsageError("nothing to change: give --add or --delete")
    changes: dict[str, float | None] = {
        name: _number(name, text)
        for name, text in with_plain_numbers(parsing.listed_settings(added, "--add"), "--add").items()
    }
    changes |= {name: None for text in deleted for name in text.split(",")}
    try:
        cluster.run(quota_steps.alter(_parts(named), changes, validate_only=validate_only))
    except KafkaError as error:
        hint = next((did_you_mean(name, _QUOTAS) for name in changes if name not in _QUOTAS), "")
        raise Failure(told(KafkaError(error.code, f"{error.message}{hint}"))) from error
    done = "valid" if validate_only else "changed"
    names = sorted(changes)
    output.result({"result": done, "quotas": names}, f"{done}: {', '.join(names)}")


def _shown(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)


def _named(entity: dict[str, str | None]) -> list[tuple[str, str]]:
    return [(kind, name) for kind, option in _TYPES if (name := entity[option]) is not None]


def _parts(named: list[tuple[str, str]]) -> list[tuple[str, str | None]]:
    return [(kind, None if name == DEFAULT else name) for kind, name in named]


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isfinite(number):
        return number
    raise click.BadParameter(f"{name}={text} is no number", param_hint="--add")
