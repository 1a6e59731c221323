"""`barnabas configs`: settings of topics and brokers.

Source: kafka-configs.sh.
"""

from __future__ import annotations

from typing import Any

import click

from tools import parsing
from tools.cluster import Cluster, cluster_command
from tools.output import Output

_SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": "topic",
    "DYNAMIC_BROKER_CONFIG": "broker",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "cluster default",
    "STATIC_BROKER_CONFIG": "file",
    "DEFAULT_CONFIG": "default",
}
"""Where a value comes from, in words."""
_CHANGED = frozenset(("topic", "broker", "cluster default", "file"))


@click.group("configs", help="Settings of topics and brokers.")
def command() -> None:
    pass


def _resource_options(function: Any) -> Any:
    for option in reversed((
        click.option("--topic", metavar="NAME", help="settings of this topic"),
        click.option("--broker", metavar="ID", help="settings of this broker"),
        click.option("--broker-defaults", is_flag=True, help="dynamic settings of all brokers"),
    )):  # fmt: skip
        function = option(function)
    return function


@command.command("describe")
@_resource_options
@click.option("--changed", is_flag=True, help="only settings that are not at their default")
@click.option("--name", "part", metavar="PART", help="only settings whose name contains this")
@cluster_command
def describe_configs(
    cluster: Cluster,
    output: Output,
    *,
    topic: str | None,
    broker: str | None,
    broker_defaults: bool,
    changed: bool,
    part: str | None,
) -> None:
    """Show the settings of a topic or a broker, and where each value comes from."""
    resource = _resource(topic, broker, broker_defaults=broker_defaults)
    entries = cluster.result(cluster.admin.describe_configs([resource])[resource])
    rows = [
        {
            "name": name,
            "value": entry.value,
            "source": _source(entry),
            "is_read_only": entry.is_read_only,
            "is_sensitive": entry.is_sensitive,
        }
        for name, entry in sorted(entries.items())
        if (part is None or part in name) and (not changed or _source(entry) in _CHANGED)
    ]
    output.table(rows, ("name", "value", "source"))


@command.command("alter")
@_resource_options
@click.option("--add-config", "added", multiple=True, metavar="NAME=VALUE", help="set this; may be repeated")
@click.option("--delete-config", "deleted", multiple=True, metavar="NAME", help="back to the default; may be repeated")
@click.option("--validate-only", is_flag=True, help="check everything, change nothing")
@cluster_command
def alter_configs(
    cluster: Cluster,
    output: Output,
    *,
    topic: str | None,
    broker: str | None,
    broker_defaults: bool,
    added: tuple[str, ...],
    deleted: tuple[str, ...],
    validate_only: bool,
) -> None:
    """Change settings of a topic or a broker; those that are not named stay."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry  # noqa: PLC0415

    changes = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in parsing.settings(added, "--add-config").items()
    ] + [
        ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE)
        for text in deleted
        for name in text.split(",")
    ]
    if not changes:
        raise click.UsageError("nothing to change: give --add-config or --delete-config")
    resource = _resource(topic, broker, broker_defaults=broker_defaults, changes=changes)
    cluster.result(cluster.admin.incremental_alter_configs([resource], validate_only=validate_only)[resource])
    done = "valid" if validate_only else "changed"
    names = sorted(change.name for change in changes)
    output.result({"result": done, "settings": names}, f"{done}: {', '.join(names)}")


def _resource(topic: str | None, broker: str | None, *, broker_defaults: bool, changes: list[Any] | None = None) -> Any:
    """Return the one resource that the options name. Raises click.UsageError."""
    from confluent_kafka.admin import ConfigResource  # noqa: PLC0415

    if sum((topic is not None, broker is not None, broker_defaults)) != 1:
        raise click.UsageError("name one of --topic, --broker and --broker-defaults")
    resource_type = ConfigResource.Type.BROKER if topic is None else ConfigResource.Type.TOPIC
    return ConfigResource(resource_type, topic or broker or "", incremental_configs=changes)


def _source(entry: Any) -> str:
    from confluent_kafka.admin import ConfigSource  # noqa: PLC0415

    name: str = ConfigSource(entry.source).name
    return _SOURCES.get(name, name.lower())
