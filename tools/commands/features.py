"""`barnabas features`: the feature levels of a cluster, which open what clients of Apache Kafka 4 use.

Rules: both directions are a dry run without --execute: an upgrade keeps brokers of Apache Kafka 3.9 out, a downgrade stops the
members of consumer groups or share groups. The cluster itself checks either.
Source: kafka-features.sh; KIP-584, KIP-1022.
"""

from __future__ import annotations

from collections.abc import Mapping

import click

from client.admin import features as feature_steps
from client.admin import groups as group_steps
from client.admin.features import LevelChange
from client.admin.groups import CONSUMER, SHARE
from runtime.command_line.execute_option import execute_option
from runtime.command_line.failure import Failure
from runtime.command_line.group import Commands
from runtime.command_line.output import Output
from tools.cluster import Cluster, cluster_command
from tools.failures import told
from tools.names_given import some_names

_KINDS_OF_GROUPS = {"group.version": CONSUMER, "share.version": SHARE}
_COLUMNS = ("feature", "level", "supported")
_NO_LEVELS = "no level is above 0: clients see a cluster of Apache Kafka 3.9"
_KEPT_OUT = (
    "brokers of Apache Kafka 3.9 can no longer join: one that runs or starts ends when it meets a level; "
    "`barnabas features disable --all` takes it back"
)

command = Commands("features", help="Feature levels of a cluster: group.version, transaction.version, share.version.")


@command.command("describe")
@cluster_command
def describe_features(cluster: Cluster, output: Output) -> None:
    """Show the level of each feature, and which levels all brokers support."""
    found = cluster.run(feature_steps.describe())
    rows = [
        {
            "feature": each.name,
            "level": each.level,
            "supported": None if each.last_supported is None else f"0-{each.last_supported}",
        }
        for each in found.features
    ]
    output.table(rows, _COLUMNS)
    if not found.any_above_zero:
        Output.note(_NO_LEVELS)


@command.command("upgrade")
@some_names("feature")
@execute_option("set the levels")
@cluster_command
def upgrade_features(cluster: Cluster, output: Output, *, features: tuple[str, ...], execute: bool) -> None:
    """Raise the levels of FEATURES, such as group.version=1 transaction.version=2. It is refused while a broker is registered
    that does not support them. A dry run, unless --execute is given."""
    before = cluster.run(feature_steps.describe())
    if not before.any_above_zero:
        Output.note(_KEPT_OUT)
    _change(cluster, output, _parsed(features), LevelChange.UPGRADE, execute=execute)


@command.command("downgrade")
@some_names("feature")
@execute_option("set the levels")
@cluster_command
def downgrade_features(cluster: Cluster, output: Output, *, features: tuple[str, ...], execute: bool) -> None:
    """Lower the levels of FEATURES, such as transaction.version=1; 0 switches one off. A dry run, unless --execute is given."""
    _lower(cluster, output, _parsed(features), execute=execute)


@command.command("disable")
@some_names("feature", is_required=False)
@click.option("--all", "is_all", is_flag=True, help="every feature that has a level above 0")
@execute_option("switch the features off")
@cluster_command
def disable_features(
    cluster: Cluster, output: Output, *, features: tuple[str, ...], is_all: bool, execute: bool
) -> None:
    """Set the level of FEATURES to 0. A dry run, unless --execute is given."""
    if is_all == bool(features):
        raise click.UsageError("name features, or --all")
    if is_all:
        found = cluster.run(feature_steps.describe())
        features = tuple(each.name for each in found.features if each.level)
    if not features:
        Output.note(_NO_LEVELS)
        return
    _lower(cluster, output, dict.fromkeys(features, 0), execute=execute)


def _parsed(texts: tuple[str, ...]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for text in texts:
        name, _, level = text.partition("=")
        if not name or not level.isdecimal() or int(level) > 32_767:
            raise click.UsageError(f"{text!r} is no level: write FEATURE=LEVEL, such as group.version=1")
        if name in levels:
            raise click.UsageError(f"{name} is there twice")
        levels[name] = int(level)
    return levels


def _lower(cluster: Cluster, output: Output, levels: Mapping[str, int], *, execute: bool) -> None:
    for feature, kind in _KINDS_OF_GROUPS.items():
        stopped = _active_groups(cluster, kind) if levels.get(feature) == 0 else []
        if stopped:
            Output.note(f"{kind} groups that stop: {', '.join(stopped)}; their members get UNSUPPORTED_VERSION")
    _change(cluster, output, levels, LevelChange.DOWNGRADE, execute=execute)


def _active_groups(cluster: Cluster, kind: str) -> list[str]:
    """Return the groups of a kind that have members. Raises Failure when a broker does not tell its groups."""
    listed = cluster.run(group_steps.list_all())
    for broker, error in listed.errors.items():
        raise Failure(f"broker {broker} has not told its groups: {told(error)}")
    rows = [row for groups in listed.groups.values() for row in groups]
    return sorted(row.group_id for row in rows if row.group_type.lower() == kind and row.group_state.lower() != "empty")


def _change(cluster: Cluster, output: Output, levels: Mapping[str, int], change: LevelChange, *, execute: bool) -> None:
    """Raises Failure."""
    before = {each.name: each.level for each in cluster.run(feature_steps.describe()).features}
    results = cluster.run(feature_steps.update(levels, change, validate_only=not execute))
    rows = [
        {"feature": name, "level": before.get(name, 0), "new_level": levels[name]}
        for name, error in results.items()
        if error is None
    ]
    output.table(rows, ("feature", "level", "new_level"))
    failures = [f"{name}: {told(error)}" for name, error in results.items() if error is not None]
    if failures:
        raise Failure("; ".join(failures))
    if not execute:
        Output.note("nothing was changed: --execute sets these levels")
