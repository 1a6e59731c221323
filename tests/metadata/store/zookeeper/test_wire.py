"""Bytes: against kazoo's, which is an implementation of its own, and against everything that can be wrong."""

from __future__ import annotations

import random
import struct

import pytest
from kazoo.protocol import serialization as kazoo
from kazoo.security import ACL, Id

from config.errors import ConfigError
from metadata.store.port import (
    OPEN_ACL,
    AccessDeniedError,
    Acl,
    BadVersionError,
    Check,
    Create,
    Delete,
    Operation,
    RefusedError,
    SetData,
    StoreError,
    WatchKind,
)
from metadata.store.zookeeper import wire as wire
from metadata.store.zookeeper.ensemble import ConnectString, Rotation
from metadata.store.zookeeper.requests import Requests
from metadata.store.zookeeper.wire import OpCode, Reader, ReplyCode
from protocol.primitives import DecodeError
from runtime.network.transport import Address

ACLS = (Acl(31, "world", "anyone"), Acl(1, "sasl", "broker"))
KAZOO_ACLS = [ACL(31, Id("world", "anyone")), ACL(1, Id("sasl", "broker"))]
OPERATIONS: list[tuple[Operation, object]] = [
    (Create("/ä", b"data"), kazoo.Create("/ä", b"data", KAZOO_ACLS, 0)),
    (Create("/e", b"", ephemeral=True), kazoo.Create("/e", b"", KAZOO_ACLS, 1)),
    (Create("/s", b"", sequential=True), kazoo.Create("/s", b"", KAZOO_ACLS, 2)),
    (Create("/b", b"", ephemeral=True, sequential=True), kazoo.Create("/b", b"", KAZOO_ACLS, 3)),
    (SetData("/a", b"\0\1", 7), kazoo.SetData("/a", b"\0\1", 7)),
    (Delete("/a", -1), kazoo.Delete("/a", -1)),
    (Check("/a", 3), kazoo.CheckVersion("/a", 3)),
]


@pytest.mark.parametrize(("operation", "known"), OPERATIONS, ids=lambda each: type(each).__name__)
def test_a_write_has_the_bytes_that_kazoo_sends(operation: Operation, known: object) -> None:
    code, body = wire.operation_body(operation, operation.path, ACLS)
    assert (code, body) == (known.type, bytes(known.serialize()))  # type: ignore[attr-defined]


def test_a_multi_has_the_bytes_that_kazoo_sends() -> None:
    body = wire.multi_body(wire.operation_body(operation, operation.path, ACLS) for operation, _ in OPERATIONS)
    assert body == bytes(kazoo.Transaction([known for _, known in OPERATIONS]).serialize())


@pytest.mark.parametrize("is_watched", [True, False])
def test_a_read_has_the_bytes_that_kazoo_sends(is_watched: bool) -> None:
    known = kazoo.GetData("/a/b", is_watched)
    assert wire.watched_path_body("/a/b", is_watched=is_watched) == bytes(known.serialize())
    assert wire.path_body("/a/b") == bytes(kazoo.Sync("/a/b").serialize())


def test_the_handshake_has_the_bytes_that_kazoo_sends() -> None:
    frame = wire.connect_frame(last_zxid=77, timeout_ms=6_000, session_id=-5, password=b"p" * 16)
    known = bytes(kazoo.Connect(0, 77, 6_000, -5, b"p" * 16, False).serialize())
    assert frame == struct.pack(">i", len(known)) + known
    reply, _ = kazoo.Connect.deserialize(struct.pack(">iiq", 0, 4_000, 9) + wire.opaque(b"q" * 16) + b"\0", 0)
    assert wire.read_connect_reply(
        struct.pack(">iiq", 0, 4_000, 9) + wire.opaque(b"q" * 16) + b"\0"
    ) == wire.ConnectReply(reply.time_out, reply.session_id, reply.passwd)


def test_authentication_has_the_bytes_that_kazoo_sends() -> None:
    known = bytes(kazoo.Auth(0, "digest", "user:secret").serialize())
    assert wire.auth_frame("digest", b"user:secret") == wire.request_frame(-4, OpCode.AUTH, known)


def test_set_watches_is_cut_into_parts_that_hold_every_path_once() -> None:
    data = [f"/brokers/topics/topic-{number:06d}" for number in range(9_000)]
    missing, children = ["/missing"], [f"/children/{number}" for number in range(3_000)]
    frames = wire.set_watches_frames(42, data, missing, children)
    assert len(frames) > 2
    found: tuple[list[str], list[str], list[str]] = ([], [], [])
    for frame in frames:
        assert len(frame) < wire.SET_WATCHES_BYTES_MAX + 1_000
        reader = Reader(frame[4:])
        assert (reader.int32(), reader.int32(), reader.int64()) == (-8, OpCode.SET_WATCHES, 42)
        for each in found:
            each += reader.texts()
    assert found == (data, missing, children)
    assert wire.set_watches_frames(42, [], [], []) == []


# --- answers ---

STAT = struct.pack(">qqqqiiiqiiq", 1, 2, 3, 4, 5, 6, 7, -8, 9, 10, 11)


def multi_answer(*parts: tuple[int, bytes]) -> bytes:
    rows = [struct.pack(">i?i", code, False, 0) + body for code, body in parts]
    return b"".join(rows) + struct.pack(">i?i", -1, True, -1)


def test_a_stat_is_read_field_by_field() -> None:
    stat = Reader(STAT).stat()
    known = kazoo.Exists.deserialize(STAT, 0)
    assert (stat.czxid, stat.mzxid, stat.ctime_ms, stat.mtime_ms) == (
        known.czxid,
        known.mzxid,
        known.ctime,
        known.mtime,
    )
    assert (stat.version, stat.cversion, stat.num_children) == (known.version, known.cversion, known.numChildren)
    assert stat.ephemeral_owner == known.ephemeralOwner == -8


def test_results_of_a_multi_are_read_in_order() -> None:
    answer = multi_answer((OpCode.CHECK, b""), (OpCode.CREATE, wire.text("/a")), (OpCode.SET_DATA, STAT), (2, b""))
    results = wire.read_multi_results(Reader(answer), ["/c", "/a", "/s", "/d"])
    assert results == [None, "/a", Reader(STAT).stat(), None]


def test_a_failed_multi_tells_which_operation_failed_and_why() -> None:
    answer = multi_answer(
        (-1, wire.int32(0)), (-1, wire.int32(ReplyCode.BAD_VERSION)), (-1, wire.int32(ReplyCode.RUNTIME_INCONSISTENCY))
    )
    with pytest.raises(BadVersionError) as raised:
        wire.read_multi_results(Reader(answer), ["/a", "/b", "/c"])
    assert (raised.value.path, raised.value.operation_index) == ("/b", 1)


def test_every_error_has_a_class_and_unknown_ones_are_refusals() -> None:
    assert isinstance(wire.refusal(ReplyCode.NO_AUTH, "/a"), AccessDeniedError)
    unknown = wire.refusal(-127, "/a", 3)
    assert isinstance(unknown, RefusedError)
    assert unknown.operation_index == 3


def test_a_watch_event_names_what_happened() -> None:
    assert wire.read_watch_event(Reader(struct.pack(">ii", 4, 3) + wire.text("/a"))) == (WatchKind.CHILDREN, "/a")
    assert wire.read_watch_event(Reader(struct.pack(">ii", -1, 3) + wire.text("")))[0] is None


def test_cut_and_spoiled_answers_raise_the_decode_error_and_nothing_else() -> None:
    rng = random.Random(7)
    requests = Requests("", is_secure=False)
    reads = [
        (requests.get("/a", None).read, wire.opaque(b"data") + STAT),
        (requests.children("/a", None).read, struct.pack(">i", 2) + wire.text("b") + wire.text("c")),
        (requests.multi([Create("/a"), SetData("/a", b"")]).read, multi_answer((1, wire.text("/a")), (5, STAT))),
        (wire.read_watch_event, struct.pack(">ii", 3, 3) + wire.text("/a")),
        (lambda reader: wire.read_connect_reply(reader._data), struct.pack(">iiq", 0, 4, 9) + wire.opaque(b"q" * 16)),
    ]
    for read, sound in reads:
        read(Reader(sound))
        for end in range(len(sound)):
            with pytest.raises(DecodeError):
                read(Reader(sound[:end]))
        for _ in range(500):
            spoiled = bytearray(sound)
            for _ in range(rng.randint(1, 4)):
                spoiled[rng.randrange(len(spoiled))] = rng.randrange(256)
            try:
                read(Reader(spoiled))
            except (DecodeError, StoreError):
                continue


# --- requests ---


def test_paths_live_under_the_chroot() -> None:
    requests = Requests("/kafka/a", is_secure=False)
    assert requests.server_path("/brokers") == "/kafka/a/brokers"
    assert requests.server_path("/") == "/kafka/a"
    assert requests.path("/kafka/a/brokers") == "/brokers"
    assert requests.path("/kafka/a") == "/"
    assert Requests("", is_secure=False).server_path("/") == "/"


def test_access_lists_are_kafkas() -> None:
    secure = Requests("/chroot", is_secure=True)
    assert secure.acl("/brokers/ids/1") == (Acl(31, "auth", ""), Acl(1, "world", "anyone"))
    for path in ("/config/users", "/config/users/alice", "/config/brokers/1", "/delegation_token/tokens"):
        assert secure.acl(path) == (Acl(31, "auth", ""),)
    assert secure.acl("/config/usersx") == (Acl(31, "auth", ""), Acl(1, "world", "anyone"))
    assert secure.acl("/consumers") == OPEN_ACL
    assert Requests("", is_secure=False).acl("/config/users") == OPEN_ACL


# --- the ensemble ---


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("localhost", (Address("localhost", 2181),), ""),
        ("a:1,b:2/kafka/x/", (Address("a", 1), Address("b", 2)), "/kafka/x"),
        (" a:1 , b:2 ,", (Address("a", 1), Address("b", 2)), ""),
        ("[::1]:2182,[fe80::2]/c", (Address("::1", 2182), Address("fe80::2", 2181)), "/c"),
        ("a/", (Address("a", 2181),), ""),
    ],
)
def test_a_connect_string_names_servers_and_chroot(text: str, servers: tuple[Address, ...], chroot: str) -> None:
    assert ConnectString.parse(text) == ConnectString(servers, chroot)


@pytest.mark.parametrize("text", ["", "/kafka", "a:x", "a:0", "a:99999", ":2181", "[::1", "a//b", "a/../b", "[::1]x"])
def test_a_bad_connect_string_is_a_configuration_error(text: str) -> None:
    with pytest.raises(ConfigError):
        ConnectString.parse(text)


def test_servers_take_turns_in_an_order_of_their_own() -> None:
    servers = tuple(Address(f"zk{number}", 2181) for number in range(5))
    orders = set()
    for seed in range(20):
        rotation = Rotation(servers, random.Random(seed))
        first = [rotation.next() for _ in servers]
        assert rotation.round_is_over
        assert sorted(first, key=str) == sorted(servers, key=str)
        assert [rotation.next() for _ in servers] == first
        orders.add(tuple(first))
    assert len(orders) > 5
