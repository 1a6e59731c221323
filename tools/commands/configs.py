"""`barnabas configs`: settings of topics and brokers, and the levels of a broker's loggers.

Source: kafka-configs.sh.
"""

from __future__ import annotations

from typing import Any

import click

from tools import broker_loggers, parsing
from tools.cluster import Cluster, cluster_command
from tools.failures import Failure
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
        click.option("--broker-logger", type=int, metavar="ID", help="levels of the loggers of this broker, until it stops"),
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
    broker_logger: int | None,
    changed: bool,
    part: str | None,
) -> None:
    """Show the settings of a topic or a broker, and where each value comes from; or the levels of a broker's loggers."""
    _check_one(topic, broker, broker_defaults, broker_logger)
    _check_broker(cluster, broker if broker_logger is None else str(broker_logger))
    if broker_logger is not None:
        levels = broker_loggers.levels(cluster, broker_logger)
        named = [
            {"name": name, "value": level} for name, level in sorted(levels.items()) if part is None or part in name
        ]
        output.table(named, ("name", "value"))
        return
    resource = _resource(topic, broker)
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
    broker_logger: int | None,
    added: tuple[str, ...],
    deleted: tuple[str, ...],
    validate_only: bool,
) -> None:
    """Change settings of a topic or a broker, or levels of a broker's loggers; those that are not named stay."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry  # noqa: PLC0415

    changes: dict[str, str | None] = dict(parsing.settings(added, "--add-config"))
    changes |= {name: None for text in deleted for name in text.split(",")}
    if not changes:
        raise click.UsageError("nothing to change: give --add-config or --delete-config")
    _check_one(topic, broker, broker_defaults, broker_logger)
    _check_broker(cluster, broker if broker_logger is None else str(broker_logger))
    if broker_logger is not None:
        broker_loggers.alter(cluster, broker_logger, changes, validate_only=validate_only)
    else:
        entries = [
            ConfigEntry(
                name, value, incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
            )
            for name, value in changes.items()
        ]
        resource = _resource(topic, broker, changes=entries)
        cluster.result(cluster.admin.incremental_alter_configs([resource], validate_only=validate_only)[resource])
    done = "valid" if validate_only else "changed"
    names = sorted(changes)
    output.result({"result": done, "settings": names}, f"{done}: {', '.join(names)}")


def _check_one(topic: str | None, broker: str | None, broker_defaults: bool, broker_logger: int | None) -> None:
    """Raises click.UsageError."""
    if sum((topic is not None, broker is not None, broker_defaults, broker_logger is not None)) != 1:
        raise click.UsageError("name one of --topic, --broker, --broker-defaults and --broker-logger")


def _resource(topic: str | None, broker: str | None, *, changes: list[Any] | None = None) -> Any:
    """Return the resource of a topic, of a broker, or of all brokers."""
    from confluent_kafka.admin import ConfigResource  # noqa: PLC0415

    resource_type = ConfigResource.Type.BROKER if topic is None else ConfigResource.Type.TOPIC
    return ConfigResource(resource_type, topic or broker or "", incremental_configs=changes)


def _check_broker(cluster: Cluster, broker: str | None) -> None:
    """Raises Failure for a broker that is not there: the client would wait for it."""
    if broker is not None and broker not in {
        str(node.id) for node in cluster.result(cluster.admin.describe_cluster()).nodes
    }:
        raise Failure(f"there is no broker {broker} (`barnabas brokers list` shows the brokers)")


def _source(entry: Any) -> str:
    from confluent_kafka.admin import ConfigSource  # noqa: PLC0415

    name: str = ConfigSource(entry.source).name
    return _SOURCES.get(name, name.lower())
