"""A relay beside brokers delivers, its end is nobody else's, and it stops before them. One that cannot begin says why."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.launch import command
from tests.barnabas.supervisor.several import PATIENCE_S, Several, kill, start_line, until

RELAY = {
    "barnabas.relay.enable": "true",
    "barnabas.relay.metrics.port": "0",
    "barnabas.relay.partitions": "2",
    "barnabas.relay.session.timeout.ms": "2000",
    "group.min.session.timeout.ms": "1000",
}


def page(address: str, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE_S) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def produce(servers: str, topic: str, key: str, value: str, headers: dict[str, str] | None = None) -> None:
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(topic, value, key, headers={name: text.encode() for name, text in (headers or {}).items()})
    assert producer.flush(PATIENCE_S) == 0


def due_in(delay_ms: int) -> dict[str, str]:
    return {"barnabas-deliver-at": str(time.time_ns() // 1_000_000 + delay_ms)}


def delivered(servers: str, topic: str, count: int) -> list[str]:
    consumer = Consumer({
        "bootstrap.servers": servers, "group.id": "reader", "auto.offset.reset": "earliest",
        "isolation.level": "read_committed", "topic.metadata.refresh.interval.ms": 500,
    })  # fmt: skip
    try:
        consumer.subscribe([topic])
        found: list[str] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append((message.value() or b"").decode())
        return found
    finally:
        consumer.close()


def test_it_delivers_and_is_started_again_and_stops_before_the_brokers(tmp_path: Path) -> None:
    with Several(tmp_path, 1, line=start_line(tmp_path, settings=RELAY | {"broker.id": "0"})) as brokers:
        servers = brokers.bootstrap_servers
        (figures,) = re.findall(r"^  relay +- +(\S+)", brokers.banner, re.MULTILINE)
        until(lambda: page(figures, "/ready") == "ready\n")
        admin = AdminClient({"bootstrap.servers": servers})
        for future in admin.create_topics([NewTopic("later", 1, 1), NewTopic("now", 1, 1)]).values():
            future.result(PATIENCE_S)
        rule = {"source": "later", "kind": "delay", "target": "now"}
        produce(servers, "barnabas-relay-rules", "later", json.dumps(rule))
        produce(servers, "later", "k", "second", due_in(900))
        produce(servers, "later", "k", "first", due_in(300))
        assert delivered(servers, "now", 2) == ["first", "second"]
        until(lambda: "\nbarnabas_relay_delivered_total 2\n" in page(figures, "/metrics"))
        assert "\nbarnabas_relay_rules 1\n" in page(figures, "/metrics")
        kill(brokers.processes["relay"])
        produce(servers, "later", "k", "third", due_in(100))
        assert delivered(servers, "now", 1) == ["third"]
        assert "process started again: name=relay" in brokers.log.read_text()
        with subprocess.Popen(command("relay", "-b", servers), stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "The relay barnabas-relay has begun\n"
            other.terminate()
            assert other.wait(PATIENCE_S) == 0
        assert brokers.stop(signal.SIGINT) == 0
    lines = brokers.log.read_text().splitlines()
    relay_stopped, broker_stops = (
        max(number for number, line in enumerate(lines) if text in line) for text in ("relay stopped", "broker stops")
    )
    assert relay_stopped < broker_stops


@pytest.mark.parametrize(
    ("overrides", "exit_code", "said"),
    [
        (["barnabas.relay.nmae=x"], 2, "unknown setting barnabas.relay.nmae: did you mean barnabas.relay.name?"),
        (["security.protocol=SASL_PLAINTEXT"], 2, "sasl"),
        (["security.protocol=SSL", "ssl.ca.location=/nowhere"], 2, "/nowhere"),
        (["default.api.timeout.ms=300"], 1, "process stops, it cannot continue: reason="),
    ],
)
def test_what_cannot_begin_says_why(overrides: list[str], exit_code: int, said: str) -> None:
    words = [word for each in overrides for word in ("--override", each)]
    line = command("relay", "-b", "127.0.0.1:1", *words)
    done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, said in done.stderr) == (exit_code, True), done.stderr


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        own = ["barnabas.relay.metrics.host=127.0.0.1", f"barnabas.relay.metrics.port={port}"]
        line = command("relay", "-b", "127.0.0.1:1", *(word for each in own for word in ("--override", each)))
        done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, f"barnabas.relay.metrics.port={port}: " in done.stderr) == (1, True), done.stderr
