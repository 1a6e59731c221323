"""Whatever records, groups, transactions, clients, users and ACLs hold: no command ends by it, no terminal gets what it
obeys, and JSON stays JSON."""

from __future__ import annotations

import io
import json
import re
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from barnabas.commands import main
from barnabas.embedded import EmbeddedBroker
from protocol.crc32c import crc32c
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.record import Record, encode_batch
from tests.differential.wire import Wire

NAME = "x\x1b[2J\n\r\x07\x9b31m\u202e\u2028[/bold][red]é"
RESOURCE = "x\u202e[red]"  # a path in the store, which takes no control characters
PRINCIPAL = f"User:{NAME.replace(chr(10), '')}"  # one line
CALENDAR_MS, BEYOND_MS = 1_700_000_000_000, 1_700_000_000_123_456
BIG = 900_000
HOSTILE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029\ud800-\udfff]")
RECORDS = [
    Record(0, BEYOND_MS, NAME.encode(), NAME.encode(), [(NAME, NAME.encode())]),
    Record(0, 2**63 - 1, b"\x00", b"\xff\x9b", [("", None), ("a\0b", b"\xed\xa0\x80")]),
    Record(0, -(2**63), b"", b"", []),
    Record(0, -1, None, None, []),
    Record(0, -5, b"k", b"[" * 100_000, [("big", b"x" * BIG)]),
    Record(0, 0, b"k", b"v", [("n" * BIG, b"x")]),
    Record(
        0, CALENDAR_MS, b"k", b'{"a": 1e999, "b": ' + b"9" * 5_000 + b"}", [("badX", b"x")]
    ),  # the name becomes no UTF-8
]
LAST = len(RECORDS)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
        "log.retention.ms": -1,
    }
    with EmbeddedBroker({"t": 1}, settings) as running:
        _write_records(running.bootstrap_servers)
        _write_names(running.bootstrap_servers)
        with _member(running.bootstrap_servers):
            yield running


def _write_records(servers: str) -> None:
    host, _, port = servers.partition(":")
    wire = Wire(host, int(port))
    for record in RECORDS:
        batch = bytearray(encode_batch([record]).replace(b"badX", b"\xff\xfe\x1bX"))
        batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))
        partition = PartitionProduceData(index=0, records=bytes(batch))
        topic = TopicProduceData(name="t", partition_data=[partition])
        answer = wire.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic]), 7)
        assert answer.responses[0].partition_responses[0].error_code == 0
    entity = [EntityData(entity_type=kind, entity_name=NAME) for kind in ("user", "client-id")]
    quota = OpData(key="producer_byte_rate", value=1e9, remove=False)
    entry = RequestEntryData(entity=entity, ops=[quota])
    assert wire.ask(AlterClientQuotasRequest(entries=[entry], validate_only=False), 0).entries[0].error_code == 0
    wire.close()


def _write_names(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    acl = AclBinding(
        ResourceType.GROUP, RESOURCE, ResourcePatternType.LITERAL, PRINCIPAL, NAME, AclOperation.READ, AclPermissionType.ALLOW
    )  # fmt: skip
    admin.create_acls([acl])[acl].result()
    producer = Producer({"bootstrap.servers": servers, "transactional.id": NAME, "client.id": NAME})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("t", b"v", timestamp=BEYOND_MS)
    producer.flush()
    producer.commit_transaction()


class _member:
    """A member of a group, whose commits have metadata."""

    def __init__(self, servers: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": NAME, "client.id": NAME, "auto.offset.reset": "earliest"}
        )

    def __enter__(self) -> None:
        self._consumer.subscribe(["t"])
        while not self._consumer.assignment():
            self._consumer.poll(0.1)
        self._consumer.commit(offsets=[TopicPartition("t", 0, 1, NAME)], asynchronous=False)

    def __exit__(self, *_error: object) -> None:
        self._consumer.close()


@dataclass(frozen=True)
class Run:
    code: int
    out: str
    err: str


Tool = Callable[..., Run]


@pytest.fixture
def tool(broker: EmbeddedBroker, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Tool:
    def run(*arguments: str, is_terminal: bool = False) -> Run:
        with monkeypatch.context() as patch:
            patch.setattr(sys.stdout, "isatty", lambda: is_terminal)
            patch.setenv("TERM", "dumb")  # or rich writes its own sequences
            code = main([*arguments, "--bootstrap-server", broker.bootstrap_servers])
        out, err = capfd.readouterr()
        return Run(code, out, err)

    return run


UNTIL_END = ("--from-beginning", "--max-messages", str(LAST))
COMMANDS = [
    ("consume", "t", *UNTIL_END, "--format", "%t %p %o %k %v %h %D %T %S %K"),
    (
        "consume",
        "t",
        *UNTIL_END,
        *(f"--property=print.{name}=true" for name in ("key", "headers", "timestamp", "offset")),
    ),
    ("find", "t", "--value-contains", "", "--format", "%k %v %h %D"),
    ("find", "t", "--json-path", "b=1"),
    ("find", "t", "--header", f"{NAME}={NAME}"),
    ("find", "t", "--value-contains", "", "--key-deserializer", "long"),
    ("groups", "list"),
    ("groups", "describe", NAME),
    ("groups", "describe", NAME, "--members"),
    ("groups", "describe", NAME, "--state"),
    ("transactions", "list"),
    ("transactions", "describe", NAME),
    ("transactions", "producers", "t"),
    ("transactions", "find-hanging"),
    ("acls", "list"),
    ("quotas", "list"),
    ("topics", "list"),
    ("topics", "offsets", "t", "--time", "max-timestamp"),
    ("cluster", "health", "--window-ms", "0"),
    ("perf", "consume", "t"),
    # refusals name what was given
    ("topics", "describe", NAME),
    ("groups", "describe", f"{NAME}-"),
    ("consume", NAME),
    ("groups", "delete", NAME),
    ("groups", "reset", NAME, "--all-topics", "--to-earliest", "--export"),
    ("find", "t"),
    ("consume", "t", "--partitions", NAME),
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=map(str, range(len(COMMANDS))))
def test_no_command_ends_by_a_name_or_a_record(tool: Tool, arguments: tuple[str, ...]) -> None:
    for is_terminal in (True, False):
        shown = tool(*arguments, is_terminal=is_terminal)
        assert "Traceback" not in shown.err
        assert shown.code in (0, 1, 2)
        assert not HOSTILE.search(shown.err), shown.err
        if is_terminal or arguments[0] not in ("consume", "find"):
            assert not HOSTILE.search(shown.out), HOSTILE.search(shown.out)
    found = tool(*arguments, "--json")
    assert found.code == shown.code
    assert not re.search("[\x7f-\x9f\u202e\u2028]", found.out)
    documents = found.out.splitlines() if arguments[0] in ("consume", "find") else [found.out] if found.out else []
    for document in documents:
        json.loads(document)


def test_json_has_names_and_records_whole(tool: Tool) -> None:
    rows = [json.loads(line) for line in tool("consume", "t", *UNTIL_END, "--json").out.splitlines()]
    assert [row["timestamp"] for row in rows] == [record.timestamp for record in RECORDS]
    assert (rows[0]["key"], rows[0]["value"], rows[0]["headers"]) == (NAME, NAME, [{"name": NAME, "value": NAME}])
    assert (rows[-1]["headers"], rows[-1]["unreadable_header"]) == (None, "\\xff\\xfe\x1bX")
    assert json.loads(tool("transactions", "list", "--json").out)[0]["transactional_id"] == NAME
    assert json.loads(tool("groups", "describe", NAME, "--json").out)["group"] == NAME


def test_raw_prints_the_bytes(broker: EmbeddedBroker, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    given = (
        "consume",
        "t",
        *UNTIL_END,
        "--raw",
        "--format",
        r"%R%k\0%s\0",
        "--bootstrap-server",
        broker.bootstrap_servers,
    )
    assert main(given) == 0
    out, _ = capfdbinary.readouterr()
    sizes = [struct.pack(">i", -1 if each.value is None else len(each.value)) for each in RECORDS]
    contents = [(each.key or b"null", b"null" if each.value is None else each.value) for each in RECORDS]
    contents[2] = (b"", b"")
    wanted = (size + key + b"\0" + value + b"\0" for size, (key, value) in zip(sizes, contents, strict=True))
    assert out == b"".join(wanted)
    assert main([*given[:-2], "--json", *given[-2:]]) == 2


def test_headers_that_cannot_be_compared_are_told(tool: Tool) -> None:
    found = tool("find", "t", "--header", "none=none")
    assert found.code == 0
    assert "not compared with --header, because a name of a header is no UTF-8: 1 record" in found.err


def test_an_argument_that_is_no_text_is_refused(tool: Tool) -> None:
    """The client library would end the process."""
    run = tool("groups", "describe", "\udcff")
    assert (run.code, run.err) == (2, "barnabas: the argument \\udcff is no UTF-8\n")


@pytest.mark.parametrize("name", ["a\\u0000b", "\\ud800"])
def test_a_header_that_the_client_library_cuts_or_dies_of_is_refused(
    tool: Tool, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    line = f'{{"value": "v", "headers": [{{"name": "{name}", "value": "x"}}]}}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line.encode())))
    run = tool("produce", "t", "--input", "json")
    assert run.code == 1
    assert "record 1 cannot be written: the name of a header is no UTF-8, or has a NUL" in run.err
