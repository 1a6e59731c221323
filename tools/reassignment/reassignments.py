"""Begins, lists and ends reassignments, and moves of replicas between the log directories of a broker.

Source: KIP-455, KIP-113.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tools.balance.layout import Key
from tools.cluster import Cluster
from tools.failures import Failure, with_hint
from tools.log_dirs_request import log_dirs_request
from tools.reassignment.moves import Reassignment

T = TypeVar("T")
ReplicaKey = tuple[str, int, int]
"""Topic, partition, broker."""
_AGAIN_AFTER_S = 0.1
_NOT_AVAILABLE = "REPLICA_NOT_AVAILABLE"


class Unanswered(Failure):
    """Nobody has answered who could; asking again may help."""


@dataclass(frozen=True, slots=True)
class ReplicaPlace:
    """Where a replica is, and where it is on its way to. `bytes` is the size of what is there; `lag` is behind the high
    watermark in records."""

    path: str
    bytes: int
    lag: int
    future_path: str | None = None


def alter(cluster: Cluster, targets: Mapping[Key, Sequence[int] | None]) -> set[Key]:
    """Begin reassignments, or end those of partitions whose target is None; return the partitions that were to be ended and
    are not being moved. Raises Failure, Unanswered, OtherClientError."""
    from kafka.structs import TopicPartition as OtherTopicPartition  # noqa: PLC0415

    if not targets:
        return set()
    asked = {OtherTopicPartition(*key): replicas for key, replicas in targets.items()}
    answers = _of_controller(lambda: cluster.other_admin.alter_partition_reassignments(asked))
    errors = {partition: str(error.message) for partition, error in sorted(answers.items()) if error is not None}
    over = {one for one, name in errors.items() if asked[one] is None and name == "NO_REASSIGNMENT_IN_PROGRESS"}
    failures = [
        f"{one.topic}-{one.partition}: {with_hint(name, None)}" for one, name in errors.items() if one not in over
    ]
    if failures:
        raise Failure("; ".join(failures))
    return {(one.topic, one.partition) for one in over}


def moving(cluster: Cluster) -> dict[Key, Reassignment]:
    """Return the partitions that are being moved. Raises Unanswered, OtherClientError."""
    answers = _of_controller(cluster.other_admin.list_partition_reassignments)
    return {
        (partition.topic, partition.partition): Reassignment(
            tuple(state["replicas"]), tuple(state["adding_replicas"]), tuple(state["removing_replicas"])
        )
        for partition, state in sorted(answers.items())
    }


def places(
    cluster: Cluster, brokers: Iterable[int], keys: Iterable[Key] | None = None
) -> dict[ReplicaKey, ReplicaPlace]:
    """Return where the replicas of these brokers are, of all partitions or of some. Raises Failure when a broker does not
    answer: its replicas would seem to be gone."""
    from kafka.errors import for_code  # noqa: PLC0415

    asked = None if keys is None else list(keys)
    found: dict[ReplicaKey, ReplicaPlace] = {}
    future_paths: dict[ReplicaKey, str] = {}
    manager = cluster.other_admin._manager  # noqa: SLF001  the call asks for all topics by name, a request that may be huge
    for broker in sorted(brokers):
        try:
            response = manager.run(manager.send, log_dirs_request(asked), broker)
        except Exception as error:
            if type(error).__module__ != "kafka.errors":
                raise
            raise Unanswered(f"broker {broker} does not tell its log directories: {error}") from error
        if getattr(response, "error_code", 0):  # brokers before 3.0 have none
            name = str(for_code(response.error_code).message)
            raise Failure(f"log directories of broker {broker}: {with_hint(name, None)}")
        for directory in response.results:
            _read_directory(directory, broker, found, future_paths)
    return {
        key: ReplicaPlace(place.path, place.bytes, place.lag, future_paths.get(key)) for key, place in found.items()
    }


def move_directories(cluster: Cluster, wanted: Mapping[ReplicaKey, str], timeout_ms: int) -> None:
    """Begin to move replicas to directories. A replica that a broker is about to get is asked for until it is there.
    Raises Failure."""
    started_ms, pending = cluster.clock.monotonic_ms(), dict(wanted)
    while pending:
        answers = cluster.other_admin.alter_replica_log_dirs(pending)
        refused = {tuple(key): str(error.message) for key, error in answers.items() if error.errno}
        others = {key: name for key, name in refused.items() if name != _NOT_AVAILABLE}
        if others:
            raise Failure(
                "; ".join(
                    f"{topic}-{partition} on broker {broker} to {pending[topic, partition, broker]}: {with_hint(name, None)}"
                    for (topic, partition, broker), name in sorted(others.items())
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
    directory: Any, broker: int, found: dict[ReplicaKey, ReplicaPlace], future_paths: dict[ReplicaKey, str]
) -> None:
    for topic in directory.topics or ():
        for row in topic.partitions:
            key = (topic.name, row.partition_index, broker)
            if row.is_future_key:
                future_paths[key] = directory.log_dir
            else:
                found[key] = ReplicaPlace(directory.log_dir, row.partition_size, row.offset_lag)


def _of_controller(ask: Callable[[], T]) -> T:
    """Raises Failure while there is no controller, for which the client has no error of its own."""
    try:
        return ask()
    except RuntimeError as error:
        raise Unanswered(with_hint("NOT_CONTROLLER", "no broker says that it controls the cluster")) from error
