"""`barnabas configs`: settings of topics and brokers, and the levels of a broker's loggers.

Source: kafka-configs.sh.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
from confluent_kafka import KafkaError, KafkaException

from config.sources import read_properties
from tools import config_requests, parsing
from tools.cluster import Cluster, cluster_command
from tools.failures import Failure
from tools.output import Output
from tools.setting_names import told_of_settings, unknown_names
from tools.setting_units import with_plain_numbers

_SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": "topic",
    "DYNAMIC_BROKER_CONFIG": "broker",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "cluster default",
    "STATIC_BROKER_CONFIG": "file",
    "DEFAULT_CONFIG": "default",
}
"""Where a value comes from, in words."""
_ENTITIES = ("topics", "brokers", "broker-loggers")
_OTHER_ENTITIES = ("users", "clients", "ips")
_CHANGED = frozenset(("topic", "broker", "cluster default", "file"))


@click.group("configs", help="Settings of topics and brokers.")
def command() -> None:
    pass


def _resource_options(function: Any) -> Any:
    for option in reversed((
        click.option("--entity-type", type=click.Choice([*_ENTITIES, *_OTHER_ENTITIES]),
                     help="topics, brokers or broker-loggers, with --entity-name; as the options below"),
        click.option("--entity-name", metavar="NAME", help="the name or id of what --entity-type names"),
        click.option("--entity-default", is_flag=True, help="with brokers: dynamic settings of all brokers"),
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
@click.option("--all", "is_all", is_flag=True, help="show all settings (the default)")
@click.option("--name", "part", metavar="PART", help="only settings whose name contains this")
@cluster_command
def describe_configs(
    cluster: Cluster, output: Output, *, changed: bool, is_all: bool, part: str | None, **options: Any
) -> None:
    """Show the settings of a topic or a broker, and where each value comes from; or the levels of a broker's loggers. With
    --entity-type and no name, of all topics or brokers."""
    if changed and is_all:
        raise click.UsageError("--all and --changed do not go together")
    entity = _Entity.of(options, accepts_all=True)
    entity.check(cluster)
    if entity.kind == "broker-loggers":
        levels = config_requests.levels(cluster, int(str(entity.name)))
        named = [
            {"name": name, "value": level} for name, level in sorted(levels.items()) if part is None or part in name
        ]
        output.table(named, ("name", "value"))
        return
    rows = []
    for owner, entries in _described(cluster, entity):
        rows += [
            {
                **({entity.kind[:-1]: owner} if entity.is_all else {}),
                "name": name,
                "value": entry.value,
                "source": _source(entry),
                "is_read_only": entry.is_read_only,
                "is_sensitive": entry.is_sensitive,
            }
            for name, entry in entries
            if (part is None or part in name) and (not changed or _source(entry) in _CHANGED)
        ]
    output.table(rows, (*((entity.kind[:-1],) if entity.is_all else ()), "name", "value", "source"))


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
    """Change settings of a topic or a broker, or levels of a broker's loggers; those that are not named stay."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry  # noqa: PLC0415

    changes: dict[str, str | None] = dict(_of_file(add_file) if add_file is not None else {})
    changes |= parsing.listed_settings(added, "--add-config")
    changes |= {name.strip(): None for text in deleted for name in text.split(",")}
    if not changes:
        raise click.UsageError("nothing to change: give --add-config or --delete-config")
    entity = _Entity.of(options, accepts_all=False)
    changes |= with_plain_numbers({name: value for name, value in changes.items() if value is not None}, "--add-config")
    entity.check(cluster)
    if entity.kind == "broker-loggers":
        config_requests.alter_levels(cluster, int(str(entity.name)), changes, validate_only=validate_only)
    elif entity.name is None:
        config_requests.alter_broker_defaults(cluster, changes, validate_only=validate_only)
    else:
        entries = [
            ConfigEntry(
                name, value, incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
            )
            for name, value in changes.items()
        ]
        resource = entity.resource(entity.name, changes=entries)
        asked = cluster.admin.incremental_alter_configs([resource], validate_only=validate_only)
        if isinstance(error := cluster.results(asked)[resource], KafkaError):
            raise Failure(told_of_settings(error, entity.kind, changes))
    done = "valid" if validate_only else "changed"
    names = sorted(changes)
    for text in unknown_names(entity.kind, names) if entity.kind != "broker-loggers" else ():
        Output.note(text)
    output.result({"result": done, "settings": names}, f"{done}: {', '.join(names)}")


@dataclass(frozen=True, slots=True)
class _Entity:
    """What has settings. `kind` is one of _ENTITIES, `name` is None for all brokers' dynamic settings."""

    kind: str
    name: str | None
    is_all: bool = False

    @classmethod
    def of(cls, options: dict[str, Any], *, accepts_all: bool) -> _Entity:
        """Raises click.UsageError."""
        kind, name = options["entity_type"], options["entity_name"]
        found = [
            cls(each, str(options[option]))
            for option, each in (("topic", "topics"), ("broker", "brokers"), ("broker_logger", "broker-loggers"))
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
            raise click.UsageError("name one of --topic, --broker, --broker-defaults and --broker-logger")
        return found[0]

    def check(self, cluster: Cluster) -> None:
        """Raises Failure for a broker that is not there: the client would wait for it."""
        if self.kind == "topics" or self.name is None:
            return
        if self.name not in {str(node.id) for node in cluster.result(cluster.admin.describe_cluster()).nodes}:
            raise Failure(f"there is no broker {self.name} (`barnabas brokers list` shows the brokers)")

    def resource(self, name: str, *, changes: list[Any] | None = None) -> Any:
        """Return the resource of a topic or of a broker."""
        from confluent_kafka.admin import ConfigResource  # noqa: PLC0415

        resource_type = ConfigResource.Type.TOPIC if self.kind == "topics" else ConfigResource.Type.BROKER
        return ConfigResource(resource_type, name, incremental_configs=changes)


def _described(cluster: Cluster, entity: _Entity) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Return the settings of one or all of a kind: its name, and its entries by name. Raises KafkaException, Failure."""
    if entity.kind == "brokers" and entity.name is None and not entity.is_all:
        return [("", [(entry.name, entry) for entry in config_requests.broker_defaults(cluster)])]
    names = _all_names(cluster, entity.kind) if entity.is_all else [str(entity.name)]
    resources = [entity.resource(name) for name in names]
    found = []
    for resource, entries in (cluster.results(cluster.admin.describe_configs(resources)) if names else {}).items():
        if isinstance(entries, KafkaError):
            raise KafkaException(entries)
        found.append((str(resource.name), sorted(entries.items())))
    return found


def _all_names(cluster: Cluster, kind: str) -> list[str]:
    """Return the names of all topics, or the ids of all brokers."""
    if kind == "brokers":
        return sorted((str(node.id) for node in cluster.result(cluster.admin.describe_cluster()).nodes), key=int)
    return sorted(cluster.admin.list_topics(timeout=cluster.settings.timeout_ms / 1000).topics)


def _of_file(path: str) -> dict[str, str]:
    """Return the settings of a properties file. Raises Failure."""
    try:
        with open(path, encoding="latin-1") as file:
            return dict(read_properties(file.read()))
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise Failure(f"cannot read {path}: {error}") from error


def _source(entry: Any) -> str:
    from confluent_kafka.admin import ConfigSource  # noqa: PLC0415

    name: str = ConfigSource(entry.source).name
    return _SOURCES.get(name, name.lower())
