"""`barnabas relay rules` on brokers of ours, without and with an authorizer (and of Apache Kafka, in tests/interop)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from barnabas.commands import main
from barnabas.embedded import EmbeddedBroker
from tests.tools.test_commands import Run, Tool, broker, ok, tool

__all__ = ["broker", "tool"]

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def listed(tool: Tool, name: str) -> list[dict[str, object]]:
    """Return the rules of a relay, without who made them: on a cluster with an authorizer that is whoever runs the test."""
    found = ok(tool("relay", "rules", "list", "--relay", name, "--json")).json
    assert found["problems"] == {}
    return [{name: value for name, value in rule.items() if name != "principal"} for rule in found["rules"]]


def test_rules_are_added_listed_changed_checked_and_removed(tool: Tool) -> None:
    ok(tool("topics", "create", "ru-in", "--partitions", "3"))
    refused = tool("relay", "rules", "add", "ru-in", "ru-out", "--delay", "1m", "--relay", "ru")
    assert (refused.code, "there is no topic ru-out, ru-rules (--create-topics" in refused.err) == (1, True)
    added = ok(tool("relay", "rules", "add", "ru-in", "ru-out", "--delay", "1m", "--relay", "ru", "--create-topics"))
    assert added.lines == ["ru-in: added"]
    assert {"ru-out", "ru-rules"} <= set(ok(tool("topics", "list")).lines)
    rows = ok(tool("configs", "describe", "--topic", "ru-rules", "--changed", "--json")).json
    assert [row["value"] for row in rows if row["source"] == "topic"] == ["compact"]
    again = ok(tool("relay", "rules", "add", "ru-in", "ru-out", "--delay", "60s", "--relay", "ru"))
    assert again.lines == ["ru-in: has this rule already"]
    other = (
        "relay",
        "rules",
        "add",
        "ru-in",
        "ru-out",
        "--retry-after",
        "1s,10s",
        "--partitioner",
        "same",
        "--relay",
        "ru",
    )
    refused = tool(*other)
    assert (refused.code, '"delay_ms":60000' in refused.err, "--replace" in refused.err) == (1, True, True)
    assert ok(tool(*other, "--replace")).lines == ["ru-in: changed"]
    rule = {"source": "ru-in", "kind": "retry", "target": "ru-out", "delays_ms": [1000, 10000], "partitioner": "same"}
    assert listed(tool, "ru") == [rule]
    [line] = ok(tool("relay", "rules", "list", "--relay", "ru")).lines[1:]
    assert line.split()[:7] == ["ru-in", "retry", "ru-out", "1000,10000", "same", "-", "-"]
    assert line.endswith("ok")
    checked = tool("relay", "rules", "check", "--relay", "ru", "--json")
    problem = "ru-out has 2 partitions less than ru-in: what is in those is a dead letter"
    assert (checked.code, checked.json) == (1, [{"source": "ru-in", "problem": problem}])
    dry = ok(tool("relay", "rules", "remove", "ru-in", "--relay", "ru"))
    assert ("remove" in dry.lines[1], "--execute" in dry.err) == (True, True)
    assert len(ok(tool("relay", "rules", "list", "--relay", "ru", "--json")).json["rules"]) == 1
    ok(tool("relay", "rules", "remove", "ru-in", "--relay", "ru", "--execute"))
    assert ok(tool("relay", "rules", "list", "--relay", "ru", "--json")).json["rules"] == []
    missing = tool("relay", "rules", "remove", "ru-in", "--relay", "ru")
    assert (missing.code, "there is no rule of ru-in" in missing.err) == (1, True)


def test_a_relay_that_never_ran_has_no_rules(tool: Tool) -> None:
    assert ok(tool("relay", "rules", "list", "--relay", "never", "--json")).json == {"rules": [], "problems": {}}
    assert "never-rules" not in ok(tool("topics", "list")).lines


def test_a_file_is_applied_whole(tool: Tool, tmp_path: Path) -> None:
    file = tmp_path / "rules.json"

    def applied(*rules: Mapping[str, object], options: tuple[str, ...] = ()) -> Run:
        file.write_text(json.dumps({"rules": rules}))
        return tool("relay", "rules", "apply", str(file), "--relay", "ap", *options)

    a = {"source": "ap-a", "kind": "delay", "target": "ap-b"}
    b = {"source": "ap-b", "kind": "delay", "target": "ap-c"}
    refused = applied(a, b)
    assert (refused.code, "there is no topic ap-a, ap-b, ap-c, ap-rules" in refused.err) == (1, True)
    dry = ok(applied(a, b, options=("--create-topics",)))
    assert ([line.split()[1] for line in dry.lines[1:]], "nothing was changed" in dry.err) == (["add", "add"], True)
    assert "ap-a" not in ok(tool("topics", "list")).lines
    ok(applied(a, b, options=("--create-topics", "--execute")))
    back = {"source": "ap-b", "kind": "delay", "target": "ap-a"}
    circle = applied(a, back, options=("--execute",))
    assert (circle.code, "ap-b: rules in a circle: ap-b -> ap-a -> ap-b" in circle.err) == (1, True)
    changed = ok(applied(back, options=("--execute", "--json"))).json
    assert [(each["source"], each["change"]) for each in changed] == [("ap-a", "remove"), ("ap-b", "change")]
    printed = ok(tool("relay", "rules", "list", "--relay", "ap", "--json"))
    file.write_text(printed.out)
    assert listed(tool, "ap") == [back]
    again = ok(tool("relay", "rules", "apply", str(file), "--relay", "ap", "--execute", "--json"))
    assert (again.json, "has these rules already" in again.err) == ([], True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("add", "hi-a", "hi-a"), 2, "target is the source itself, hi-a"),
        (("add", "a b", "hi-b"), 2, "source is 'a b', which no topic can be called"),
        (("add", "hi-a", "hi-b", "--delay", "367d"), 2, "delay_ms is 31708800000, and must be"),
        (("add", "hi-a", "hi-b", "--delay", "soon"), 2, "'soon' is no duration"),
        (("add", "hi-a", "hi-b", "--delay", "1s", "--retry-after", "1s"), 2, "do not go together"),
        (("add", "hi-a", "hi-b", "--retry-after", ""), 2, "'' is no duration"),
        (("add", "hi-a", "hi-b", "--principal", "alice"), 2, "principal is 'alice', and must be one user"),
        (("add", "hi-a", "__consumer_offsets"), 1, "target is __consumer_offsets, a topic of the brokers"),
        (("add", "hi-a", "barnabas-relay-log"), 1, "target is barnabas-relay-log, a topic of the relay itself"),
        (("add", "hi-a", "hi-b", "--relay", "r/s"), 2, "contains one or more characters other than"),
        (("apply", "/nowhere/rules.json"), 1, "cannot read /nowhere/rules.json: No such file or directory"),
    ],
)
def test_what_cannot_be_a_rule_is_refused(tool: Tool, arguments: tuple[str, ...], code: int, said: str) -> None:
    refused = tool("relay", "rules", *arguments)
    assert (refused.code, said in refused.err) == (code, True), refused.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "it is no JSON"),
        ("[]", 'it is not of the form {"rules": [...]}'),
        ('{"rules": [1]}', "rule 1: 1 is no JSON object"),
        ('{"rules": [{"source": "a", "kind": "delay", "target": "b"}, {"source": "a"}]}', "rule 2: kind is missing"),
        ('{"rules": [{"source":"a","kind":"delay","target":"b"},{"source":"a","kind":"delay","target":"c"}]}',
         "rule 2: a has a rule before"),
    ],
)  # fmt: skip
def test_a_file_that_has_no_rules_is_refused(tool: Tool, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "rules.json"
    file.write_text(text)
    refused = tool("relay", "rules", "check", str(file))
    assert (refused.code, said in refused.err) == (1, True), refused.err


def test_what_others_wrote_into_the_topic_is_listed_with_what_is_wrong(tool: Tool, broker: EmbeddedBroker) -> None:
    ok(tool("topics", "create", "od-rules"))
    ok(tool("topics", "create", "od-a", "--config", "cleanup.policy=compact"))
    ok(tool("topics", "create", "od-c", "--config", "retention.ms=1000"))
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    rows = {
        b"od-x": b"rubbish", b"\xff\x1b[2J": b"{}",
        b"od-a": b'{"source":"od-a","kind":"delay","target":"od-b"}',
        b"od-c": b'{"source":"od-c","kind":"delay","target":"od-a"}',
    }  # fmt: skip
    for key, value in rows.items():
        producer.produce("od-rules", value, key)
    assert producer.flush(60) == 0
    listed = ok(tool("relay", "rules", "list", "--relay", "od"))
    assert "\x1b" not in listed.out
    assert any(line.split()[:1] == ["od-x"] and line.endswith("it is no JSON") for line in listed.lines)
    checked = tool("relay", "rules", "check", "--relay", "od", "--json")
    assert checked.code == 1
    said: dict[str, list[str]] = {row["source"]: [] for row in checked.json}
    for row in checked.json:
        said[row["source"]].append(row["problem"])
    assert [each.split(",")[0].split(":")[0] for each in said["od-a"]][:2] == [
        "topic od-b does not exist",
        "od-a is compacted",
    ]
    assert said["od-c"][0].startswith("od-c keeps records for 1000 ms")
    [odd] = [source for source in said if not source.startswith("od-")]
    ok(tool("relay", "rules", "remove", "od-x", odd, "--relay", "od", "--execute"))
    assert ok(tool("relay", "rules", "list", "--relay", "od", "--json")).json["problems"] == {}


# --- rights ---


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedBroker]:
    settings = {
        "auto.create.topics.enable": False,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    }
    with EmbeddedBroker(settings=settings, security="sasl_plaintext", users=["alice", "bob"]) as running:
        yield running


@pytest.fixture
def as_user(guarded: EmbeddedBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    def run_as(user: str, *arguments: str) -> Run:
        path = tmp_path / f"{user}.properties"
        jaas = f'{PLAIN} required username="{user}" password="{guarded.security.passwords[user]}";'
        path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n")
        capfd.readouterr()
        where = ("--bootstrap-server", guarded.bootstrap_servers, "--command-config", str(path))
        return Run(main([*arguments, *where]), *capfd.readouterr())

    return run_as


def give(as_user: Callable[..., Run], user: str, operation: str, *resource: str) -> None:
    ok(as_user("admin", "acls", "add", "--allow-principal", f"User:{user}", "--operation", operation, *resource))


def test_a_rule_is_made_in_the_name_of_whoever_may_do_what_it_does(as_user: Callable[..., Run]) -> None:
    for topic in ("gu-in", "gu-out", "barnabas-relay-rules"):
        ok(as_user("admin", "topics", "create", topic, "--config", "retention.ms=-1"))
    add = ("relay", "rules", "add", "gu-in", "gu-out")
    give(as_user, "alice", "read", "--topic", "gu-in")
    give(as_user, "alice", "read", "--topic", "barnabas-relay-rules")
    give(as_user, "alice", "describe", "--topic", "gu-out")
    refused = as_user("alice", *add)
    assert (refused.code, "gu-in: User:alice has not Write on topic gu-out" in refused.err) == (1, True), refused.err
    give(as_user, "alice", "write", "--topic", "gu-out")
    refused = as_user("alice", *add)
    assert (refused.code, "TOPIC_AUTHORIZATION_FAILED" in refused.err) == (1, True), "she may not make rules"
    for_bob = as_user("admin", *add, "--principal", "User:bob")
    said = "gu-in: User:bob has not Read on topic gu-in, Write on topic gu-out"
    assert (for_bob.code, said in for_bob.err) == (1, True), for_bob.err
    ok(as_user("admin", *add, "--principal", "User:alice"))
    [rule] = ok(as_user("admin", "relay", "rules", "list", "--json")).json["rules"]
    assert rule["principal"] == "User:alice"
    assert "1 rule without a problem" in ok(as_user("admin", "relay", "rules", "check")).err
    give(as_user, "bob", "read", "--topic", "gu-in")
    by_bob = as_user("admin", "relay", "rules", "check", "--relay-principal", "User:bob", "--json")
    said = "the relay: User:bob has not Write on topic gu-out"
    assert (by_bob.code, by_bob.json) == (1, [{"source": "gu-in", "problem": said}])
    ok(as_user("admin", "acls", "remove", "--topic", "gu-out", "--allow-principal", "User:alice", "--execute"))
    checked = as_user("admin", "relay", "rules", "check", "--json")
    assert (checked.code, [row["problem"] for row in checked.json]) == (1, ["User:alice has not Write on topic gu-out"])


def test_a_super_user_is_told_that_the_relay_must_know_it(as_user: Callable[..., Run]) -> None:
    for topic in ("su-in", "su-out"):
        ok(as_user("admin", "topics", "create", topic))
    added = ok(as_user("admin", "relay", "rules", "add", "su-in", "su-out", "--relay", "su", "--create-topics"))
    assert "barnabas.relay settings of these names must say so" in " ".join(added.err.split())
    [rule] = ok(as_user("admin", "relay", "rules", "list", "--relay", "su", "--json")).json["rules"]
    assert rule["principal"] == "User:admin"
