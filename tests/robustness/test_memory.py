"""Resident memory under clients that mean harm, or know no better: under 150 MB always, under 60 MB idle."""

from __future__ import annotations

import contextlib
import os
import select
import struct
import threading
import time
import urllib.request
import zlib
from collections.abc import Callable
from pathlib import Path

import crc32c
import pytest
import zstandard

from protocol.codec.bounds import heaviest_element
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from protocol.records.batch import read_header
from protocol.records.compression import Compression
from protocol.schema import MAX_ELEMENTS, Request
from protocol.varint import encode_varint
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until
from tests.robustness.bounds import MOST_BYTES, bounded
from tests.robustness.process import BrokerProcess, MiB
from tests.robustness.wire import (
    FETCH_V,
    PRODUCE_V,
    Wire,
    answers_within_ms,
    batch_of,
    create_topic,
    fetch_of,
    find_coordinator,
    produce_of,
    topics_of,
)

IDLE_BYTES = 60 * MiB
PATIENCE_S = 60.0
PARTITIONS = 4
RECORD_BYTES = 1_000_000
MEMBERS = 100
METADATA_BYTES = 900_000
JOIN_V = 3


pytestmark = pytest.mark.usefixtures("many_files")


def fill(broker: BrokerProcess, topic: str, records: int) -> None:
    create_topic(broker, topic, PARTITIONS)
    batch = batch_of(os.urandom(RECORD_BYTES))
    with Wire(broker) as wire:
        for index in range(records):
            answer = wire.ask(produce_of(topic, batch, index % PARTITIONS), PRODUCE_V)
            assert answer.responses[0].partition_responses[0].error_code == 0


def together(count: int, run: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001  raised again below
            errors.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_idle(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        answers_within_ms(broker)
        assert broker.rss_bytes() < IDLE_BYTES


def test_length_prefixes_without_a_request(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker, contextlib.ExitStack() as stack, bounded(broker):
        wires = [stack.enter_context(Wire(broker)) for _ in range(1000)]
        begun = wires[0].frame(produce_of("t", b""), PRODUCE_V)[4:30]
        for wire in wires:
            wire.socket.sendall(struct.pack(">i", 100 * MiB))
        for wire in wires:
            wire.socket.sendall(begun)


def test_readers_that_never_read(tmp_path: Path) -> None:
    """Each asks for a batch that is read into memory, because it is longer than what it asks for."""
    with BrokerProcess(tmp_path) as broker:
        fill(broker, "big", 40)
        with contextlib.ExitStack() as stack, bounded(broker):
            wires = [stack.enter_context(Wire(broker, receive_buffer_bytes=4096)) for _ in range(200)]
            for _ in range(5):
                for wire in wires:
                    with contextlib.suppress(ConnectionError):  # some are cut off
                        wire.send(fetch_of("big", partitions=PARTITIONS, max_bytes=1000), FETCH_V)
            assert wait_until(lambda: "its responses, which it does not read" in broker.log, PATIENCE_S)
            with Wire(broker) as good:
                answer = good.ask(fetch_of("big", partitions=PARTITIONS, max_bytes=1000), FETCH_V)
                assert answer.responses[0].partitions[0].records


def test_readers_that_never_read_what_leaves_from_the_page_cache(tmp_path: Path) -> None:
    """It takes no memory, so nobody is cut off for it."""
    with BrokerProcess(tmp_path) as broker:
        fill(broker, "big", 40)
        with contextlib.ExitStack() as stack, bounded(broker):
            wires = [stack.enter_context(Wire(broker, receive_buffer_bytes=4096)) for _ in range(200)]
            for _ in range(5):
                for wire in wires:
                    wire.send(fetch_of("big", partitions=PARTITIONS), FETCH_V)
            with Wire(broker) as good:
                answer = good.ask(fetch_of("big", partitions=PARTITIONS), FETCH_V)
                assert len(answer.responses[0].partitions[0].records) > RECORD_BYTES
            assert "its responses, which it does not read" not in broker.log


def test_one_connection_pipelines_fetches_and_never_reads(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        fill(broker, "big", 8)
        with bounded(broker), Wire(broker, receive_buffer_bytes=4096) as wire:
            wire.send(fetch_of("big", offset=2, wait_ms=1_000), FETCH_V)  # parked: those behind it wait for it
            with contextlib.suppress(ConnectionError):
                for _ in range(400):
                    wire.send(fetch_of("big"), FETCH_V)
            time.sleep(1.2)


def test_large_fetches_together(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        fill(broker, "big", 60)

        def fetch() -> None:
            with Wire(broker) as wire:
                for _ in range(2):
                    answer = wire.ask(fetch_of("big", partitions=PARTITIONS), FETCH_V)
                    assert any(row.records for row in answer.responses[0].partitions)

        with bounded(broker):
            together(40, fetch)


def test_produce_floods(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        create_topic(broker, "t", PARTITIONS)
        batch = batch_of(os.urandom(RECORD_BYTES))

        def flood() -> None:
            with Wire(broker) as wire:
                frame = wire.frame(produce_of("t", batch), PRODUCE_V)
                for _ in range(10):
                    wire.socket.sendall(frame)
                for _ in range(10):
                    wire.receive_frame()

        with bounded(broker):
            together(40, flood)


def many_names(count: int) -> list[str]:
    return [f"name-{index}" for index in range(count)]


HUGE: dict[str, tuple[Callable[[int], Request], int]] = {
    "fetch": (
        lambda count: FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            topics=[
                FetchTopic(
                    topic="t",
                    partitions=[
                        FetchPartition(partition=1000 + index, fetch_offset=1 << 40, partition_max_bytes=1 << 20)
                        for index in range(count)
                    ],
                )
            ],
        ),
        12,
    ),
    "metadata": (
        lambda count: MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in many_names(count)], allow_auto_topic_creation=False
        ),
        9,
    ),
    "offset fetch": (
        lambda count: OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=list(range(count)))]
        ),
        7,
    ),
    "describe groups": (lambda count: DescribeGroupsRequest(groups=many_names(count)), 5),
    "delete groups": (lambda count: DeleteGroupsRequest(groups_names=many_names(count)), 2),
    "delete topics": (lambda count: DeleteTopicsRequest(topic_names=many_names(count), timeout_ms=1000), 5),
    "create topics": (
        lambda count: CreateTopicsRequest(
            topics=[
                CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
                for name in many_names(count // 4)  # each is answered by thirty elements
            ],
            timeout_ms=1000,
            validate_only=True,
        ),
        7,
    ),
    "describe configs": (
        lambda count: DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=4, resource_name="1001", configuration_keys=None)
                for _ in range(count)
            ],
            include_synonyms=True,
            include_documentation=True,
        ),
        4,
    ),
}


def largest(name: str) -> tuple[Request, int]:
    """(request, version) with as many elements as the broker takes."""
    make, version = HUGE[name]
    sample = type(make(1))
    asked, answered = heaviest_element(sample, version), heaviest_element(sample.response_type, version)
    budget = MAX_ELEMENTS // -(-(asked + answered) // asked)
    count = budget // asked - 10
    request = make(count)
    while True:
        try:
            sample.decode(request.encode(version), version, max_elements=budget)
            break
        except ValueError:
            count = count * 9 // 10
            request = make(count)
    return request, version


@pytest.mark.parametrize("name", HUGE)
def test_the_largest_request_of_an_api(tmp_path: Path, name: str) -> None:
    request, version = largest(name)
    with BrokerProcess(tmp_path) as broker, bounded(broker), Wire(broker) as wire:
        wire.send(request, version)
        wire.receive_frame()


def test_the_largest_requests_together(tmp_path: Path) -> None:
    """Each is in memory by itself, although they take turns with everybody else."""
    requests = [largest(name) for name in ("metadata", "describe groups", "delete topics") * 2]
    with BrokerProcess(tmp_path) as broker, contextlib.ExitStack() as stack, bounded(broker):
        wires = [stack.enter_context(Wire(broker)) for _ in requests]
        for wire, (request, version) in zip(wires, requests, strict=True):
            wire.send(request, version)
        for wire in wires:
            wire.receive_frame()


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD])
def test_decompression_bombs(tmp_path: Path, codec: Compression) -> None:
    """About a megabyte that stands for one record of a gigabyte of zeros."""
    value_bytes = 900 * MiB
    fields = b"\x00\x00\x00\x01" + encode_varint(value_bytes)  # attributes, two deltas, no key
    first = (encode_varint(len(fields) + value_bytes + 1) + fields).ljust(MiB, b"\x00")
    bomb = bytearray()
    if codec is Compression.GZIP:
        gzip = zlib.compressobj(9, wbits=31)
        bomb += gzip.compress(first) + gzip.flush(zlib.Z_FULL_FLUSH)
        bomb += (
            gzip.compress(bytes(MiB)) + gzip.flush(zlib.Z_FULL_FLUSH)
        ) * 900  # a full flush forgets what was before
        bomb += gzip.flush()  # its checksum and size are another stream's: nobody may come that far
        assert len(zlib.decompressobj(wbits=31).decompress(bomb, 20 * MiB)) == 20 * MiB
    else:
        zstd = zstandard.ZstdCompressor().compressobj()
        bomb += zstd.compress(first) + b"".join(zstd.compress(bytes(MiB)) for _ in range(1_000)) + zstd.flush()
    head = bytearray(batch_of(b"x")[:61])
    struct.pack_into(">i", head, 8, 49 + len(bomb))
    struct.pack_into(">h", head, 21, codec)
    batch = head + bomb
    struct.pack_into(">I", batch, 17, crc32c.crc32c(bytes(batch[21:])))
    assert read_header(batch, 0).compression is codec
    with BrokerProcess(tmp_path) as broker:
        create_topic(broker, "t")
        with bounded(broker):
            for _ in range(3):
                with Wire(broker) as wire:
                    row = wire.ask(produce_of("t", bytes(batch)), PRODUCE_V).responses[0].partition_responses[0]
                    assert row.error_code == ErrorCode.MESSAGE_TOO_LARGE, row


def test_thousands_of_fetch_sessions_and_connections(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        create_topic(broker, "t", 20)
        with contextlib.ExitStack() as stack, bounded(broker):
            for _ in range(1500):
                wire = stack.enter_context(Wire(broker))
                request = fetch_of("t", partitions=20, wait_ms=20_000)
                request.session_epoch = 0
                wire.send(request, FETCH_V)


def test_thousands_of_partitions(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker, bounded(broker):
        for number in range(10):
            create_topic(broker, f"wide-{number}", 100)
        assert len(topics_of(broker)) == 10


def waiting_bytes(http_port: int) -> int:
    """What requests that wait for their groups keep in memory, as the broker's metrics say."""
    with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/metrics", timeout=PATIENCE_S) as page:
        for line in page.read().decode().splitlines():
            if line.startswith("barnabas_group_waiting_bytes "):
                return int(float(line.split()[1]))
    raise AssertionError("there is no such metric")


def test_members_that_wait_for_their_group_keep_nobody_out(tmp_path: Path) -> None:
    """A hundred, who bring three times what requests may hold, in one group that waits for more of them."""
    http_port = lasting_port()
    settings = {"group.initial.rebalance.delay.ms": "3600000", "barnabas.http.port": http_port}
    with BrokerProcess(tmp_path, settings) as broker, contextlib.ExitStack() as stack:
        create_topic(broker, "t")
        find_coordinator(broker, "g")
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=300_000,
            rebalance_timeout_ms=300_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=os.urandom(METADATA_BYTES))],
        )
        members = [stack.enter_context(Wire(broker)) for _ in range(MEMBERS)]
        for wire in members:
            wire.send(request, JOIN_V)
        assert wait_until(lambda: waiting_bytes(http_port) >= MEMBERS * METADATA_BYTES, PATIENCE_S)
        with Wire(broker) as good:
            answer = good.ask(produce_of("t", batch_of(os.urandom(RECORD_BYTES))), PRODUCE_V)
            assert answer.responses[0].partition_responses[0].error_code == 0
            beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="nobody")
            assert good.ask(beat, 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            assert not select.select([wire.socket for wire in members], [], [], 0)[0], "some member was answered"
            described = good.ask(DescribeGroupsRequest(groups=["g"]), 4).groups[0]
            assert len(described.members) == MEMBERS
            leaving = [MemberIdentity(member_id=member.member_id) for member in described.members]
            good.ask(LeaveGroupRequest(group_id="g", members=leaving), 3)
        for wire in members:
            assert wire.receive(JoinGroupResponse, JOIN_V).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert waiting_bytes(http_port) == 0
        assert broker.peak_rss_bytes() < MOST_BYTES + MEMBERS * METADATA_BYTES
