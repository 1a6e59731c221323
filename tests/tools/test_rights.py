"""Commands of a user who may do little: what is refused names the right, and nothing needs a right that it does not use."""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.commands import main
from barnabas.embedded import EmbeddedBroker

Run = Callable[..., tuple[int, str, str]]
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    settings = {
        "auto.create.topics.enable": False,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    }
    with EmbeddedBroker(settings=settings, security="sasl_plaintext", users=["alice", "bob"]) as running:
        yield running


@pytest.fixture
def run(
    broker: EmbeddedBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Run:
    def as_user(user: str, *arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        path = tmp_path / f"{user}.properties"
        jaas = f'{PLAIN} required username="{user}" password="{broker.security.passwords.get(user, "wrong")}";'
        path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n")
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        where = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", str(path))
        code = main([*arguments, *where])
        return code, *capfd.readouterr()

    return as_user


def test_what_a_user_may_not_do_names_the_right(run: Run) -> None:
    assert run("admin", "topics", "create", "closed")[0] == 0
    for arguments, name in (
        (("topics", "describe", "closed"), "TOPIC_AUTHORIZATION_FAILED"),
        (("produce", "closed"), "TOPIC_AUTHORIZATION_FAILED"),
        (("groups", "describe", "g"), "GROUP_AUTHORIZATION_FAILED"),
        (("configs", "describe", "--broker", "0"), "CLUSTER_AUTHORIZATION_FAILED"),
        (("configs", "describe", "--entity-type", "client-metrics"), "CLUSTER_AUTHORIZATION_FAILED"),
        (("configs", "describe", "--client-metrics", "s"), "CLUSTER_AUTHORIZATION_FAILED"),
        (("configs", "alter", "--client-metrics", "s", "--add-config", "metrics=x"), "CLUSTER_AUTHORIZATION_FAILED"),
        (("quotas", "list"), "CLUSTER_AUTHORIZATION_FAILED"),
        (("brokers", "log-dirs"), "CLUSTER_AUTHORIZATION_FAILED"),
    ):
        code, _, err = run("alice", *arguments, stdin=b"x\n")
        assert code == 1
        assert name in err
        assert "`barnabas acls list` shows" in err or "by: barnabas acls add --allow-principal User:alice" in err


def test_a_refusal_names_the_command_that_gives_the_right(run: Run) -> None:
    """By a broker of this project, where its answer has a text; else the hint says where the right is named. The user gets
    rights that no other test expects: he is in this one alone."""
    describes = ("--topic", "wanted", "--allow-principal", "User:bob", "--operation", "describe")
    assert run("admin", "acls", "add", *describes)[0] == 0
    for arguments in (
        ("topics", "create", "wanted"),
        ("configs", "describe", "--broker", "0"),
        ("topics", "alter", "wanted", "--partitions", "3"),
        ("configs", "alter", "--topic", "wanted", "--add-config", "retention.ms=5"),
    ):
        code, out, err = run("bob", *arguments)
        assert code == 1, (arguments, out, err)
        [command] = re.findall(r"An administrator gives it by: barnabas (acls add [^)\n]*)", err)
        assert "`barnabas acls list`" not in err, "the command is better than the hint"
        assert run("admin", *shlex.split(command))[0] == 0
        code, _, err = run("bob", *arguments)
        assert code == 0, err
    code, _, err = run("bob", "produce", "wanted", stdin=b"x\n")
    assert code == 1
    assert "the brokers' log names the right that is missing, and the command that gives it" in err


def test_a_reader_without_a_group_needs_no_right_on_groups(run: Run) -> None:
    assert run("admin", "topics", "create", "read")[0] == 0
    alice = ("--allow-principal", "User:alice")
    assert run("admin", "acls", "add", "--topic", "read", *alice, "--operation", "read")[0] == 0
    assert run("admin", "produce", "read", stdin=b"value\n")[0] == 0
    assert run("alice", "consume", "read", "--until-end")[:2] == (0, "value\n")
    assert run("alice", "find", "read", "--value-contains", "v", "--format", "%v")[:2] == (0, "value\n")
    code, _, err = run("alice", "consume", "read", "--group", "g", "--from-beginning")
    assert code == 1
    assert "GROUP_AUTHORIZATION_FAILED" in err


@pytest.mark.parametrize(
    "command",
    [("produce", "described"), ("verify", "produce", "described", "--num-records", "3", "--state", "{}"),
     ("perf", "produce", "described", "--num-records", "3")],
)  # fmt: skip
def test_a_writer_without_the_right_is_told_for_each_record(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    """Also by a producer that numbers its records, which the client ends altogether."""
    assert run("admin", "topics", "create", "described", "--if-not-exists")[0] == 0
    describes = ("--topic", "described", "--allow-principal", "User:alice", "--operation", "describe")
    assert run("admin", "acls", "add", *describes)[0] == 0
    code, _, err = run("alice", *(word.format(tmp_path / "state") for word in command), stdin=b"x\n")
    assert code == 1
    assert re.search(r"records? (was|were) not", err)
    assert re.search("authorization.failed", err, re.IGNORECASE)


def test_a_wrong_password_is_told(run: Run) -> None:
    code, _, err = run("nobody", "topics", "list")
    assert code == 1
    assert err.count("refuses the login") == 1
    assert "Invalid username or password" in err
    assert "wrong" not in err.replace("Invalid username or password", "")


def test_a_trace_looks_where_it_may_and_says_where_it_may_not(run: Run) -> None:
    for topic, operation in (("traced", "read"), ("shut", "describe")):
        assert run("admin", "topics", "create", topic)[0] == 0
        assert run("admin", "produce", topic, "--key-separator", "=", stdin=b"t=v\n")[0] == 0
        rights = ("--topic", topic, "--allow-principal", "User:alice", "--operation", operation)
        assert run("admin", "acls", "add", *rights)[0] == 0
    code, out, err = run("alice", "trace", "--key", "t")
    assert (code, out.startswith("traced-0 offset 0, "), "shut" in out) == (0, True, False)
    assert "not read, for want of the right or since they were deleted: shut\n" in err
    code, _, err = run("alice", "trace", "shut", "--key", "t")
    assert code == 1
    assert "shut-0: not read from offset 0 on: TOPIC_AUTHORIZATION_FAILED" in err
