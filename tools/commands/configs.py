"""`barnabas configs`: settings of topics, brokers, groups and subscriptions of client metrics; levels of a broker's loggers.

Source: kafka-configs.sh, kafka-client-metrics.sh.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from client.admin import configs as config_steps
from client.admin import topics as topic_steps
from client.admin.brokers import checked
from client.admin.brokers import cluster as describe_cluster
from client.admin.configs import ALL_BROKERS, Resource, ResourceKind, SettingSource
from config.sources import read_properties
from protocol.errors import KafkaError
from protocol.messages.describe_configs import DescribeConfigsResourceResult
from runtime.command_line import parsing
from runtime.command_line.failure import Failure
from runtime.command_line.group import Commands
from runtime.command_line.output import Output
from tools.cluster import Cluster, cluster_command
from tools.failures import told
from tools.setting_names import told_of_settings, unknown_names
from tools.setting_units import with_plain_numbers

_SOURCES = {
    SettingSource.DYNAMIC_TOPIC_CONFIG: "topic",
    SettingSource.DYNAMIC_BROKER_CONFIG: "broker",
    SettingSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "cluster default",
    SettingSource.DYNAMIC_CLIENT_METRICS_CONFIG: "subscription",
    SettingSource.DYNAMIC_GROUP_CONFIG: "group",
    SettingSource.STATIC_BROKER_CONFIG: "file",
    SettingSource.DEFAULT_CONFIG: "default",
}
"""Where a value comes from, in words."""
_KINDS = {
    "topics": ResourceKind.TOPIC,
    "brokers": ResourceKind.BROKER,
    "broker-loggers": ResourceKind.BROKER_LOGGER,
    "client-metrics": ResourceKind.CLIENT_METRICS,
    "groups": ResourceKind.GROUP,
}
_ONE_OF = {"topics": "topic", "brokers": "broker", "client-metrics": "subscription", "groups": "group"}
"""What one of a kind is called."""
_OTHER_ENTITIES = ("users", "clients", "ips")
_OF_ANY_NAME = ("topics", "client-metrics", "groups")
_CHANGED = frozenset(("topic", "broker", "cluster default", "subscription", "group", "file"))


command = Commands("configs", help="Settings of topics, brokers, groups and subscriptions of client metrics.")


def _resource_options(function: Any) -> Any:
    for option in reversed((
        click.option("--entity-type", type=click.Choice([*_KINDS, *_OTHER_ENTITIES]),
                     help="topics, brokers, broker-loggers, client-metrics or groups, with --entity-name: as options below"),
        click.option("--entity-name", metavar="NAME", help="the name or id of what --entity-type names"),
        click.option("--entity-default", is_flag=True, help="with brokers: dynamic settings of all brokers"),
        click.option("--topic", metavar="NAME", help="settings of this topic"),
        click.option("--broker", metavar="ID", help="settings of this broker"),
        click.option("--broker-defaults", is_flag=True, help="dynamic settings of all brokers"),
        click.option("--client-metrics", metavar="NAME", help="a subscription: metrics, interval.ms, match"),
        click.option("--group", metavar="NAME", help="settings of this group"),
        click.option("--broker-logger", type=int, metavar="ID", help="levels of the loggers of this broker, until it stops"),
    )):  # fmt: skip
        function = option(function)
    return function


@command.command("describe")
@_resource_options
@click.option("--changed", is_flag=True, help="only settings that are not at their default")
@click.option("--all", "is_all", is_flag=True, help="show all settings (the default)")
@click.option("--name", "part", metavar="PART", help="only settings whose name contains this")
@cluster_command
def describe_configs(
    cluster: Cluster, output: Output, *, changed: bool, is_all: bool, part: str | None, **options: Any
) -> None:
    """Show the settings of a topic, a broker, a group or a subscription of client metrics, and where each value comes from; or
    the levels of a broker's loggers. With --entity-type and no name, of all topics, brokers or subscriptions, or of the groups
    that have settings."""
    if changed and is_all:
        raise click.UsageError("--all and --changed do not go together")
    entity = _Entity.of(options, accepts_all=True)
    entity.check(cluster)
    found = _described(cluster, entity)
    if entity.kind == "broker-loggers":
        [(_, levels)] = found
        named = [{"name": name, "value": each.value} for name, each in levels if part is None or part in name]
        output.table(named, ("name", "value"))
        return
    rows = []
    for owner, entries in found:
        rows += [
            {
                **({_ONE_OF[entity.kind]: owner} if entity.is_all else {}),
                "name": name,
                "value": entry.value,
                "source": _source(entry),
                "is_read_only": entry.read_only,
                "is_sensitive": entry.is_sensitive,
            }
            for name, entry in entries
            if (part is None or part in name) and (not changed or _source(entry) in _CHANGED)
        ]
    output.table(rows, (*((_ONE_OF[entity.kind],) if entity.is_all else ()), "name", "value", "source"))


@command.command("alter")
@_resource_options
@click.option(
    "--add-config",
    "added",
    multiple=True,
    metavar="NAME=VALUE",
    help="set a setting; may be repeated, and may be A=1,B=[x,y]",
)
@click.option("--add-config-file", "add_file", metavar="FILE", help="set what this properties file has")
@click.option(
    "--delete-config", "deleted", multiple=True, metavar="NAME", help="return a setting to its default; may be repeated"
)
@click.option("--validate-only", is_flag=True, help="check everything, change nothing")
@cluster_command
def alter_configs(
    cluster: Cluster,
    output: Output,
    *,
    added: tuple[str, ...],
    add_file: str | None,
    deleted: tuple[str, ...],
    validate_only: bool,
    **options: Any,
) -> None:
    """Change settings of a topic, a broker, a group or a subscription of client metrics, or levels of a broker's loggers; those
    that are not named stay. A subscription is made by its first setting, and gone with its last. A group need not exist yet."""
    changes: dict[str, str | None] = dict(_of_file(add_file) if add_file is not None else {})
    changes |= parsing.listed_settings(added, "--add-config")
    changes |= {name.strip(): None for text in deleted for name in text.split(",")}
    if not changes:
        raise click.UsageError("nothing to change: give --add-config or --delete-config")
    entity = _Entity.of(options, accepts_all=False)
    changes |= with_plain_numbers({name: value for name, value in changes.items() if value is not None}, "--add-config")
    entity.check(cluster)
    resource = entity.resource(entity.name)
    error = cluster.run(config_steps.alter({resource: changes}, validate_only=validate_only))[resource]
    if isinstance(error, KafkaError):
        raise Failure(told(error) if entity.kind == "broker-loggers" else told_of_settings(error, entity.kind, changes))
    done = "valid" if validate_only else "changed"
    names = sorted(changes)
    for text in unknown_names(entity.kind, names) if entity.kind != "broker-loggers" else ():
        Output.note(text)
    output.result({"result": done, "settings": names}, f"{done}: {', '.join(names)}")


@dataclass(frozen=True, slots=True)
class _Entity:
    """What has settings. `kind` is one of _KINDS, `name` is None for all brokers' dynamic settings, and with `is_all`."""

    kind: str
    name: str | None
    is_all: bool = False

    @classmethod
    def of(cls, options: dict[str, Any], *, accepts_all: bool) -> _Entity:
        """Raises click.UsageError."""
        kind, name = options["entity_type"], options["entity_name"]
        found = [
            cls(each, str(options[option]))
            for option, each in (
                ("topic", "topics"),
                ("broker", "brokers"),
                ("broker_logger", "broker-loggers"),
                ("client_metrics", "client-metrics"),
                ("group", "groups"),
            )
            if options[option] is not None
        ] + ([cls("brokers", None)] if options["broker_defaults"] else [])
        if kind in _OTHER_ENTITIES:
            raise click.UsageError(
                f"quotas of {kind} are changed by `barnabas quotas`, passwords of users by `barnabas users`"
            )
        if kind is None and (name is not None or options["entity_default"]):
            raise click.UsageError("--entity-name and --entity-default go with --entity-type")
        if kind is not None:
            if name is not None and options["entity_default"]:
                raise click.UsageError("--entity-name and --entity-default do not go together")
            if options["entity_default"] and kind != "brokers":
                raise click.UsageError("--entity-default goes with --entity-type brokers")
            is_all = name is None and not options["entity_default"]
            if is_all and not (accepts_all and kind != "broker-loggers"):
                raise click.UsageError(f"name one of the {kind}: --entity-name")
            found.append(cls(kind, name, is_all))
        if any(each.name == "" for each in found):
            raise click.UsageError("a name is empty")
        if len(found) != 1:
            raise click.UsageError(
                "name one of --topic, --broker, --broker-defaults, --client-metrics, --group and --broker-logger"
            )
        return found[0]

    def check(self, cluster: Cluster) -> None:
        """Raises Failure for a broker that is not there: the client would wait for it."""
        if self.kind in _OF_ANY_NAME or self.name is None:
            return
        if self.name not in {str(broker.node_id) for broker in cluster.run(describe_cluster()).brokers}:
            raise Failure(f"there is no broker {self.name} (`barnabas brokers list` shows the brokers)")

    def resource(self, name: str | None) -> Resource:
        """Return the resource of one of this kind."""
        return Resource(_KINDS[self.kind], ALL_BROKERS if name is None else name)


def _described(cluster: Cluster, entity: _Entity) -> list[tuple[str, list[tuple[str, DescribeConfigsResourceResult]]]]:
    """Return the settings of one or all of a kind: its name, and its entries by name. Raises KafkaError."""
    names = _all_names(cluster, entity.kind) if entity.is_all else [entity.name]
    found = checked(cluster.run(config_steps.describe([entity.resource(name) for name in names])))
    return [(resource.name, sorted(entries.items())) for resource, entries in found.items()]


def _all_names(cluster: Cluster, kind: str) -> list[str]:
    """Return the names of all topics or subscriptions, or of groups with settings, or the ids of all brokers."""
    if kind in ("client-metrics", "groups"):
        return cluster.run(config_steps.names_with_settings(_KINDS[kind]))
    if kind == "brokers":
        return [str(each) for each in sorted(broker.node_id for broker in cluster.run(describe_cluster()).brokers)]
    return sorted(cluster.run(topic_steps.all_topics()))


def _of_file(path: str) -> dict[str, str]:
    """Return the settings of a properties file. Raises Failure."""
    try:
        with open(path, encoding="latin-1") as file:
            return dict(read_properties(file.read()))
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise Failure(f"cannot read {path}: {error}") from error


def _source(entry: DescribeConfigsResourceResult) -> str:
    """Return where a value comes from, in words."""
    known = entry.config_source in SettingSource._value2member_map_
    source = SettingSource(entry.config_source) if known else SettingSource.UNKNOWN
    return _SOURCES.get(source, source.name.lower())
