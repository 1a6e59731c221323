"""Every node as read off a running Apache Kafka 3.9.1 cluster: encoded byte for byte, and decoded."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.store import znode_json, znodes
from metadata.store.znodes import (
    BrokerRegistration,
    PartitionState,
    ProducerIdBlock,
    RegisteredEndpoint,
    ReplicaAssignment,
    TopicRegistration,
)
from protocol.primitives import ZERO_UUID, uuid_from_text

BROKER = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
    b'"endpoints":["PLAINTEXT://127.0.0.1:9192"],"jmx_port":-1,"port":9192,"host":"127.0.0.1","version":5,'
    b'"timestamp":"1795246860390"}'
)
ORDERS = (
    b'{"partitions":{"0":[1,2,3],"1":[2,3,1],"2":[3,1,2]},"topic_id":"anaCKcpCR9G3GnvzdH63Bw",'
    b'"adding_replicas":{},"removing_replicas":{},"version":3}'
)
STATE = b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":0,"isr":[2,3,1]}'


def test_broker() -> None:
    broker = BrokerRegistration(1, (RegisteredEndpoint("PLAINTEXT", "127.0.0.1", 9192),), 1795246860390)
    assert broker.encode() == BROKER
    assert BrokerRegistration.decode(1, BROKER) == broker


def test_broker_with_rack_and_two_listeners() -> None:
    broker = BrokerRegistration(
        3,
        (RegisteredEndpoint("INSIDE", "::1", 9092, "SASL_SSL"), RegisteredEndpoint("OUTSIDE", "host", 9093)),
        5,
        rack="r1",
    )
    assert BrokerRegistration.decode(3, broker.encode()) == broker
    assert b'"endpoints":["INSIDE://[::1]:9092","OUTSIDE://host:9093"],"rack":"r1","jmx_port":-1,"port":9093' in (
        broker.encode()
    )


def test_brokers_of_older_versions_are_read() -> None:
    old = BrokerRegistration.decode(7, b'{"version":1,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1"}')
    assert old.endpoints == (RegisteredEndpoint("PLAINTEXT", "h", 9092),)


def test_topic() -> None:
    topic = TopicRegistration(
        uuid_from_text("anaCKcpCR9G3GnvzdH63Bw"),
        {0: ReplicaAssignment((1, 2, 3)), 1: ReplicaAssignment((2, 3, 1)), 2: ReplicaAssignment((3, 1, 2))},
    )
    assert topic.encode() == ORDERS
    assert TopicRegistration.decode("orders", ORDERS) == topic


def test_a_reassignment_is_kept() -> None:
    topic = TopicRegistration(
        uuid_from_text("anaCKcpCR9G3GnvzdH63Bw"), {0: ReplicaAssignment((1, 2), (2,), (1,)), 1: ReplicaAssignment((1,))}
    )
    assert b'"adding_replicas":{"0":[2]},"removing_replicas":{"0":[1]}' in topic.encode()
    assert TopicRegistration.decode("t", topic.encode()) == topic


def test_partitions_stand_in_the_order_of_the_cluster() -> None:
    """As /brokers/topics/__consumer_offsets of a running cluster begins, and one of 6."""
    fifty = TopicRegistration(ZERO_UUID, {each: ReplicaAssignment((1,)) for each in range(50)})
    expected = [*range(44, 50), *range(10, 20), *range(10), *range(20, 44)]
    partitions = ",".join(f'"{each}":[1]' for each in expected)
    assert fifty.encode().startswith(f'{{"partitions":{{{partitions}}}'.encode())
    six = TopicRegistration(ZERO_UUID, {each: ReplicaAssignment((1,)) for each in range(6)})
    assert six.encode().startswith(b'{"partitions":{"0":[1],"1":[1],"2":[1],"3":[1],"4":[1],"5":[1]}')


def test_a_topic_without_an_id_is_read() -> None:
    topic = TopicRegistration.decode("t", b'{"version":1,"partitions":{"0":[1]}}')
    assert topic == TopicRegistration(ZERO_UUID, {0: ReplicaAssignment((1,))})


def test_partition_state() -> None:
    state = PartitionState(2, 0, (2, 3, 1), 1, partition_epoch=4)
    assert state.encode() == STATE
    assert PartitionState.decode(STATE, 4) == state


def test_cluster_controller_feature_and_producer_ids() -> None:
    assert znodes.encode_cluster_id("6I4sfbqFSMSZpT7DOEPG2Q") == b'{"version":"1","id":"6I4sfbqFSMSZpT7DOEPG2Q"}'
    assert znodes.decode_cluster_id(b'{"version":"1","id":"x"}') == "x"
    controller = b'{"version":2,"brokerid":1,"timestamp":"1795246860464","kraftControllerEpoch":-1}'
    assert znodes.encode_controller(1, 1795246860464) == controller
    assert znodes.decode_controller(controller) == 1
    assert znodes.FinalizedFeatures().encode() == b'{"features":{},"version":2,"status":1}'
    block = b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}'
    assert ProducerIdBlock(1, 0, 1_000).encode() == block
    assert ProducerIdBlock.decode(block) == ProducerIdBlock(1, 0, 1_000)


@pytest.mark.parametrize(
    ("config", "data"),
    [
        ({}, b'{"version":1,"config":{}}'),
        ({"log.cleaner.threads": "2"}, b'{"version":1,"config":{"log.cleaner.threads":"2"}}'),
        (
            {"min.insync.replicas": "2", "cleanup.policy": "compact"},
            b'{"version":1,"config":{"cleanup.policy":"compact","min.insync.replicas":"2"}}',
        ),
        (
            {"cleanup.policy": "compact", "segment.bytes": "104857600", "compression.type": "producer"},
            b'{"version":1,"config":{"compression.type":"producer","cleanup.policy":"compact",'
            b'"segment.bytes":"104857600"}}',
        ),
        (
            {"consumer_byte_rate": "2000000", "producer_byte_rate": "1000000", "SCRAM-SHA-256": "s"},
            b'{"version":1,"config":{"SCRAM-SHA-256":"s","producer_byte_rate":"1000000",'
            b'"consumer_byte_rate":"2000000"}}',
        ),
    ],
)
def test_config(config: dict[str, str], data: bytes) -> None:
    assert znodes.encode_config(config) == data
    assert znodes.decode_config(data) == config


def test_config_change() -> None:
    data = b'{"version":2,"entity_path":"clients/<default>"}'
    assert znodes.encode_config_change("clients/<default>") == data
    assert znodes.decode_config_change(data) == "clients/<default>"
    assert znodes.decode_config_change(b'{"version":1,"entity_type":"topics","entity_name":"a"}') == "topics/a"


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"partitions":3'])
def test_what_is_no_node_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="topics/t"):
        TopicRegistration.decode("t", data)
    with pytest.raises(ValueError, match="partition state"):
        PartitionState.decode(data, 0)


LARGE = 1 << 31
"""More than a request between brokers can say."""


@pytest.mark.parametrize(
    "data",
    [
        b'{"partitions":{"0":[1,%d]}}' % LARGE,
        b'{"partitions":{"%d":[1]}}' % LARGE,
        b'{"partitions":{"0":[1]},"adding_replicas":{"0":[%d]}}' % LARGE,
    ],
)
def test_a_topic_that_nobody_could_be_told_of_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="too large"):
        TopicRegistration.decode("t", data)


@pytest.mark.parametrize("key", ["leader", "leader_epoch", "controller_epoch", "isr", "leader_recovery_state"])
def test_a_state_that_nobody_could_be_told_of_is_refused(key: str) -> None:
    whole = {"leader": 1, "leader_epoch": 0, "isr": [1], "controller_epoch": 1, "leader_recovery_state": 0}
    data = json.dumps({**whole, key: [LARGE] if key == "isr" else LARGE}).encode()
    with pytest.raises(ValueError, match=r"large|recovery"):
        PartitionState.decode(data, 0)


@pytest.mark.parametrize(
    "odd",
    [
        {"rack": 5},
        {"barnabas_host_id": ["m"]},
        {"endpoints": [f"PLAINTEXT://h:{LARGE}"]},
        {"listener_security_protocol_map": {"PLAINTEXT": ["SSL"]}},
        {"endpoints": [], "host": 5, "port": 9092},
    ],
)
def test_a_broker_that_nobody_could_be_told_of_is_refused(odd: dict[str, object]) -> None:
    whole = {"version": 5, "endpoints": ["PLAINTEXT://h:9092"], "timestamp": "1"}
    assert BrokerRegistration.decode(1, json.dumps(whole).encode()).rack is None
    with pytest.raises(ValueError, match=r"\w"):
        BrokerRegistration.decode(1, json.dumps({**whole, **odd}).encode())


def test_a_replica_named_twice_is_one_replica() -> None:
    assert TopicRegistration.decode("t", b'{"partitions":{"0":[2,1,2]}}').assignments[0].replicas == (2, 1)
    state = PartitionState.decode(b'{"leader":1,"leader_epoch":0,"isr":[1,1],"controller_epoch":1}', 0)
    assert state.isr == (1,)
    wish = b'{"partitions":[{"topic":"a","partition":0,"replicas":[1,1]}]}'
    assert znodes.decode_reassignments(wish) == {("a", 0): (1, 1)}, "what is wished is for others to refuse"
    with pytest.raises(ValueError, match="too large"):
        znodes.decode_reassignments(b'{"partitions":[{"topic":"a","partition":0,"replicas":[%d]}]}' % LARGE)


def test_what_moves_stands_in_the_order_of_a_map_of_its_own() -> None:
    """Of Apache Kafka's maps each has a table for what it holds: two keys stand in another order there than among a hundred."""
    moving = ReplicaAssignment((2, 1), adding=(2,), removing=(1,))
    assignments = {index: moving if index in (0, 10) else ReplicaAssignment((1,)) for index in range(100)}
    whole = json.loads(TopicRegistration(ZERO_UUID, assignments).encode())
    for key in ("adding_replicas", "removing_replicas"):
        assert list(whole[key]) == znode_json.scala_map_order(["0", "10"])
    assert [key for key in whole["partitions"] if key in ("0", "10")] != znode_json.scala_map_order(["0", "10"])


def test_numbers_among_other_names() -> None:
    assert znodes.numbers_among(["10", "2", "x", "-1", "\u00b2", str(LARGE)]) == [2, 10]


@given(st.text())
def test_java_hash_is_javas(text: str) -> None:
    value = 0
    for unit in text.encode("utf-16-be").hex(" ", 2).split():
        value = (value * 31 + int(unit, 16)) % (1 << 32)
    assert znode_json.java_hash(text) == value


def test_known_java_hashes() -> None:
    assert znode_json.java_hash("") == 0
    assert znode_json.java_hash("hello") == 99162322


@given(st.lists(st.text(), unique=True, max_size=200))
def test_map_orders_are_permutations(keys: list[str]) -> None:
    assert sorted(znode_json.scala_map_order(keys)) == sorted(keys)
    assert sorted(znode_json.java_map_order(keys)) == sorted(keys)


def test_wishes_and_notifications_about_partitions() -> None:
    keys = [("a", 0), ("b", 3)]
    data = znodes.encode_topic_partitions(keys)
    assert data == b'{"version":1,"partitions":[{"topic":"a","partition":0},{"topic":"b","partition":3}]}'
    assert znodes.decode_topic_partitions(data) == keys
    targets = {("a", 0): (1, 2)}
    data = znodes.encode_reassignments(targets)
    assert data == b'{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1,2]}]}'
    assert znodes.decode_reassignments(data) == targets
    assert znodes.encode_log_dir_event(4) == b'{"version":1,"broker":4,"event":1}'
    assert znodes.decode_log_dir_event(znodes.encode_log_dir_event(4)) == 4


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"partitions":{}}', b'{"partitions":[{"topic":"a"}]}'])
def test_unreadable_wishes(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        znodes.decode_reassignments(data)
    with pytest.raises(ValueError, match=r"\w"):
        znodes.decode_topic_partitions(data)


def test_a_state_after_an_unclean_election() -> None:
    state = znodes.PartitionState(1, 3, (1,), 2, 0, znodes.RECOVERING)
    data = state.encode()
    assert data == (
        b'{"controller_epoch":2,"leader":1,"version":1,"leader_recovery_state":1,"leader_epoch":3,"isr":[1]}'
    )
    assert znodes.PartitionState.decode(data, 0) == state


def test_a_broker_s_machine_is_told_beside_what_apache_kafka_reads() -> None:
    endpoint = znodes.RegisteredEndpoint("PLAINTEXT", "h", 9092)
    known = znodes.BrokerRegistration(1, (endpoint,), 5, rack="r", host_id="m")
    assert b'"barnabas_host_id":"m"' in known.encode()
    assert znodes.BrokerRegistration.decode(1, known.encode()) == known
    assert b"host_id" not in znodes.BrokerRegistration(1, (endpoint,), 5).encode()


def test_equal_partitions_are_one_object() -> None:
    assert PartitionState.decode(STATE, 3) is PartitionState.decode(bytes(bytearray(STATE)), 3)
    assert PartitionState.decode(STATE, 3) != PartitionState.decode(STATE, 4)
    state = PartitionState.decode(STATE, 0)
    assert PartitionState(2, 0, (2, 3, 1), 1).encode() is state.encode()
    alike = TopicRegistration.decode("t", b'{"partitions":{"0":[1,2],"1":[1,2]}}').assignments
    assert alike[0] is alike[1]


def test_a_small_map_keeps_its_order_and_a_large_one_has_that_of_hashes() -> None:
    """As Apache Kafka 3.9.1 wrote listener_security_protocol_map."""
    assert znode_json.scala_immutable_map_order(["E", "C", "A", "B"]) == ["E", "C", "A", "B"]
    assert znode_json.scala_immutable_map_order(["E", "C", "A", "B", "D"]) == ["E", "A", "B", "C", "D"]
    names = ["REPLICATION", "F", "C", "A", "INTERNAL", "INSIDE"]
    assert znode_json.scala_immutable_map_order(names) == ["A", "REPLICATION", "F", "INSIDE", "C", "INTERNAL"]
    assert znode_json.scala_immutable_map_order(["Aa", "BB", *"ABC"])[-2:] == ["Aa", "BB"], "equal hashes"
