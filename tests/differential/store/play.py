"""Plays scripts of raw requests against a server that speaks the ZooKeeper protocol, and tells its answers in text.

What differs from run to run is replaced: transactions and times (by their order within the script), session ids and passwords,
the order of children. Every other byte of an answer is told, those behind what is understood in hexadecimal.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from metadata.store.port import Stat
from metadata.store.zookeeper import wire
from metadata.store.zookeeper.wire import OpCode, Reader
from protocol.primitives import DecodeError

TIMEOUT_S = 30
EVENTS = {1: "CREATED", 2: "DELETED", 3: "CHANGED", 4: "CHILDREN"}
Acls = tuple[tuple[int, str, str], ...]
OPEN: Acls = ((31, "world", "anyone"),)


def create_body(path: str, data: bytes = b"", flags: int = 0, acl: Acls = OPEN) -> bytes:
    return wire.text(path) + wire.opaque(data) + acl_rows(acl) + wire.int32(flags)


def acl_rows(acl: Acls) -> bytes:
    rows = [wire.int32(permissions) + wire.text(scheme) + wire.text(name) for permissions, scheme, name in acl]
    return wire.int32(len(rows)) + b"".join(rows)


def watched(path: str, *, watch: bool = False) -> bytes:
    return wire.watched_path_body(path, is_watched=watch)


def versioned(path: str, version: int = -1) -> bytes:
    return wire.text(path) + wire.int32(version)


def set_body(path: str, data: bytes, version: int = -1) -> bytes:
    return wire.text(path) + wire.opaque(data) + wire.int32(version)


def typed(path: str, number: int) -> bytes:
    return wire.text(path) + wire.int32(number)


def multi(*operations: tuple[int, bytes]) -> bytes:
    headers = [struct.pack(">i?i", code, False, -1) + body for code, body in operations]
    return b"".join([*headers, struct.pack(">i?i", -1, True, -1)])


@dataclass
class Log:
    """The answers of one script, and what is replaced in them."""

    lines: list[str] = field(default_factory=list)
    sessions: dict[int, int] = field(default_factory=dict)
    zxids: set[int] = field(default_factory=set)

    def session(self, session_id: int) -> str:
        return "none" if session_id == 0 else f"session {self.sessions.setdefault(session_id, len(self.sessions) + 1)}"

    def zxid(self, zxid: int) -> str:
        self.zxids.add(zxid)
        return f"<{zxid}>"

    def told(self) -> list[str]:
        """Transactions by their rank."""
        ranks = {zxid: rank for rank, zxid in enumerate(sorted(self.zxids), 1)}
        lines = []
        for line in self.lines:
            for zxid, rank in ranks.items():
                line = line.replace(f"<{zxid}>", f"z{rank}")
            lines.append(line)
        return lines


class Link:
    """One connection of a script."""

    def __init__(self, player: Player, name: str) -> None:
        self.name = name
        self.session_id = 0
        self.password = bytes(16)
        self._player = player
        self._log = player.log
        self._socket = socket.create_connection(player.address, timeout=TIMEOUT_S)
        self._xid = 0
        self._codes: dict[int, int] = {}

    # --- bytes ---

    def say(self, text: str) -> None:
        self._log.lines.append(f"{self.name} {text}")

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def cut(self) -> None:
        self._socket.close()

    def frame(self) -> bytes | None:
        """The next one; None when the connection is closed."""
        prefix = self._exactly(4)
        return None if prefix is None else self._exactly(int.from_bytes(prefix, "big"))

    def _exactly(self, count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            try:
                part = self._socket.recv(count - len(data))
            except ConnectionError:
                return None
            if not part:
                return None
            data += part
        return data

    def rest(self) -> bytes:
        """Everything until the connection is closed."""
        return b"".join(iter(lambda: self._socket.recv(4096), b""))

    def closed(self) -> None:
        """Tell what comes until the connection is closed."""
        while (frame := self.frame()) is not None:
            self._tell(frame)
        self.say("is closed")

    # --- the session ---

    def greet(
        self,
        *,
        zxid: int = 0,
        timeout_ms: int = 30_000,
        session_id: int = 0,
        password: bytes | None = None,
        is_old: bool = False,
    ) -> None:
        secret = bytes(16) if password is None else password
        body = struct.pack(">iqiq", 0, zxid, timeout_ms, session_id) + wire.opaque(secret) + (b"" if is_old else b"\0")
        self.send(wire.framed(body))
        frame = self.frame()
        if frame is None:
            self.say("is closed without a greeting")
            return
        reply = wire.read_connect_reply(frame)
        self.session_id, self.password = reply.session_id, reply.password
        rest = frame[20 + len(reply.password) :].hex()
        kind = "zeros" if reply.password == bytes(16) else f"{len(reply.password)} bytes"
        self.say(f"greeted: {self._log.session(reply.session_id)} {reply.timeout_ms} ms, password of {kind}, {rest}")

    # --- requests ---

    def ask(self, code: int, body: bytes = b"", *, xid: int | None = None) -> None:
        """Send a request, and tell what comes until its answer or the end of the connection."""
        self._xid += 1
        number = self._xid if xid is None else xid
        self._codes[number] = code
        self.send(wire.framed(struct.pack(">ii", number, code) + body))
        while True:
            frame = self.frame()
            if frame is None:
                self.say("is closed")
                return
            if self._tell(frame) == number:
                return

    def ping(self) -> None:
        """Events that were sent before are told by then."""
        self.ask(OpCode.PING, xid=wire.PING_XID)

    def _tell(self, frame: bytes) -> int:
        reader = Reader(frame)
        xid, zxid, error = reader.reply_header()
        if xid == wire.NOTIFICATION_XID:
            kind, state, path = reader.int32(), reader.int32(), reader.text()
            self.say(f"event {EVENTS[kind]} {path} zxid {zxid} state {state} error {error}")
            return xid
        sign = "+" if zxid > 0 else str(zxid)
        code = self._codes[xid]
        name = OpCode(code).name if code in set(OpCode) else str(code)
        try:
            body = self._body(code, reader) if error == 0 else ""
        except DecodeError as problem:
            body = f"not understood: {problem}"
        self.say(" ".join(filter(None, [f"{name} xid {xid} zxid {sign} error {error}", body, rest_of(reader)])))
        return xid

    def _body(self, code: int, reader: Reader) -> str:
        match code:
            case OpCode.CREATE | OpCode.SYNC:
                return reader.text()
            case OpCode.CREATE2:
                return f"{reader.text()} {self._stat(reader)}"
            case OpCode.SET_DATA | OpCode.SET_ACL | OpCode.EXISTS:
                return self._stat(reader)
            case OpCode.GET_DATA:
                return f"{reader.opaque()!r} {self._stat(reader)}"
            case OpCode.GET_CHILDREN | OpCode.GET_EPHEMERALS:
                return str(sorted(reader.texts()))
            case OpCode.GET_CHILDREN2:
                return f"{sorted(reader.texts())} {self._stat(reader)}"
            case OpCode.GET_ACL:
                acl = [f"{entry.permissions}:{entry.scheme}:{entry.identity}" for entry in reader.acls()]
                return f"{acl} {self._stat(reader)}"
            case OpCode.GET_ALL_CHILDREN_NUMBER | OpCode.ADD_WATCH:
                return str(reader.int32())
            case OpCode.WHO_AM_I:
                return str(sorted((reader.text(), reader.text()) for _ in range(reader.int32())))
            case OpCode.MULTI | OpCode.MULTI_READ:
                return self._multi(reader)
        return ""

    def _multi(self, reader: Reader) -> str:
        parts: list[str] = []
        while True:
            code, is_done, error = reader.int32(), reader.boolean(), reader.int32()
            if is_done:
                return f"{parts} end {code} {error}"
            if code == OpCode.ERROR:
                parts.append(f"error {error} {reader.int32()}")
            else:
                parts.append(f"{OpCode(code).name} {error} {self._body(code, reader)}".strip())

    def _stat(self, reader: Reader) -> str:
        stat = reader.stat()
        zxid = self._log.zxid
        return (
            f"(c {zxid(stat.czxid)} m {zxid(stat.mzxid)} p {zxid(stat.pzxid)} "
            f"{times_of(stat)} "
            f"versions {stat.version} {stat.cversion} {stat.aversion} owner {self._log.session(stat.ephemeral_owner)} "
            f"length {stat.data_length} children {stat.num_children})"
        )


def times_of(stat: Stat) -> str:
    if not stat.ctime_ms:
        return "no time"
    return "ctime <= mtime" if stat.ctime_ms <= stat.mtime_ms else "ctime > mtime"


def rest_of(reader: Reader) -> str:
    """What is behind that which was understood."""
    rest = []
    while not reader.is_at_end:
        rest.append(reader.boolean())
    return f"and {len(rest)} bytes more" if rest else ""


class Player:
    """One script against one server. `base` is a node of its own."""

    def __init__(self, address: tuple[str, int], base: str) -> None:
        self.address = address
        self.base = base
        self.log = Log()
        self._links: list[Link] = []

    def link(self, name: str) -> Link:
        """A connection without a greeting."""
        self._links.append(Link(self, name))
        return self._links[-1]

    def client(self, name: str = "one") -> Link:
        """A connection with a session."""
        link = self.link(name)
        link.greet()
        return link

    def close(self) -> None:
        for link in self._links:
            link.cut()


Script = Callable[[Player], None]


def play(script: Script, address: tuple[str, int]) -> list[str]:
    """The answers to a script, on a node of its name."""
    player = Player(address, f"/{script.__name__}")
    try:
        setup = player.link("setup")
        setup.greet()
        setup.ask(OpCode.CREATE, create_body(player.base))
        player.log.lines.clear()
        player.log.sessions.clear()
        script(player)
    finally:
        player.close()
    return player.log.told()
