"""Every node of the tree that this broker reads or writes: its path, and its data, byte for byte as Apache Kafka 3.9.

Rules: pure. Encoders write JSON without spaces, keys in the order in which Apache Kafka's encoder happens to walk its
maps, so that a tree written here cannot be told from one written there. Decoders take any order, ignore unknown keys,
and accept every version of a node that a running cluster may still hold. `ValueError` means the data is no such node.

Order of keys: fixed maps stand as read off a running cluster. Maps that grow (partitions, settings, a broker's
description) are hash maps over there, so their order follows from Java's string hash; see `java_hash_order`.
Source: Kafka ZkData; ids in base64 as KIP-516.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from protocol.primitives import ZERO_UUID, uuid_from_text, uuid_to_text

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
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
TOPICS = "/brokers/topics"

ENTITY_TYPES = ("topics", "clients", "users", "brokers", "ips")

# What every broker makes sure of at its start, in Apache Kafka's order.
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
TOPIC_VERSION = 3
TOPIC_VERSION_WITHOUT_ID = 2
INITIAL_CONTROLLER_EPOCH = 0


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
    """Created sequentially: the counter follows."""
    return f"{CONFIG_CHANGES}/config_change_"


def offset_path(group: str, topic: str, partition: int) -> str:
    """Where OffsetCommit and OffsetFetch of version 0 keep an offset, as decimal text."""
    return f"{CONSUMERS}/{group}/offsets/{topic}/{partition}"


# --- JSON ---


def java_hash(text: str) -> int:
    """Java's String.hashCode, as an unsigned number: over UTF-16 units."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value


def _spread(text: str) -> int:
    value = java_hash(text)
    return value ^ (value >> 16)


def _signed(value: int) -> int:
    return value - (1 << 32) if value & 0x80000000 else value


def scala_map_order(keys: Iterable[str]) -> list[str]:
    """The order in which a Scala mutable.HashMap walks `keys`: by bucket of a table of 16 that doubles when adding
    would fill three quarters, and by hash within a bucket."""
    names = list(keys)
    buckets = 16
    while len(names) >= buckets * 3 // 4:
        buckets *= 2
    return sorted(names, key=lambda name: (_spread(name) & (buckets - 1), _signed(_spread(name))))


def java_map_order(keys: Iterable[str]) -> list[str]:
    """The order in which a Java Properties walks `keys`: by bucket of a table of 16 that doubles at three quarters, in
    order of insertion within a bucket."""
    names = list(keys)
    buckets = 16
    while len(names) >= buckets * 3 // 4:
        buckets *= 2
    return sorted(names, key=lambda name: _spread(name) & (buckets - 1))


def _encode(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _decode(data: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError as error:
        raise ValueError(f"{what}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{what}: a JSON object was expected")  # noqa: TRY004 (one error for every bad node)
    return value


def _require(value: Mapping[str, Any], key: str, what: str) -> Any:
    if key not in value:
        raise ValueError(f"{what}: {key} is missing")
    return value[key]


# --- brokers, cluster, controller ---


@dataclass(frozen=True, slots=True)
class RegisteredEndpoint:
    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """/brokers/ids/N. `endpoints` keep their order; the first PLAINTEXT one fills the fields of old clients."""

    broker_id: int
    endpoints: tuple[RegisteredEndpoint, ...]
    timestamp_ms: int
    rack: str | None = None
    jmx_port: int = -1
    features: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def encode(self) -> bytes:
        plaintext = next((each for each in self.endpoints if each.security_protocol == "PLAINTEXT"), None)
        values: dict[str, Any] = {
            "version": BROKER_VERSION,
            "host": plaintext.host if plaintext else None,
            "port": plaintext.port if plaintext else -1,
            "jmx_port": self.jmx_port,
            "timestamp": str(self.timestamp_ms),
            "endpoints": [f"{each.listener}://{_url_host(each.host)}:{each.port}" for each in self.endpoints],
            "listener_security_protocol_map": {each.listener: each.security_protocol for each in self.endpoints},
            "features": {name: dict(levels) for name, levels in self.features.items()},
        }
        if self.rack is not None:
            values["rack"] = self.rack
        return _encode({key: values[key] for key in scala_map_order(values)})

    @classmethod
    def decode(cls, broker_id: int, data: bytes) -> BrokerRegistration:
        what = broker_path(broker_id)
        value = _decode(data, what)
        protocols = value.get("listener_security_protocol_map") or {}
        endpoints = []
        for text in value.get("endpoints") or []:
            listener, separator, rest = text.partition("://")
            host, colon, port = rest.rpartition(":")
            if not separator or not colon or not port.lstrip("-").isdigit():
                raise ValueError(f"{what}: endpoint {text!r} is not listener://host:port")
            protocol = protocols.get(listener, listener)
            endpoints.append(RegisteredEndpoint(listener, host.strip("[]"), int(port), protocol))
        if not endpoints:  # version 1 knows one host and port only
            host, port = _require(value, "host", what), int(_require(value, "port", what))
            endpoints.append(RegisteredEndpoint("PLAINTEXT", host, port))
        return cls(
            broker_id=broker_id,
            endpoints=tuple(endpoints),
            timestamp_ms=int(value.get("timestamp", -1)),
            rack=value.get("rack"),
            jmx_port=int(value.get("jmx_port", -1)),
            features=value.get("features") or {},
        )


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def encode_cluster_id(cluster_id: str) -> bytes:
    return _encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    return str(_require(_decode(data, CLUSTER_ID), "id", CLUSTER_ID))


def encode_controller(broker_id: int, timestamp_ms: int) -> bytes:
    return _encode(
        {
            "version": CONTROLLER_VERSION,
            "brokerid": broker_id,
            "timestamp": str(timestamp_ms),
            "kraftControllerEpoch": -1,
        }
    )


def decode_controller(data: bytes) -> int:
    """The id of the broker that controls."""
    return int(_require(_decode(data, CONTROLLER), "brokerid", CONTROLLER))


def encode_controller_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


def decode_controller_epoch(data: bytes) -> int:
    return int(data)


def encode_feature() -> bytes:
    """No finalized features, enabled."""
    return _encode({"features": {}, "version": 2, "status": 1})


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


@dataclass(frozen=True, slots=True)
class TopicRegistration:
    """/brokers/topics/T. A topic made by an old or foreign writer has no id until the controller gives it one."""

    topic_id: bytes
    assignments: Mapping[int, ReplicaAssignment]

    def encode(self) -> bytes:
        def numbered(pick: str) -> dict[str, list[int]]:
            lists = {str(index): list(getattr(each, pick)) for index, each in self.assignments.items()}
            return {key: lists[key] for key in scala_map_order(lists) if lists[key] or pick == "replicas"}

        values: dict[str, Any] = {"partitions": numbered("replicas")}
        if self.topic_id != ZERO_UUID:
            values["topic_id"] = uuid_to_text(self.topic_id)
        values["adding_replicas"] = numbered("adding")
        values["removing_replicas"] = numbered("removing")
        values["version"] = TOPIC_VERSION_WITHOUT_ID if self.topic_id == ZERO_UUID else TOPIC_VERSION
        return _encode(values)

    @classmethod
    def decode(cls, topic: str, data: bytes) -> TopicRegistration:
        what = topic_path(topic)
        value = _decode(data, what)
        adding, removing = value.get("adding_replicas") or {}, value.get("removing_replicas") or {}
        assignments = {
            int(index): ReplicaAssignment(tuple(replicas), tuple(adding.get(index, ())), tuple(removing.get(index, ())))
            for index, replicas in _require(value, "partitions", what).items()
        }
        topic_id = value.get("topic_id")
        return cls(uuid_from_text(topic_id) if topic_id else ZERO_UUID, dict(sorted(assignments.items())))


@dataclass(frozen=True, slots=True)
class PartitionState:
    """/brokers/topics/T/partitions/P/state. `partition_epoch` is the node's version and not part of its data."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    partition_epoch: int = 0

    def encode(self) -> bytes:
        return _encode(
            {
                "controller_epoch": self.controller_epoch,
                "leader": self.leader,
                "version": 1,
                "leader_epoch": self.leader_epoch,
                "isr": list(self.isr),
            }
        )

    @classmethod
    def decode(cls, data: bytes, partition_epoch: int) -> PartitionState:
        what = "partition state"
        value = _decode(data, what)
        return cls(
            leader=int(_require(value, "leader", what)),
            leader_epoch=int(_require(value, "leader_epoch", what)),
            isr=tuple(_require(value, "isr", what)),
            controller_epoch=int(_require(value, "controller_epoch", what)),
            partition_epoch=partition_epoch,
        )


# --- settings ---


def encode_config(config: Mapping[str, str]) -> bytes:
    return _encode({"version": 1, "config": {key: config[key] for key in java_map_order(config)}})


def decode_config(data: bytes) -> dict[str, str]:
    """Empty data counts as no settings: the node may have been made before its content."""
    if not data:
        return {}
    config = _decode(data, CONFIG).get("config") or {}
    return {str(key): str(value) for key, value in config.items()}


def encode_config_change(entity_path: str) -> bytes:
    """`entity_path` as in "topics/orders" or "clients/<default>"."""
    return _encode({"version": 2, "entity_path": entity_path})


def decode_config_change(data: bytes) -> str:
    """The entity's path; version 1 names type and entity apart."""
    value = _decode(data, CONFIG_CHANGES)
    if "entity_path" in value:
        return str(value["entity_path"])
    entity_type = _require(value, "entity_type", CONFIG_CHANGES)
    return f"{entity_type}/{_require(value, 'entity_name', CONFIG_CHANGES)}"


# --- producer ids ---


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """/latest_producer_id_block: the ids [first, end) belong to `broker_id`."""

    broker_id: int
    first: int
    end: int

    def encode(self) -> bytes:
        return _encode(
            {"version": 1, "broker": self.broker_id, "block_start": str(self.first), "block_end": str(self.end - 1)}
        )

    @classmethod
    def decode(cls, data: bytes) -> ProducerIdBlock:
        value = _decode(data, PRODUCER_ID_BLOCK)
        first = int(_require(value, "block_start", PRODUCER_ID_BLOCK))
        end = int(_require(value, "block_end", PRODUCER_ID_BLOCK)) + 1
        return cls(int(_require(value, "broker", PRODUCER_ID_BLOCK)), first, end)


def partition_indexes(names: Sequence[str]) -> list[int]:
    """The numbers among the children of a `partitions` node, sorted."""
    return sorted(int(name) for name in names if name.isdigit())
