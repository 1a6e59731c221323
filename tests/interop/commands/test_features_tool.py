"""`kafka-features.sh` of both releases changes the levels of a broker of ours, and tells them as it does of Apache Kafka's;
with levels, `kafka-configs.sh` of 4.3 changes the settings of groups."""

from __future__ import annotations

import pytest

from barnabas.commands import main
from tests.interop.conftest import need_java
from tests.oracle import java
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.kafka import ApacheKafka
from tests.oracle.tools import ToolsJvm

pytestmark = [pytest.mark.oracle, pytest.mark.interop]


def test_levels_go_up_and_down_by_the_tools_of_both_releases() -> None:
    need_java()
    with Barnabas() as broker:
        address = ("--bootstrap-server", broker.bootstrap_servers)

        def levels(tools: ToolsJvm) -> dict[str, tuple[str, str, str]]:
            """Supported minimum and maximum and finalized level, by feature."""
            rows = [line.split() for line in tools.run("features", *address, "describe").splitlines() if line]
            return {row[1]: (row[3], row[5], row[7]) for row in rows}

        for release in (java.ZOOKEEPER_MODE, java.KRAFT_MODE):
            with ToolsJvm(release) as tools:

                def change(*words: str, code: int = 0, tools: ToolsJvm = tools) -> list[str]:
                    return tools.run("features", *address, *words, code=code).splitlines()

                assert levels(tools) == {}, "at level 0 it is as a cluster of 3.9"
                assert change("upgrade", "--feature", "group.version=1", "--feature", "transaction.version=2") == [
                    "group.version was upgraded to 1.",
                    "transaction.version was upgraded to 2.",
                ]
                assert change("downgrade", "--feature", "transaction.version=1") == [
                    "transaction.version was downgraded to 1."
                ]
                assert levels(tools) == {
                    "group.version": ("0", "1", "1"),
                    "share.version": ("0", "1", "0"),
                    "transaction.version": ("0", "2", "1"),
                }
                if release is java.KRAFT_MODE:
                    _settings_of_groups(tools, address)
                refused = change("upgrade", "--feature", "group.version=2", code=1)
                assert any(line.startswith("Could not upgrade group.version to 2.") for line in refused)
                assert change("disable", "--feature", "group.version", "--dry-run") == [
                    "group.version can be disabled."
                ]
                assert change("disable", "--feature", "group.version", "--feature", "transaction.version") == [
                    "group.version was disabled.",
                    "transaction.version was disabled.",
                ]


@pytest.mark.parametrize("kind", [Barnabas, ApacheKafka])
def test_the_command_changes_levels_of_ours_and_has_none_to_change_of_3_9(
    kind: type[Broker], capfd: pytest.CaptureFixture[str]
) -> None:
    need_java()
    with kind() as broker:

        def told(*words: str, code: int = 0) -> str:
            assert main([*words, "--bootstrap-server", broker.bootstrap_servers]) == code
            return "".join(capfd.readouterr())

        assert "no level is above 0" in told("features", "describe")
        is_ours = kind is Barnabas
        changed = told("features", "upgrade", "group.version=1", "--execute", code=0 if is_ours else 1)
        assert ("feature is not supported" in changed) is not is_ours
        if is_ours:
            assert "group.version        1      0-1" in told("features", "describe")
            told("features", "downgrade", "group.version=0", "--execute")
        assert "no level is above 0" in told("features", "disable", "--all", "--execute")


def _settings_of_groups(tools: ToolsJvm, address: tuple[str, str]) -> None:
    """`kafka-configs.sh --entity-type groups` of 4.3, which lists groups by ListConfigResources."""
    setting = "consumer.session.timeout.ms"
    groups = (*address, "--entity-type", "groups")
    one = (*groups, "--entity-name", "g")
    assert tools.run("configs", *one, "--alter", "--add-config", f"{setting}=50000").splitlines() == [
        "Completed updating config for group g."
    ]
    assert f"{setting}=50000 sensitive=false synonyms={{DYNAMIC_GROUP_CONFIG:{setting}=50000" in tools.run(
        "configs", *groups, "--describe"
    )
    refused = tools.run("configs", *one, "--alter", "--add-config", f"{setting}=5", code=1)
    assert f"{setting} must be greater than or equal to group.consumer.min.session.timeout.ms" in refused
    tools.run("configs", *one, "--alter", "--delete-config", setting)
    assert "doesn't have dynamic config" in tools.run("configs", *one, "--describe")
