"""Every node of the tree that this broker reads or writes: its path, and its data, byte for byte as Apache Kafka 3.9.
Pure.

Rules: pure. Encoders write JSON without spaces, keys in the order in which Apache Kafka's encoder happens to walk its
maps, so that nodes are byte for byte the same. Decoders accept any order, ignore unknown keys, and accept every
version of a node that a running cluster may still have. `ValueError` means that the data is invalid.

Order of keys: fixed maps stand as read off a running cluster. Maps that grow (partitions, settings, a broker's
description) are hash maps over there, so their order follows from Java's string hash; see `znode_json`.
Source: Kafka ZkData; ids in base64 as KIP-516.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from metadata.store.znode_json import (
    INT32_MAX,
    decode_json,
    encode_json,
    int32,
    java_map_order,
    one_error,
    require,
    scala_immutable_map_order,
    scala_map_order,
    text,
)
from protocol.primitives import ZERO_UUID, uuid_from_text, uuid_to_text
from protocol.topic_partition import TopicPartition

ADMIN = "/admin"
BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
CLUSTER = "/cluster"
CLUSTER_ID = "/cluster/id"
CONFIG = "/config"
CONFIG_CHANGES = "/config/changes"
CONSUMERS = "/consumers"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
DELETE_TOPICS = "/admin/delete_topics"
FEATURE = "/feature"
ISR_CHANGES = "/isr_change_notification"
LOG_DIR_EVENTS = "/log_dir_event_notification"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
REASSIGNMENTS = "/admin/reassign_partitions"
TOPICS = "/brokers/topics"

ENTITY_TYPES = ("topics", "clients", "users", "brokers", "ips")

# The nodes that every broker creates at its start, in Apache Kafka's order.
PERSISTENT_PATHS = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    *(f"{CONFIG}/{entity_type}" for entity_type in ENTITY_TYPES),
)

BROKER_VERSION = 5
CONTROLLER_VERSION = 2
HOST_ID = "barnabas_host_id"
TOPIC_VERSION = 3
TOPIC_VERSION_WITHOUT_ID = 2
INITIAL_CONTROLLER_EPOCH = 0

RECOVERED = 0
RECOVERING = 1

SHARED_MAX = 512  # distinct values that are shared: thousands of partitions have equal ones


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def config_path(entity_type: str, entity_name: str) -> str:
    return f"{CONFIG}/{entity_type}/{entity_name}"


def config_change_path() -> str:
    """The path of a sequential node, without its counter."""
    return f"{CONFIG_CHANGES}/config_change_"


def isr_change_path() -> str:
    """Created sequentially by leaders that write ISRs themselves."""
    return f"{ISR_CHANGES}/isr_change_"


def log_dir_event_path() -> str:
    """Created sequentially by a broker that has lost a log directory."""
    return f"{LOG_DIR_EVENTS}/log_dir_event_"


def offset_path(group: str, topic: str, partition: int) -> str:
    """Where OffsetCommit and OffsetFetch of version 0 keep an offset, as decimal text."""
    return f"{CONSUMERS}/{group}/offsets/{topic}/{partition}"


# --- brokers, cluster, controller ---


@dataclass(frozen=True, slots=True)
class RegisteredEndpoint:
    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """/brokers/ids/N. `endpoints` keep their order; the first PLAINTEXT one fills the fields of old clients. `host_id` is
    barnabas.host.id, under a key that Apache Kafka ignores."""

    broker_id: int
    endpoints: tuple[RegisteredEndpoint, ...]
    timestamp_ms: int
    rack: str | None = None
    jmx_port: int = -1
    features: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    host_id: str | None = None

    def encode(self) -> bytes:
        plaintext = next((each for each in self.endpoints if each.security_protocol == "PLAINTEXT"), None)
        protocols = {each.listener: each.security_protocol for each in self.endpoints}
        values: dict[str, Any] = {
            "version": BROKER_VERSION,
            "host": plaintext.host if plaintext else None,
            "port": plaintext.port if plaintext else -1,
            "jmx_port": self.jmx_port,
            "timestamp": str(self.timestamp_ms),
            "endpoints": [f"{each.listener}://{_url_host(each.host)}:{each.port}" for each in self.endpoints],
            "listener_security_protocol_map": {name: protocols[name] for name in scala_immutable_map_order(protocols)},
            "features": {name: dict(levels) for name, levels in self.features.items()},
        }
        if self.rack is not None:
            values["rack"] = self.rack
        if self.host_id is not None:
            values[HOST_ID] = self.host_id
        return encode_json({key: values[key] for key in scala_map_order(values)})

    @classmethod
    @one_error
    def decode(cls, broker_id: int, data: bytes) -> BrokerRegistration:
        what = broker_path(broker_id)
        value = decode_json(data, what)
        protocols = value.get("listener_security_protocol_map") or {}
        endpoints = []
        for endpoint in value.get("endpoints") or []:
            listener, separator, rest = endpoint.partition("://")
            host, colon, port = rest.rpartition(":")
            if not separator or not colon or not port.lstrip("-").isdigit():
                raise ValueError(f"{what}: endpoint {endpoint!r} is not listener://host:port")
            protocol = text(protocols.get(listener, listener))
            endpoints.append(RegisteredEndpoint(listener, host.strip("[]"), int32(port), protocol))
        if not endpoints:  # version 1 has one host and port only
            host, port = text(require(value, "host", what)), int32(require(value, "port", what))
            endpoints.append(RegisteredEndpoint("PLAINTEXT", host, port))
        rack, host_id = value.get("rack"), value.get(HOST_ID)
        return cls(
            broker_id=broker_id,
            endpoints=tuple(endpoints),
            timestamp_ms=int(value.get("timestamp", -1)),
            rack=None if rack is None else text(rack),
            jmx_port=int(value.get("jmx_port", -1)),
            features=value.get("features") or {},
            host_id=None if host_id is None else text(host_id),
        )


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def encode_cluster_id(cluster_id: str) -> bytes:
    return encode_json({"version": "1", "id": cluster_id})


@one_error
def decode_cluster_id(data: bytes) -> str:
    return str(require(decode_json(data, CLUSTER_ID), "id", CLUSTER_ID))


def encode_controller(broker_id: int, timestamp_ms: int) -> bytes:
    return encode_json(
        {
            "version": CONTROLLER_VERSION,
            "brokerid": broker_id,
            "timestamp": str(timestamp_ms),
            "kraftControllerEpoch": -1,
        }
    )


@one_error
def decode_controller(data: bytes) -> int:
    """Return the broker id of the controller."""
    return int(require(decode_json(data, CONTROLLER), "brokerid", CONTROLLER))


def encode_controller_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


@one_error
def decode_controller_epoch(data: bytes) -> int:
    return int(data)


@dataclass(frozen=True, slots=True)
class FinalizedFeatures:
    """/feature. `levels` by feature; they apply only while features are enabled."""

    levels: Mapping[str, int] = field(default_factory=dict)
    is_enabled: bool = True

    def encode(self, *, with_minimum: bool = False) -> bytes:
        """`with_minimum` writes the form from before KIP-778, for brokers of that time."""
        levels: dict[str, Any] = dict(self.levels)
        if with_minimum:
            levels = {name: {"min_version_level": 1, "max_version_level": level} for name, level in levels.items()}
        return encode_json({"features": levels, "version": 1 if with_minimum else 2, "status": int(self.is_enabled)})

    @classmethod
    @one_error
    def decode(cls, data: bytes) -> FinalizedFeatures:
        value = decode_json(data, FEATURE)
        levels = {
            str(name): int(level["max_version_level"] if isinstance(level, dict) else level)
            for name, level in (value.get("features") or {}).items()
        }
        return cls(levels, int(require(value, "status", FEATURE)) == 1)


# --- topics and partitions ---


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """The replicas of a partition; `adding` and `removing` are not empty while it is reassigned."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the reassignment."""
        return tuple(each for each in self.replicas if each not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after it."""
        return tuple(each for each in self.replicas if each not in self.removing)


def _ids(values: Iterable[Any]) -> tuple[int, ...]:
    return tuple(map(int, values))


@lru_cache(maxsize=SHARED_MAX)
def _broker_ids(ids: tuple[int, ...]) -> tuple[int, ...]:
    """Return the replicas without repetitions."""
    return tuple(dict.fromkeys(map(int32, ids)))


@lru_cache(maxsize=SHARED_MAX)
def _assignment(replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]) -> ReplicaAssignment:
    """Return one shared object for equal assignments."""
    return ReplicaAssignment(_broker_ids(replicas), _broker_ids(adding), _broker_ids(removing))


@dataclass(frozen=True, slots=True)
class TopicRegistration:
    """/brokers/topics/T. A topic created by an old writer has no id until the controller gives it one."""

    topic_id: bytes
    assignments: Mapping[int, ReplicaAssignment]

    def encode(self) -> bytes:
        def numbered(pick: str) -> dict[str, list[int]]:
            lists = {str(index): list(getattr(each, pick)) for index, each in self.assignments.items()}
            if pick != "replicas":  # a map of its own over there, with a table for those that it has
                lists = {key: ids for key, ids in lists.items() if ids}
            return {key: lists[key] for key in scala_map_order(lists)}

        values: dict[str, Any] = {"partitions": numbered("replicas")}
        if self.topic_id != ZERO_UUID:
            values["topic_id"] = uuid_to_text(self.topic_id)
        values["adding_replicas"] = numbered("adding")
        values["removing_replicas"] = numbered("removing")
        values["version"] = TOPIC_VERSION_WITHOUT_ID if self.topic_id == ZERO_UUID else TOPIC_VERSION
        return encode_json(values)

    @classmethod
    @one_error
    def decode(cls, topic: str, data: bytes) -> TopicRegistration:
        what = topic_path(topic)
        value = decode_json(data, what)
        adding, removing = value.get("adding_replicas") or {}, value.get("removing_replicas") or {}
        assignments = {
            int32(index): _assignment(_ids(replicas), _ids(adding.get(index, ())), _ids(removing.get(index, ())))
            for index, replicas in require(value, "partitions", what).items()
        }
        topic_id = value.get("topic_id")
        return cls(uuid_from_text(topic_id) if topic_id else ZERO_UUID, dict(sorted(assignments.items())))


@dataclass(frozen=True, slots=True)
class PartitionState:
    """/brokers/topics/T/partitions/P/state. `partition_epoch` is the node's version and not part of its data.
    `leader_recovery_state` is RECOVERING from an unclean election until its leader next changes the ISR (KIP-704)."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    partition_epoch: int = 0
    leader_recovery_state: int = RECOVERED

    @lru_cache(maxsize=SHARED_MAX)  # noqa: B019 (a value, and a bounded number of them: no instance is kept for long)
    def encode(self) -> bytes:
        recovery = {"leader_recovery_state": self.leader_recovery_state}
        return encode_json(
            {
                "controller_epoch": self.controller_epoch,
                "leader": self.leader,
                "version": 1,
                **({} if self.leader_recovery_state == RECOVERED else recovery),
                "leader_epoch": self.leader_epoch,
                "isr": list(self.isr),
            }
        )

    @classmethod
    @lru_cache(maxsize=SHARED_MAX)
    @one_error
    def decode(cls, data: bytes, partition_epoch: int) -> PartitionState:
        """Decode a state; returns the same object for the same data."""
        what = "partition state"
        value = decode_json(data, what)
        recovery = int(value.get("leader_recovery_state", RECOVERED))
        if recovery not in (RECOVERED, RECOVERING):
            raise ValueError(f"{what}: {recovery} is no recovery state")
        return cls(
            leader=int32(require(value, "leader", what)),
            leader_epoch=int32(require(value, "leader_epoch", what)),
            isr=_broker_ids(_ids(require(value, "isr", what))),
            controller_epoch=int32(require(value, "controller_epoch", what)),
            partition_epoch=partition_epoch,
            leader_recovery_state=recovery,
        )


@lru_cache(maxsize=SHARED_MAX)
def shared(state: PartitionState) -> PartitionState:
    """Return one shared object for equal states."""
    return state


# --- requests and notifications about partitions ---


def _topic_partitions(value: Mapping[str, Any], what: str) -> list[Mapping[str, Any]]:
    rows = require(value, "partitions", what)
    if not isinstance(rows, list):
        raise ValueError(f"{what}: partitions is no list")  # noqa: TRY004 (one error for every bad node)
    for row in rows:
        require(row, "topic", what)
        require(row, "partition", what)
    return rows


def encode_topic_partitions(topic_partitions: Iterable[TopicPartition]) -> bytes:
    """/admin/preferred_replica_election, and the children of /isr_change_notification."""
    rows = [{"topic": name, "partition": partition} for name, partition in topic_partitions]
    return encode_json({"version": 1, "partitions": rows})


@one_error
def decode_topic_partitions(data: bytes) -> list[TopicPartition]:
    what = "list of partitions"
    return [(str(row["topic"]), int(row["partition"])) for row in _topic_partitions(decode_json(data, what), what)]


def encode_reassignments(targets: Mapping[TopicPartition, Sequence[int]]) -> bytes:
    """/admin/reassign_partitions: the target replicas of each partition."""
    rows = [
        {"topic": name, "partition": partition, "replicas": list(replicas)}
        for (name, partition), replicas in targets.items()
    ]
    return encode_json({"version": 1, "partitions": rows})


@one_error
def decode_reassignments(data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    rows = _topic_partitions(decode_json(data, REASSIGNMENTS), REASSIGNMENTS)
    return {
        (str(row["topic"]), int(row["partition"])): tuple(map(int32, require(row, "replicas", REASSIGNMENTS)))
        for row in rows
    }


def encode_log_dir_event(broker_id: int) -> bytes:
    """A log directory of `broker_id` has failed."""
    return encode_json({"version": 1, "broker": broker_id, "event": 1})


@one_error
def decode_log_dir_event(data: bytes) -> int:
    return int(require(decode_json(data, LOG_DIR_EVENTS), "broker", LOG_DIR_EVENTS))


# --- settings ---


def encode_config(config: Mapping[str, str]) -> bytes:
    return encode_json({"version": 1, "config": {key: config[key] for key in java_map_order(config)}})


@one_error
def decode_config(data: bytes) -> dict[str, str]:
    """Decode settings; empty data has none: the node may have been created before its content."""
    if not data:
        return {}
    config = decode_json(data, CONFIG).get("config") or {}
    return {str(key): str(value) for key, value in config.items()}


def encode_config_change(entity_path: str) -> bytes:
    """`entity_path` as in "topics/orders" or "clients/<default>"."""
    return encode_json({"version": 2, "entity_path": entity_path})


@one_error
def decode_config_change(data: bytes) -> str:
    """Return the entity's path; version 1 has type and entity in two fields."""
    value = decode_json(data, CONFIG_CHANGES)
    if "entity_path" in value:
        return str(value["entity_path"])
    entity_type = require(value, "entity_type", CONFIG_CHANGES)
    return f"{entity_type}/{require(value, 'entity_name', CONFIG_CHANGES)}"


# --- producer ids ---


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """/latest_producer_id_block: the ids [first, end) belong to `broker_id`."""

    broker_id: int
    first: int
    end: int

    def encode(self) -> bytes:
        return encode_json(
            {"version": 1, "broker": self.broker_id, "block_start": str(self.first), "block_end": str(self.end - 1)}
        )

    @classmethod
    @one_error
    def decode(cls, data: bytes) -> ProducerIdBlock:
        value = decode_json(data, PRODUCER_ID_BLOCK)
        first = int(require(value, "block_start", PRODUCER_ID_BLOCK))
        end = int(require(value, "block_end", PRODUCER_ID_BLOCK)) + 1
        return cls(int(require(value, "broker", PRODUCER_ID_BLOCK)), first, end)


def numbers_among(names: Iterable[str]) -> list[int]:
    """The ids among the children of a node, sorted; other names are ignored."""
    return sorted(number for name in names if name.isascii() and name.isdigit() and (number := int(name)) <= INT32_MAX)
