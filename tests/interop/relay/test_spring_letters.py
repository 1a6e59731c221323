"""What Spring Kafka itself writes is understood: dead letters and retries are listed by their headers, and come back without
them."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from barnabas.commands import main
from barnabas.embedded import EmbeddedBroker
from client.letters.headers import read
from tests.interop.conftest import need_java
from tests.oracle import java

pytestmark = [pytest.mark.interop, pytest.mark.oracle, pytest.mark.long, pytest.mark.timeout(600)]

SPRING = replace(java.ZOOKEEPER_MODE, version="spring-kafka 3.3.1", pom=java.HERE / "pom-spring.xml")


def headers_of(servers: str, topic: str, count: int) -> list[list[tuple[str, bytes | None]]]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reads"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[list[tuple[str, bytes | None]]] = []
        while len(found) < count:
            message = consumer.poll(30)
            assert message is not None and message.error() is None
            found.append(list(message.headers() or ()))
        return found
    finally:
        consumer.close()


def run_spring(servers: str, topic: str, folder: Path) -> None:
    jars = f"{java.jars(SPRING)}/*"
    compiler = ["javac", "-d", str(folder), "-cp", jars, str(java.HERE / "SpringLetters.java")]
    # Classes that are compiled see those of their package in the jar; a source that is launched does not.
    program = ["java", *java.QUICK_START, "-cp", f"{jars}{os.pathsep}{folder}"]
    program += ["org.springframework.kafka.retrytopic.SpringLetters", servers, topic]
    for command in (compiler, program):
        done = subprocess.run(command, timeout=120, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_letters_of_spring_kafka_are_read_and_brought_back(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    need_java()
    with EmbeddedBroker({"payments": 1, "spring-dead": 1}) as broker:
        servers = broker.bootstrap_servers
        run_spring(servers, "spring-dead", tmp_path)
        dead, first, later = (read(headers) for headers in headers_of(servers, "spring-dead", 3))
        for letter in (dead, first, later):
            assert letter[3:7] == ("payments", 0, (1 << 32) + 7, 1_700_000_000_000)
            assert letter.reason is not None and "boom" in letter.reason + str(letter.exception)
            assert (letter.group, letter.exception, letter.problem) == (
                "billing",
                "java.lang.IllegalStateException",
                None,
            )
        assert (dead.attempt, first.attempt, later.attempt) == (0, 1, 3), "how many attempts have failed"
        where = ["--bootstrap-server", servers]
        capfd.readouterr()
        assert main(["dlq", "list", "spring-dead", "--group", "billing", "--json", *where]) == 0
        assert [json.loads(line)["attempts"] for line in capfd.readouterr().out.splitlines()] == [0, 1, 3]
        assert main(["dlq", "requeue", "spring-dead", "--execute", *where]) == 0
        assert headers_of(servers, "payments", 3) == [[("trace", b"1")]] * 3
