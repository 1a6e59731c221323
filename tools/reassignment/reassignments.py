"""Begins, lists and ends reassignments, and moves of replicas between the log directories of a broker.

Source: KIP-455, KIP-113.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from client.admin import replicas
from client.admin.replicas import ReplicaKey
from client.admin.steps import Steps, may_pass
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_log_dirs import DescribeLogDirsResult
from runtime.command_line.failure import Failure
from tools.balance.layout import Key
from tools.cluster import Cluster
from tools.failures import told
from tools.reassignment.moves import Reassignment

T = TypeVar("T")
_AGAIN_AFTER_S = 0.1


class Unanswered(Failure):
    """No broker has answered that could; asking again may help."""


@dataclass(frozen=True, slots=True)
class ReplicaPlace:
    """Where a replica is, and where it is on its way to. `bytes` is the size of what is there; `lag` is behind the high
    watermark in records."""

    path: str
    bytes: int
    lag: int
    future_path: str | None = None


def alter(targets: Mapping[Key, Sequence[int] | None]) -> Steps[set[Key]]:
    """Begin reassignments, or end those of partitions whose target is None; return the partitions that were to be ended and
    are not being moved. Raises Failure, Unanswered."""
    answers = yield from _of_controller(replicas.reassign(targets))
    errors = {key: error for key, error in sorted(answers.items()) if error is not None}
    over = {
        key
        for key, error in errors.items()
        if targets[key] is None and error.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    }
    failed = {key: error for key, error in errors.items() if key not in over}
    if failed:
        kind = Unanswered if all(map(may_pass, failed.values())) else Failure
        raise kind("; ".join(f"{topic}-{partition}: {told(error)}" for (topic, partition), error in failed.items()))
    return over


def moving() -> Steps[dict[Key, Reassignment]]:
    """Return the partitions that are being moved. Raises Failure, Unanswered."""
    found = yield from _of_controller(replicas.reassignments())
    return {
        key: Reassignment(tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas))
        for key, row in sorted(found.items())
    }


def places(brokers: Iterable[int], keys: Iterable[Key] | None = None) -> Steps[dict[ReplicaKey, ReplicaPlace]]:
    """Return where the replicas of these brokers are, of all partitions or of some. Raises Failure when a broker does not
    answer: its replicas would seem to be missing."""
    found: dict[ReplicaKey, ReplicaPlace] = {}
    future_paths: dict[ReplicaKey, str] = {}
    for broker, answer in sorted((yield from replicas.log_dirs(brokers, keys)).items()):
        if isinstance(answer, KafkaError):
            if may_pass(answer):
                raise Unanswered(f"broker {broker} does not tell its log directories: {answer}")
            raise Failure(f"log directories of broker {broker}: {told(answer)}") from answer
        for directory in answer.results:
            _read_directory(directory, broker, found, future_paths)
    return {
        key: ReplicaPlace(place.path, place.bytes, place.lag, future_paths.get(key)) for key, place in found.items()
    }


def move_directories(cluster: Cluster, wanted: Mapping[ReplicaKey, str], timeout_ms: int) -> None:
    """Begin to move replicas to directories. A replica that a broker is about to get is asked for until it is there.
    Raises Failure."""
    started_ms, pending = cluster.clock.monotonic_ms(), dict(wanted)
    while pending:
        refused = {
            key: error
            for key, error in cluster.run(replicas.move_directories(pending)).items()
            if isinstance(error, KafkaError)
        }
        others = {key: each for key, each in refused.items() if each.code is not ErrorCode.REPLICA_NOT_AVAILABLE}
        if others:
            raise Failure(
                "; ".join(
                    f"{topic}-{partition} on broker {broker} to {pending[topic, partition, broker]}: {told(error)}"
                    for (topic, partition, broker), error in sorted(others.items())
                )
            )
        pending = {key: path for key, path in pending.items() if key in refused}
        if pending and cluster.clock.monotonic_ms() - started_ms >= timeout_ms:
            names = ", ".join(f"{topic}-{partition} on broker {broker}" for topic, partition, broker in sorted(pending))
            raise Failure(f"these replicas are not there after {timeout_ms} ms, and have no directory yet: {names}; "
                          "try again with --additional, or with a longer --timeout")  # fmt: skip
        if pending:
            time.sleep(_AGAIN_AFTER_S)


def _read_directory(
    directory: DescribeLogDirsResult,
    broker: int,
    found: dict[ReplicaKey, ReplicaPlace],
    future_paths: dict[ReplicaKey, str],
) -> None:
    for topic in directory.topics:
        for row in topic.partitions:
            key = (topic.name, row.partition_index, broker)
            if row.is_future_key:
                future_paths[key] = directory.log_dir
            else:
                found[key] = ReplicaPlace(directory.log_dir, row.partition_size, row.offset_lag)


def _of_controller(steps: Steps[T]) -> Steps[T]:
    """Raises Failure, Unanswered while the controller does not answer."""
    try:
        return (yield from steps)
    except KafkaError as error:
        if may_pass(error):
            raise Unanswered(told(error)) from error
        raise Failure(told(error)) from error
