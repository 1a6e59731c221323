"""`barnabas produce TOPIC`: writes what it reads from standard input, one record a line.

Rules: a record counts when the brokers have acknowledged it; what could not be written is said, and the command fails.
Memory is bounded: reading waits while too much is unsent.
Source: kafka-console-producer.sh.
"""

from __future__ import annotations

import base64
import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import click
from confluent_kafka import KafkaError, KafkaException, Producer

from runtime.command_line.failure import Failure, Interrupted
from runtime.command_line.output import Output
from runtime.command_line.parsing import INT32_MAX, INT64_MAX, is_text
from runtime.texts import count_text
from tools.cluster import Cluster, cluster_command
from tools.failures import told
from tools.names_given import one_name
from tools.records.line_form import LineForm
from tools.records.sending import DELIVERY_TIMEOUT_MS, finish, give_up, missing_text, outstanding, send
from tools.records.serialization import Serialization, serialization_options
from tools.waiting.waits import Waits

NEW_TOPIC_MS = 5_000
"""How long a topic may be unknown: brokers that create it at this request have it by then."""


@dataclass(slots=True)
class _NewRecord:
    value: bytes | None
    key: bytes | None = None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    partition: int | None = None
    timestamp_ms: int | None = None


@dataclass(slots=True)
class _Progress:
    """What has become of the records."""

    waits: Waits
    written: int = 0
    failed: int = 0
    first_error: str | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def on_delivery(self, error: KafkaError | None, _message: Any) -> None:
        """In the thread that sends, or in that of the watch while the other one waits for a line."""
        with self._lock:
            if error is None:
                self.written += 1
                self.waits.moved()
            else:
                self.failed += 1
                self.first_error = self.first_error or self.waits.told(error)


@click.command("produce")
@one_name("topic")
@click.option("--key", help="the key of every record")
@click.option("--key-separator", metavar="TEXT", help="lines have a key before this text")
@click.option("--property", "parsed", multiple=True, metavar="NAME=VALUE", help="how lines are parsed, as of "
              "kafka-console-producer.sh: parse.key=true, parse.headers=true, ...; may be repeated")  # fmt: skip
@click.option(
    "--header", "headers", multiple=True, metavar="NAME=VALUE", help="a header of every record; may be repeated"
)
@click.option("--partition", type=click.IntRange(0, INT32_MAX), help="write to this partition")
@click.option("--input", "form", type=click.Choice(["lines", "json"]), default="lines", help="what a line is [lines]")
@serialization_options("serializer")
@click.option("--tombstones", is_flag=True, help="an empty value becomes none: a tombstone")
@click.option("--compression-type", "--compression-codec", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
              default="none", is_flag=False, flag_value="gzip", help="how batches are compressed [none]")  # fmt: skip
@click.option("--acks", "--request-required-acks", type=click.Choice(["0", "1", "-1", "all"]), default="all",
              help="who must have a record [all]")  # fmt: skip
@click.option("--sync", "is_sync", is_flag=True, help="wait for each record before the next one")
@click.option("--producer-property", "properties", multiple=True, metavar="NAME=VALUE", help="a setting of librdkafka")
@cluster_command
def command(
    cluster: Cluster,
    output: Output,
    *,
    topic: str,
    key: str | None,
    key_separator: str | None,
    parsed: tuple[str, ...],
    headers: tuple[str, ...],
    partition: int | None,
    form: str,
    key_form: Serialization,
    value_form: Serialization,
    tombstones: bool,
    compression_type: str,
    acks: str,
    is_sync: bool,
    properties: tuple[str, ...],
) -> None:
    """Write the lines of standard input to TOPIC.

    With `--input json` a line is an object as `barnabas consume --json` prints it: key, value, headers, partition, timestamp.
    """
    from runtime.command_line import parsing  # noqa: PLC0415

    read = _json_records if form == "json" else _line_records(LineForm.of(parsed, key_separator))
    cluster.connect()  # says at once that no broker answers
    given = [(name, value.encode()) for name, value in parsing.settings(headers, "--header").items()]
    # As Java's clients choose partitions, so that a key is where they look for it.
    settings = {
        "partitioner": "murmur2_random",
        "compression.type": compression_type,
        "acks": acks,
        "linger.ms": 5,
        "enable.idempotence": acks in ("all", "-1"),
        "message.timeout.ms": DELIVERY_TIMEOUT_MS,
        "topic.metadata.propagation.max.ms": NEW_TOPIC_MS,
    }
    producer = cluster.producer(settings | parsing.settings(properties, "--producer-property"))
    progress, is_interrupted = _Progress(cluster.waits), False
    try:
        with cluster.waits.writing(topic, lambda: outstanding(producer), needs_all=acks in ("all", "-1")):
            for number, record in enumerate(read(sys.stdin.buffer), 1):
                record.headers += given
                if not all(is_text(name) for name, _ in record.headers):
                    raise Failure(f"record {number} cannot be written: the name of a header is no UTF-8, or has a NUL")
                record.key = key.encode() if key is not None else record.key
                record.partition = partition if partition is not None else record.partition
                if tombstones and not record.value:
                    record.value = None
                try:
                    record.key, record.value = key_form.to_bytes(record.key), value_form.to_bytes(record.value)
                except ValueError as error:
                    raise Failure(f"record {number} cannot be written: {error}") from error
                _produce(producer, topic, record, progress)
                if is_sync:
                    finish(producer)
            finish(producer)
    except KeyboardInterrupt:
        is_interrupted = True
        give_up(producer)
    except KafkaException as error:  # the client has ended; the records say only that it did
        progress.first_error = told(error.args[0])
    finally:
        finish(producer)
        output.result(
            {"topic": topic, "written": progress.written, "failed": progress.failed},
            f"{count_text(progress.written, 'record')} written to {topic}",
        )
    if is_interrupted:
        rest = missing_text(progress.failed, "acknowledged") if progress.failed else "nothing is lost of what was read"
        raise Interrupted(f"interrupted after {count_text(progress.written, 'record')}; {rest}")
    if progress.first_error is not None:
        raise Failure(f"{missing_text(progress.failed, 'written')}: {progress.first_error}")


def _produce(producer: Producer, topic: str, record: _NewRecord, progress: _Progress) -> None:
    """Hand a record with what it has to the client."""
    options: dict[str, Any] = {"key": record.key, "headers": record.headers, "on_delivery": progress.on_delivery}
    if record.partition is not None:
        options["partition"] = record.partition
    if record.timestamp_ms is not None:
        options["timestamp"] = record.timestamp_ms
    try:
        send(producer, topic, record.value, **options)
    except KafkaException as error:
        if error.args[0].fatal():
            raise
        progress.on_delivery(error.args[0], None)  # it is too large for the client already


def _line_records(form: LineForm) -> Callable[[Iterable[bytes]], Iterator[_NewRecord]]:
    """Return what makes records of lines. It raises Failure for a line that does not have the form."""

    def read(lines: Iterable[bytes]) -> Iterator[_NewRecord]:
        for number, line in enumerate(lines, 1):
            try:
                headers, key, value = form.parse(line.removesuffix(b"\n").removesuffix(b"\r"))
            except ValueError as error:
                raise Failure(f"line {number} {error}") from error
            yield _NewRecord(value, key, headers)

    return read


def _json_records(lines: Iterable[bytes]) -> Iterator[_NewRecord]:
    """Raises Failure for a line that is no such object."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            given = json.loads(line)
            yield _NewRecord(
                _bytes_of(given, "value"),
                _bytes_of(given, "key"),
                [(_text_of(each, "name"), _bytes_of(each, "value")) for each in given.get("headers") or ()],
                _number_of(given, "partition", INT32_MAX),
                _number_of(given, "timestamp", INT64_MAX),
            )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise Failure(f"line {number} is no record in JSON: {error}") from error


def _text_of(given: dict[str, Any], name: str) -> str:
    if not isinstance(given[name], str):
        raise TypeError(f"{name} {given[name]!r} is no text")
    text: str = given[name]
    return text


def _number_of(given: dict[str, Any], name: str, most: int) -> int | None:
    """Return a number, None when there is none: -1 is a timestamp that a record does not have."""
    number = given.get(name)
    if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
        raise TypeError(f"{name} {number!r} is no number")
    if number is not None and number > most:
        raise ValueError(f"{name} {number} is too large")
    return None if number is None or number < 0 else number


def _bytes_of(given: dict[str, Any], name: str) -> bytes | None:
    if f"{name}_base64" in given:
        return base64.b64decode(given[f"{name}_base64"], validate=True)
    value = given.get(name)
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()
