"""`barnabas features` on a broker of ours: levels go up and down, and only when asked; what cannot be is told."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from barnabas.embedded import EmbeddedBroker
from client.admin.groups import ListedGroups
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.list_groups import ListedGroup
from runtime.command_line.failure import Failure
from tests.tools.test_commands import Tool, ok, tool
from tools.cluster import Cluster
from tools.commands import features

__all__ = ["broker", "tool"]


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings={"barnabas.initial.features": "none"}) as running:
        yield running


def test_levels_change_only_when_asked(tool: Tool) -> None:
    def levels() -> dict[str, tuple[int, str]]:
        rows = ok(tool("features", "describe", "--json")).json
        return {row["feature"]: (row["level"], row["supported"]) for row in rows}

    assert levels() == {}
    assert "no level is above 0" in ok(tool("features", "describe")).err
    wanted = ("group.version=1", "transaction.version=1")
    shown = ok(tool("features", "upgrade", *wanted))
    assert "brokers of Apache Kafka 3.9 can no longer join" in shown.err and "--execute sets these levels" in shown.err
    assert levels() == {}
    assert ok(tool("features", "upgrade", *wanted, "--execute", "--json")).json == [
        {"feature": "group.version", "level": 0, "new_level": 1},
        {"feature": "transaction.version", "level": 0, "new_level": 1},
    ]
    assert levels() == {"group.version": (1, "0-1"), "share.version": (0, "0-1"), "transaction.version": (1, "0-2")}
    more = ok(tool("features", "upgrade", "--feature", "transaction.version=2", "--execute"))
    assert "can no longer join" not in more.err
    ok(tool("features", "downgrade", "transaction.version=1", "--execute"))
    assert levels()["transaction.version"] == (1, "0-2")
    ok(tool("features", "disable", "group.version", "--execute"))
    assert levels()["group.version"] == (0, "0-1")
    ok(tool("features", "disable", "--all", "--execute"))
    assert levels() == {}
    assert "no level is above 0" in ok(tool("features", "disable", "--all", "--execute")).err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("upgrade", "group.version"), 2, "is no level: write FEATURE=LEVEL"),
        (("upgrade", "group.version=1", "group.version=0"), 2, "group.version is there twice"),
        (("disable",), 2, "name features, or --all"),
        (("upgrade", "group.version=9"), 1, "group.version: INVALID_REQUEST"),
        (("upgrade", "other.version=1", "--execute"), 1, "the provided feature is not supported"),
        (("downgrade", "group.version=0", "--execute"), 1, "Can not delete non-existing finalized feature"),
    ],
)
def test_what_cannot_be_is_told(tool: Tool, words: tuple[str, ...], code: int, told: str) -> None:
    run = tool("features", *words)
    assert run.code == code
    assert told in run.err


def test_groups_that_stop_are_named() -> None:
    def cluster(*rows: tuple[str, str, str], errors: dict[int, KafkaError] | None = None) -> Cluster:
        groups = [
            ListedGroup(group_id=name, protocol_type="consumer", group_state=state, group_type=kind)
            for name, kind, state in rows
        ]
        return cast(Cluster, SimpleNamespace(run=lambda _: ListedGroups({1: groups}, errors or {})))

    rows = (("b", "consumer", "Stable"), ("a", "Consumer", "Reconciling"), ("c", "classic", "Stable"))
    idle = (("d", "consumer", "Empty"), ("e", "share", "Empty"))
    assert features._active_groups(cluster(*rows, *idle), "consumer") == ["a", "b"]
    assert features._active_groups(cluster(*rows, *idle, ("s", "share", "Stable")), "share") == ["s"]
    with pytest.raises(Failure, match="broker 2 has not told its groups"):
        features._active_groups(cluster(errors={2: KafkaError(ErrorCode.REQUEST_TIMED_OUT)}), "share")
