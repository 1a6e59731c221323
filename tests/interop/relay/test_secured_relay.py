"""A relay that logs in by SCRAM and has the rights that docs/relay.md names, no others, on a broker with ACLs: rules hold as
long as their principals may do what they do."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.interop.conftest import BROKERS, need_java
from tests.interop.security.test_sasl import PATIENCE_S, Guarded, created, guarded, librdkafka
from tests.oracle.barnabas import REPOSITORY, Barnabas
from tests.oracle.kafka import ApacheKafka
from tests.oracle.kraft import KraftKafka
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

NEWER = "kafka-4.3"
MECHANISM = "SCRAM-SHA-512"
SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",  # whoever uses the listener without login
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
}
USERS = ("relay", "operator", "alice", "mallory")
PAGE = (REPOSITORY / "docs" / "relay.md").read_text(encoding="utf-8")


@dataclass
class Secured:
    """A broker with users, and commands that any of them runs."""

    guarded: Guarded
    folder: Path

    def file(self, user: str, **more: str) -> Path:
        """Return a properties file of a client that logs in."""
        path = self.folder / f"{user}.properties"
        own = {name.replace("_", "."): value for name, value in more.items()}
        lines = {**librdkafka(self.guarded.clients, MECHANISM, user), **own}
        lines["security.protocol"] = lines["security.protocol"].upper()
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        return path

    def run(self, *words: str, user: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command as a user, or as one who may do everything."""
        where = (
            ["-b", self.guarded.broker.bootstrap_servers]
            if user is None
            else ["--command-config", str(self.file(user))]
        )
        line = [sys.executable, "-m", "barnabas.cli", *words, *where]
        return subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def ok(self, *words: str, user: str | None = None) -> None:
        done = self.run(*words, user=user)
        assert done.returncode == 0, done.stderr

    def allow(self, user: str, operation: str, *topics: str) -> None:
        words = [word for topic in topics for word in ("--topic", topic)]
        self.ok("acls", "add", "--allow-principal", f"User:{user}", "--operation", operation, *words)

    def produce(self, user: str, topic: str, *values: str) -> None:
        producer = Producer(librdkafka(self.guarded.clients, MECHANISM, user))
        failed: list[object] = []
        for value in values:
            producer.produce(topic, value, on_delivery=lambda error, _: error and failed.append(error))
        assert (producer.flush(PATIENCE_S), failed) == (0, [])

    def read(self, user: str, topic: str, count: int, for_s: float = PATIENCE_S) -> list[str]:
        """Return the values of the first records that are committed, `count` of them or what comes in time."""
        own = {"group.id": user, "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
        consumer = Consumer({**librdkafka(self.guarded.clients, MECHANISM, user), **own})
        consumer.subscribe([topic])
        found: list[str] = []
        deadline = time.monotonic() + for_s
        while len(found) < count and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append((message.value() or b"").decode())
        consumer.close()
        return found


def made_of(kind: str) -> Guarded:
    """Return a broker with an authorizer that has not started."""
    if kind == "barnabas":
        made = guarded(Barnabas())
    elif kind == "kafka":
        made = guarded(ApacheKafka())
    else:
        kraft = KraftKafka()
        kraft.port, kraft.controller_port = lasting_port(), lasting_port()
        made = guarded(kraft)
        kraft.settings["listeners"] += f",CONTROLLER://127.0.0.1:{kraft.controller_port}"
        kraft.settings["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
    made.broker.settings |= SETTINGS
    if kind == NEWER:
        made.broker.settings["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    return made


@pytest.fixture(scope="module", params=[*BROKERS, pytest.param(NEWER, marks=pytest.mark.long)])
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with ExitStack() as stack:
        if request.param != "barnabas":
            need_java()
        made = made_of(request.param)
        stack.enter_context(made.broker)
        for user in USERS:
            made.make_user(user)
        yield Secured(made, tmp_path_factory.mktemp("secured"))


@dataclass
class Running:
    """A relay as a process of its own."""

    log: Path

    def waits(self, text: str) -> None:
        """Return when its log has a text."""
        assert wait_until(lambda: text in self.log.read_text(), PATIENCE_S), self.log.read_text()


@pytest.fixture
def relay(secured: Secured, tmp_path: Path) -> Iterator[Callable[[], Running]]:
    """Starts it, and stops it in order at the end."""
    own = {
        "barnabas_relay_partitions": "2", "barnabas_relay_session_timeout_ms": "6000", "barnabas_relay_near_ms": "1000",
        "barnabas_relay_rules_interval_ms": "1000", "barnabas_relay_target_timeout_ms": "1000",
    }  # fmt: skip
    with ExitStack() as stack:

        def start() -> Running:
            log = tmp_path / "relay.log"
            output = stack.enter_context(log.open("wb"))
            line = [sys.executable, "-m", "barnabas.cli", "relay", str(secured.file("relay", **own))]
            process = stack.enter_context(subprocess.Popen(line, cwd=REPOSITORY, stdout=output, stderr=output))
            stack.callback(process.wait, PATIENCE_S)
            stack.callback(process.send_signal, signal.SIGTERM)
            return Running(log)

        yield start


def rights_of_the_page() -> list[Sequence[str]]:
    """Return the words of the commands that give the relay its rights, for the topics of this test."""
    commands = re.findall(r"^barnabas (acls add [^#\n]*)", PAGE, re.MULTILINE)
    assert len(commands) >= 6
    return [each.replace("reminders-later", "se-in").replace("reminders", "se-out").split() for each in commands]


def test_rules_hold_as_long_as_their_principals_have_the_rights(secured: Secured, relay: Callable[[], Running]) -> None:
    for topic in ("se-in", "se-out", "se-secret", "se-in-2", "se-in-3", "se-closed"):
        created(secured.guarded, topic)
    for words in rights_of_the_page():
        secured.ok(*words)
    secured.allow("relay", "all", "se-secret", "se-in-2", "se-in-3")
    secured.allow("alice", "all", "se-in", "se-out", "se-in-3", "se-closed")
    secured.allow("mallory", "all", "se-in-2")
    secured.ok("acls", "add", "--allow-principal", "User:alice", "--operation", "all", "--group", "alice")
    process = relay()
    process.waits("relay ready")
    secured.allow(
        "operator", "all", "barnabas-relay-rules", "se-in", "se-out", "se-in-2", "se-in-3", "se-closed", "se-secret"
    )
    secured.ok("acls", "add", "--allow-principal", "User:operator", "--operation", "describe", "--cluster")

    add = ("relay", "rules", "add")
    refused = secured.run(*add, "se-in", "se-out", user="alice")
    assert (refused.returncode, "TOPIC_AUTHORIZATION_FAILED" in refused.stderr) == (1, True), refused.stderr
    secured.ok(*add, "se-in", "se-out", "--principal", "User:alice", user="operator")
    refused = secured.run(*add, "se-in-2", "se-secret", "--principal", "User:mallory", user="operator")
    said = "User:mallory has not Write on topic se-secret"
    assert (refused.returncode, said in refused.stderr) == (1, True), refused.stderr
    rule = '{"source":"se-in-2","kind":"delay","target":"se-secret","principal":"User:mallory"}'
    producer = Producer(librdkafka(secured.guarded.clients, MECHANISM, "operator"))
    producer.produce("barnabas-relay-rules", rule, "se-in-2")
    assert producer.flush(PATIENCE_S) == 0
    secured.ok(*add, "se-in-3", "se-closed", "--principal", "User:alice", user="operator")

    secured.produce("mallory", "se-in-2", "stolen")
    secured.produce("alice", "se-in", "first", "second")
    assert secured.read("alice", "se-out", 2) == ["first", "second"]
    process.waits(f"rule is suspended: topic=se-in-2 reason={said}")

    # The relay itself may not write to this target: dead letters with the reason, and nobody else is held up.
    secured.produce("alice", "se-in-3", "closed")
    secured.allow("alice", "read", "barnabas-relay-dead")
    assert secured.read("alice", "barnabas-relay-dead", 1) == ["closed"]

    # A right that is taken back suspends the rule, and nothing is lost.
    taken = ("--topic", "se-out", "--allow-principal", "User:alice", "--operation", "all", "--execute")
    secured.ok("acls", "remove", *taken)
    process.waits("topic=se-in reason=User:alice has not Write on topic se-out")
    secured.produce("alice", "se-in", "third")
    secured.allow("alice", "all", "se-out")
    assert secured.read("alice", "se-out", 3) == ["first", "second", "third"]
    assert secured.read("alice", "se-out", 4, for_s=1) == ["first", "second", "third"]
    assert len(re.findall("rule is suspended: topic=se-in-2", process.log.read_text())) == 1
    secured.allow("alice", "read", "se-secret")
    assert secured.read("alice", "se-secret", 1, for_s=1) == []
    assert "-secret\n" not in process.log.read_text()
