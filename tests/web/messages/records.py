"""Writes records for tests of messages, and reads streams of events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.embedded import EmbeddedBroker


@dataclass
class Row:
    """A record to be written."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int = 1_700_000_000_000


def make_topic(broker: EmbeddedBroker, name: str, partitions: int = 1, **settings: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    config = {each.replace("_", "."): value for each, value in settings.items()}
    admin.create_topics([NewTopic(name, partitions, config=config)])[name].result(30)
    return name


def write(broker: EmbeddedBroker, topic: str, rows: Iterable[Row], **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5, **settings})
    for each in rows:
        producer.produce(
            topic, each.value, each.key, each.partition, timestamp=each.timestamp_ms, headers=list(each.headers)
        )
        producer.poll(0)
    assert producer.flush(60) == 0


@dataclass
class Stream:
    """The events of a stream: their names and data, in order."""

    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @classmethod
    def of(cls, response: httpx.Response) -> Stream:
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        found = cls()
        for block in response.text.split("\n\n"):
            fields = dict(line.partition(": ")[::2] for line in block.split("\n") if line)
            if "event" in fields:
                found.events.append((fields["event"], json.loads(fields["data"])))
        return found

    def of_name(self, name: str) -> list[dict[str, Any]]:
        return [data for each, data in self.events if each == name]

    @property
    def last(self) -> tuple[str, dict[str, Any]]:
        return self.events[-1]

    def positions(self) -> dict[int, tuple[int, int, int]]:
        """Return from, at and end of each partition, as last told."""
        return {
            row["partition"]: (row["from"], row["at"], row["end"])
            for data in self.of_name("progress")
            for row in data["partitions"]
        }
