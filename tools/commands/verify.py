"""`barnabas verify`: what was acknowledged is read once, in order, or it says what is missing.

`verify produce` writes numbered records and keeps in a file which of them were acknowledged; `verify consume` reads the topic
and compares. In between, brokers may be killed, moved and upgraded.
Rules: each record has a run and a sequence in its partition as headers, as `barnabas pipeline audit` reads them.
"""

from __future__ import annotations

import json
import os
import uuid
from functools import partial
from typing import Any

import click
from confluent_kafka import OFFSET_BEGINNING, KafkaException

from runtime.command_line import parsing
from runtime.command_line.failure import Failure, Interrupted
from runtime.command_line.group import Commands
from runtime.command_line.output import Output
from runtime.command_line.progress import Progress
from runtime.texts import count_text
from tools.cluster import Cluster, cluster_command
from tools.commands.topics import partition_keys
from tools.failures import told
from tools.names_given import one_name
from tools.records.reading import SETTINGS, Reading, ReadPlan
from tools.records.record_view import UnreadableHeaders, headers_of
from tools.records.sending import finish, give_up, missing_text, send
from tools.sequences import Intervals, PartitionCheck, verdict

PRODUCER_HEADER = "barnabas-producer"
SEQUENCE_HEADER = "barnabas-sequence"
_LONGEST = len(str(parsing.INT64_MAX))


command = Commands("verify", help="Whether everything that was acknowledged is there.")


@command.command("produce")
@one_name("topic")
@click.option("--num-records", type=click.IntRange(1), default=10_000, metavar="N", help="[10000]")
@click.option("--record-size", type=click.IntRange(0), default=100, metavar="BYTES", help="[100]")
@click.option("--state", "path", required=True, metavar="FILE", help="where to keep what was acknowledged")
@click.option("--producer-property", "properties", multiple=True, metavar="NAME=VALUE", help="a setting of librdkafka")
@cluster_command
def produce(
    cluster: Cluster,
    output: Output,
    *,
    topic: str,
    num_records: int,
    record_size: int,
    path: str,
    properties: tuple[str, ...],
) -> None:
    """Write numbered records to TOPIC. Fails when some were not acknowledged; the others can be verified all the same."""
    indexes = [index for _, index in partition_keys(cluster, topic, None)]
    settings = {"acks": "all", "enable.idempotence": True, "linger.ms": 5}
    producer = cluster.producer(settings | parsing.settings(properties, "--producer-property"))
    run, value = uuid.uuid4().hex, os.urandom(record_size)
    acknowledged = {index: Intervals() for index in indexes}
    errors: list[str] = []
    ended: list[str] = []

    def on_delivery(partition: int, sequence: int, error: Any, _message: Any) -> None:
        if error is not None:
            errors.append(cluster.waits.told(error))
        else:
            acknowledged[partition].add(sequence)
            cluster.waits.moved()

    progress, is_interrupted = Progress("records written", num_records, cluster.clock), False
    try:
        with cluster.waits.writing(topic, lambda: len(producer), needs_all=True):
            for number in range(num_records):
                sequence, at = divmod(number, len(indexes))
                delivered = partial(on_delivery, indexes[at], sequence)
                headers = [(PRODUCER_HEADER, run.encode()), (SEQUENCE_HEADER, str(sequence).encode())]
                send(producer, topic, value, partition=indexes[at], headers=headers, on_delivery=delivered)
                progress.show(number)
            finish(producer)
    except KeyboardInterrupt:
        is_interrupted = True
        give_up(producer)
    except KafkaException as error:  # the client has ended; the records say only that it did
        ended.append(told(error.args[0]))
    finish(producer)
    progress.close()
    _write_state(path, {"topic": topic, "run": run, "acknowledged": {str(k): v.pairs for k, v in acknowledged.items()}})
    count = sum(map(len, acknowledged.values()))
    output.result(
        {"topic": topic, "run": run, "acknowledged": count, "failed": len(errors), "state": path},
        f"{count_text(count, 'record')} acknowledged; `barnabas verify consume {topic} --state {path}` verifies them",
    )
    if is_interrupted:
        raise Interrupted("interrupted: what was written until then can be verified")
    if errors:
        raise Failure(f"{missing_text(len(errors), 'acknowledged')}: {(ended or errors)[0]}")


@command.command("consume")
@one_name("topic")
@click.option("--state", "path", required=True, metavar="FILE", help="what `verify produce` has kept")
@cluster_command
def consume(cluster: Cluster, output: Output, *, topic: str, path: str) -> None:
    """Read TOPIC to its end, and compare it with what was acknowledged. Fails when something is missing, repeated or out of
    order."""
    state = _read_state(path)
    if state["topic"] != topic:
        raise Failure(f"{path} is about topic {state['topic']}")
    acknowledged = {int(index): Intervals(pairs) for index, pairs in state["acknowledged"].items()}
    checks = _checks(cluster, topic, state["run"].encode())
    found = verdict(acknowledged, checks)
    count = count_text(sum(map(len, acknowledged.values())), "record")
    output.result(found, f"{count} acknowledged, {found['read']} read")
    if not found["is_sound"]:
        wrong = [
            f"{name.replace('_', ' ')}: {found[name]}"
            for name in ("missing", "repeated", "out_of_order")
            if found[name]
        ]
        raise Failure("; ".join(wrong))


def _checks(cluster: Cluster, topic: str, run: bytes) -> dict[int, PartitionCheck]:
    """Read the records of a run. Raises Failure, KafkaException."""
    plan = ReadPlan({index: OFFSET_BEGINNING for _, index in partition_keys(cluster, topic, None)})
    plan.bound(cluster, topic, is_committed_only=True)
    consumer = cluster.consumer({**SETTINGS, "group.id": "barnabas-verify", "isolation.level": "read_committed"})
    checks: dict[int, PartitionCheck] = {}
    total = sum(end - plan.starts[index] for index, end in plan.ends.items())
    progress = Progress("records read", total, cluster.clock)
    looked = 0
    try:
        reading = Reading(consumer, topic, plan, cluster.waits.moved)
        with cluster.waits.reading(topic, reading.left):
            while not reading.is_finished:
                for message in reading.poll():
                    looked += 1
                    sequence = _sequence(message, run)
                    if sequence is not None:
                        check = checks.setdefault(message.partition(), PartitionCheck())
                        check.read(sequence, message.offset())
                progress.show(looked)
    except KafkaException as error:
        why = cluster.waits.told(error.args[0])
        raise Failure(f"the verification is incomplete after {count_text(looked, 'record')}: {why}") from error
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted: the verification is incomplete after {count_text(looked, 'record')}") from None
    finally:
        progress.close()
        consumer.close()
    return checks


def _sequence(message: Any, run: bytes) -> int | None:
    """Return the number that this run gave a record; None for a record of somebody else."""
    try:
        headers = dict(headers_of(message))
    except UnreadableHeaders:
        return None
    sequence = headers.get(SEQUENCE_HEADER)
    if headers.get(PRODUCER_HEADER) != run or sequence is None or not sequence.isdigit() or len(sequence) > _LONGEST:
        return None
    return int(sequence)


def _write_state(path: str, state: dict[str, Any]) -> None:
    """Raises Failure."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(state, file)
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror}") from error


def _read_state(path: str) -> dict[str, Any]:
    """Raises Failure."""
    try:
        with open(path, encoding="utf-8") as file:
            state: dict[str, Any] = json.load(file)
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
    except ValueError:
        raise Failure(f"{path} is no state of `barnabas verify produce`") from None
    if not isinstance(state, dict) or not {"topic", "run", "acknowledged"} <= state.keys():
        raise Failure(f"{path} is no state of `barnabas verify produce`")
    return state
