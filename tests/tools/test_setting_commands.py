"""Settings and quotas with units, and names that are not known: what brokers are sent, and what is told."""

from __future__ import annotations

import pytest

from barnabas.commands import main
from barnabas.embedded import EmbeddedBroker
from tests.tools.test_commands import Run, Tool, broker, ok, secured, tool

__all__ = ["broker", "secured", "tool"]


def changed(tool: Tool, topic: str) -> dict[str, str]:
    rows = ok(tool("configs", "describe", "--topic", topic, "--changed", "--json")).json
    return {row["name"]: row["value"] for row in rows if row["source"] == "topic"}


def test_settings_take_units(tool: Tool) -> None:
    made = ok(tool("topics", "create", "units", "--config", "retention.ms=7d", "--config", "segment.bytes=1GiB"))
    assert made.err == "in plain numbers: retention.ms=604800000, segment.bytes=1073741824\n"
    ok(tool("configs", "alter", "--topic", "units", "--add-config", "retention.ms=36h,max.message.bytes=2MB"))
    assert changed(tool, "units") == {
        "retention.ms": "129600000", "segment.bytes": "1073741824", "max.message.bytes": "2000000"
    }  # fmt: skip
    assert tool("configs", "alter", "--topic", "units", "--add-config", "segment.bytes=1g").code == 2
    ok(tool("quotas", "alter", "--client-id", "units", "--add", "producer_byte_rate=1.5MB"))
    assert "producer_byte_rate=1500000" in ok(tool("quotas", "list", "--client-id", "units")).out
    ok(tool("quotas", "alter", "--client-id", "units", "--delete", "producer_byte_rate"))


def test_the_nearest_name_is_told(tool: Tool) -> None:
    ok(tool("topics", "create", "misspelt"))
    for command in (("topics", "create", "unmade", "--config", "retention.mz=1"),
                    ("configs", "alter", "--topic", "misspelt", "--add-config", "retention.mz=1")):  # fmt: skip
        run = tool(*command)
        assert run.code == 1
        assert "Unknown topic config name: retention.mz: did you mean retention.ms?" in run.err
    other = tool("topics", "create", "unmade", "--config", "log.retention.ms=1").err
    assert other.count("it is a broker's, the topic's is retention.ms") == 1 and "did you mean" not in other
    # What brokers take without a word.
    removed = ok(tool("configs", "alter", "--topic", "misspelt", "--delete-config", "retention.mz"))
    assert removed.err == "retention.mz is no known setting of topics: did you mean retention.ms?\n"
    at = ("configs", "alter", "--broker", "0", "--add-config", "log.retention.mz=1", "--validate-only")
    assert "log.retention.mz is no known setting of brokers: did you mean log.retention.ms?" in ok(tool(*at)).err
    at = ("configs", "alter", "--broker", "0", "--add-config", "segment.ms=1", "--validate-only")
    assert "no known setting of brokers: it is a topic's, the broker's is log.roll.ms" in ok(tool(*at)).err
    quota = tool("quotas", "alter", "--client-id", "x", "--add", "producer_byte_rat=1")
    assert (quota.code, "did you mean producer_byte_rate?" in quota.err) == (1, True)


def test_entities_of_quotas_with_commas_are_one(tool: Tool) -> None:
    for entity in (("--user", "a,b"), ("--client-id", "c,d")):
        ok(tool("quotas", "alter", *entity, "--add", "producer_byte_rate=1000"))
        [row] = ok(tool("quotas", "list", *entity, "--json")).json
        assert entity[1] in row.values()
        ok(tool("quotas", "alter", *entity, "--delete", "producer_byte_rate"))


def test_groups_and_principals_of_acls_with_commas_are_one(
    secured: EmbeddedBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> Run:
        code = main(["acls", *arguments, "--bootstrap-server", secured.bootstrap_servers])
        return ok(Run(code, *capfd.readouterr()))

    named = ("--group", "e,f", "--allow-principal", "User:CN=a,OU=b", "--operation", "Read")
    run("add", *named)
    [acl] = run("list", "--group", "e,f", "--json").json
    assert (acl["resource"], acl["principal"]) == ("e,f", "User:CN=a,OU=b")
    assert "--execute" in run("remove", *named).err
    run("remove", *named, "--force")  # what kafka-acls.sh takes in place of a question
    assert run("list", "--group", "e,f", "--json").json == []


def test_subscriptions_of_client_metrics_are_made_shown_and_removed(
    secured: EmbeddedBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    """At a broker with feature levels."""

    def tool(*arguments: str) -> Run:
        code = main([*arguments, "--bootstrap-server", secured.bootstrap_servers])
        return Run(code, *capfd.readouterr())

    of_slow = ("--client-metrics", "slow apps")
    settings = ("--add-config", "interval.ms=1m,metrics=[org.a.,org.b.],match=client_id=slow.*")
    ok(tool("configs", "alter", *of_slow, *settings))
    rows = ok(tool("configs", "describe", "--entity-type", "client-metrics", "--changed", "--json")).json
    assert [(row["subscription"], row["name"], row["value"], row["source"]) for row in rows] == [
        ("slow apps", "interval.ms", "60000", "subscription"),
        ("slow apps", "match", "client_id=slow.*", "subscription"),
        ("slow apps", "metrics", "org.a.,org.b.", "subscription"),
    ]
    wrong = tool("configs", "alter", *of_slow, "--add-config", "interval.ms=1")
    assert (wrong.code, "must be between 100 and 3600000" in wrong.err) == (1, True)
    assert "org.a.,org.b." in ok(tool("configs", "describe", *of_slow)).out
    ok(tool("configs", "alter", *of_slow, "--delete-config", "interval.ms,metrics,match"))
    assert ok(tool("configs", "describe", "--entity-type", "client-metrics", "--json")).json == []


def test_settings_of_groups_are_changed_and_shown(secured: EmbeddedBroker, capfd: pytest.CaptureFixture[str]) -> None:
    """At a broker with feature levels; the group need not exist."""

    def tool(*arguments: str) -> Run:
        code = main([*arguments, "--bootstrap-server", secured.bootstrap_servers])
        return Run(code, *capfd.readouterr())

    of_group = ("--group", "parcels")
    ok(tool("configs", "alter", *of_group, "--add-config", "share.record.lock.duration.ms=20s"))
    rows = ok(tool("configs", "describe", "--entity-type", "groups", "--changed", "--json")).json
    assert [(row["group"], row["name"], row["value"], row["source"]) for row in rows] == [
        ("parcels", "share.record.lock.duration.ms", "20000", "group")
    ]
    assert "share.auto.offset.reset" in ok(tool("configs", "describe", *of_group)).out
    assert tool("configs", "alter", *of_group, "--add-config", "share.auto.offset.reset=soon").code == 1
    ok(tool("configs", "alter", *of_group, "--delete-config", "share.record.lock.duration.ms"))
    assert ok(tool("configs", "describe", "--entity-type", "groups", "--json")).json == []
