"""The network door in memory: streams between named nodes, with seeded delays and faults.

A stream keeps TCP's promises: bytes arrive in order and whole, or the stream breaks; how they are cut is random. What
TCP does not promise happens: delay, a reset in the middle of a frame, partitions (both ways or one way: bytes wait, and
after `RESET_AFTER_S` the stream breaks), a peer that vanishes without a word.
Rules: the host of a listener is its node's name; `localhost` is the node itself. A crashed node's handlers hear nothing
any more: its process is gone. What the wires do belongs to no process; handlers are called in theirs, which is the one
that made the port (`node`), or wait while that is paused. Buffers are checked for changes between `write` and leaving.
"""

from __future__ import annotations

import asyncio
from asyncio import Handle, TimerHandle
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from runtime.network.file_range import FileRange, Piece, ranges_of, release_ranges
from runtime.network.transport import Address, Connection, ConnectionHandler, Listener
from tests.simulation.filesystem import SimFile
from tests.simulation.loop import SimLoop
from tests.simulation.process import PROCESS, Process, entered

# What a receiver that does not read lets its peer send ahead, as a socket buffer does.
WINDOW_BYTES = 64 * 1024
HIGH_WATER_BYTES = 256 * 1024
LOW_WATER_BYTES = 64 * 1024
CONNECT_TIMEOUT_S = 5.0
CONNECT_RETRY_S = 0.05  # to a node whose process is paused
RESET_AFTER_S = 15.0
ONE_MICROSECOND_S = 1e-6
FIRST_FREE_PORT = 10_000


@dataclass(slots=True)
class Link:
    """One direction between two nodes."""

    min_delay_ms: float = 0.05
    max_delay_ms: float = 1.0
    is_cut: bool = False


class SimConnection:
    """One end of a stream."""

    takes_ranges = True

    def __init__(
        self, network: SimNetwork, owner: SimNode, local: Address, peer: Address, handler: ConnectionHandler
    ) -> None:
        self.local = local
        self.peer = peer
        self.node = owner.name
        self._process = owner.process
        self.other: SimConnection = self
        self._network = network
        self._loop = network.loop
        self._handler: ConnectionHandler | None = handler
        self._unsent: deque[tuple[Piece, bytes]] = deque()  # as given, and a copy made then
        self._unsent_bytes = 0
        self._ahead_bytes = 0  # sent, not yet taken by the other end's handler
        self._on_wire: deque[bytes | None] = deque()
        self._arrived: deque[bytes] = deque()
        self._is_reading = True
        self._is_writing_paused = False
        self._is_push_due = False
        self._is_closing = False
        self._peer_has_closed = False
        self._is_open = True
        self.has_vanished = False
        self._last_arrival_s = 0.0
        self._cut_since_s: float | None = None

    # --- what a handler calls ---

    def write(self, pieces: Sequence[Piece]) -> None:
        if self._is_closing or not self._is_open:
            release_ranges(pieces)
            return
        if any(each.is_revoked for each in ranges_of(pieces)):
            release_ranges(pieces)
            self.abort()
            return
        for piece in pieces:
            if len(piece):
                if isinstance(piece, FileRange):
                    self._network.ranges_count += 1
                    piece.leave_by(self.abort)
                self._unsent.append((piece, self._content(piece)))
                self._unsent_bytes += len(piece)
        if self._unsent_bytes > HIGH_WATER_BYTES and not self._is_writing_paused and self._handler is not None:
            self._is_writing_paused = True
            with entered(self._process):
                self._handler.writing_paused()
        self._push_soon()

    def unsent_bytes(self) -> int:
        return self._unsent_bytes

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._network.call_soon(self.deliver)

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._push_soon()

    def abort(self) -> None:
        self._network.note(f"abort {self.local.host}:{self.local.port}")
        self._end(None, tell_peer=ConnectionResetError("reset by peer"))

    # --- the stream ---

    def _push_soon(self) -> None:
        if not self._is_push_due:
            self._is_push_due = True
            self._network.call_soon(self.push)

    def push(self) -> None:
        """Send what the window and the link allow."""
        self._is_push_due = False
        if not self._is_open:
            return
        network, link = self._network, self._network.link(self.node, self.other.node)
        if link.is_cut or self.other.has_vanished:
            if not link.is_cut and self._unsent and network.has_rebooted(self.other.node):
                network.call_at(self._loop.time() + 0.001, self.break_off, ConnectionResetError("reset by peer"))
            self._wait_out_the_cut()
            return
        self._cut_since_s = None
        while self._unsent and self._ahead_bytes < WINDOW_BYTES:
            data = self._take(network.loop.random.randint(1, WINDOW_BYTES - self._ahead_bytes))
            if network.breaks():
                network.note(f"break {self.local.host}:{self.local.port}->{self.peer.host}:{self.peer.port}")
                self._end(ConnectionResetError("lost"), tell_peer=ConnectionResetError("lost"))
                return
            self._ahead_bytes += len(data)
            self._schedule(link, lambda data=data: self.other.arrive(data))  # type: ignore[misc]
        has_room = self._is_writing_paused and self._unsent_bytes <= LOW_WATER_BYTES
        if has_room and self._handler is not None and not _is_paused(self._process):
            self._is_writing_paused = False
            with entered(self._process):
                self._handler.writing_resumed()
        if self._is_closing and not self._unsent:
            self._schedule(link, lambda: self.other.arrive(None))
            self._end(None, tell_peer=None)

    def _take(self, wanted: int) -> bytes:
        piece, copy = self._unsent[0]
        assert self._content(piece) == copy, f"{piece!r:.80} was changed after it was given to write"
        if len(copy) <= wanted:
            self._unsent.popleft()
            self._unsent_bytes -= len(copy)
            if isinstance(piece, FileRange):
                piece.release()
            return copy
        if isinstance(piece, FileRange):
            piece.sent_bytes += wanted
        else:
            piece = memoryview(piece)[wanted:]
        self._unsent[0] = (piece, copy[wanted:])
        self._unsent_bytes -= wanted
        return copy[:wanted]

    @staticmethod
    def _content(piece: Piece) -> bytes:
        """What is in the piece now: of a range, what the file has there, however long it is by now."""
        if not isinstance(piece, FileRange):
            return bytes(piece)
        assert isinstance(piece.file, SimFile)
        return piece.file.pages(len(piece), piece.position + piece.sent_bytes)

    def _schedule(self, link: Link, arrival: Callable[[], None]) -> None:
        delay_ms = self._loop.random.uniform(link.min_delay_ms, link.max_delay_ms)
        # Strictly later than the one before: the loop does not keep the order of equal times.
        self._last_arrival_s = max(self._last_arrival_s + ONE_MICROSECOND_S, self._loop.time() + delay_ms / 1000)
        self._network.call_at(self._last_arrival_s, arrival)

    def _wait_out_the_cut(self) -> None:
        if not self._unsent and not self._is_closing:
            return
        now_s = self._loop.time()
        if self._cut_since_s is None:
            self._cut_since_s = now_s
            self._network.call_at(now_s + RESET_AFTER_S, self.push)
        elif now_s - self._cut_since_s >= RESET_AFTER_S:
            self._network.note(f"timeout {self.local.host}:{self.local.port}")
            self._end(TimeoutError("no answer from the peer"), tell_peer=None)

    def arrive(self, data: bytes | None) -> None:
        """A piece from the wire; None is the peer's end of the stream. Pieces that meet a cut wait for its end."""
        if not self._is_open:
            return
        self._on_wire.append(data)
        self.receive()

    def receive(self) -> None:
        if self._network.link(self.other.node, self.node).is_cut:
            return
        while self._on_wire and self._is_open:
            data = self._on_wire.popleft()
            if data is None:
                self._peer_has_closed = True
            else:
                self._arrived.append(data)
            self.deliver()

    def deliver(self) -> None:
        if _is_paused(self._process):
            return
        while self._arrived and self._is_reading and self._is_open and self._handler is not None:
            data = self._arrived.popleft()
            with entered(self._process):
                place = self._handler.receive_buffer(len(data))
                count = min(len(place), len(data))
                assert count, "receive_buffer must not be empty"
                place[:count] = data[:count]
                if count < len(data):
                    self._arrived.appendleft(data[count:])
                self._network.note(f"receive {self.local.host}:{self.local.port} {count}")
                self.other.taken(count)
                self._handler.received(count)
        if self._peer_has_closed and not self._arrived:
            self._end(None, tell_peer=None)

    def taken(self, count: int) -> None:
        self._ahead_bytes -= count
        if self._unsent or self._is_writing_paused or self._is_closing:
            self._push_soon()

    def open(self) -> None:
        if self._handler is not None:
            with entered(self._process):
                self._handler.connected(self)

    def break_off(self, error: Exception | None) -> None:
        """The network ends the stream on this side."""
        self._end(error, tell_peer=None)

    def vanish(self) -> None:
        """The process of this end is gone: nothing is called any more."""
        self._is_open = False
        self.has_vanished = True
        self._handler = None
        self._network.forget(self)

    def _end(self, error: Exception | None, *, tell_peer: Exception | None) -> None:
        if not self._is_open:
            return
        self._is_open = False
        release_ranges(piece for piece, _ in self._unsent)
        self._unsent.clear()
        self._unsent_bytes = 0
        self._network.forget(self)
        if tell_peer is not None and not self._network.link(self.node, self.other.node).is_cut:
            self._schedule(self._network.link(self.node, self.other.node), lambda: self.other.break_off(tell_peer))
        handler, self._handler = self._handler, None
        if handler is not None:
            with entered(self._process):
                self._loop.call_soon(handler.disconnected, error)


def _is_paused(process: Process | None) -> bool:
    return process is not None and process.is_paused


class SimListener:
    def __init__(
        self, network: SimNetwork, owner: SimNode, address: Address, factory: Callable[[], ConnectionHandler]
    ) -> None:
        self.address = address
        self.factory = factory
        self.owner = owner
        self.is_paused = False
        self._network = network

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    async def close(self) -> None:
        self._network.stop_listening(self.owner.name, self.address.port, self)


class SimNetwork:
    """The wires. `node(name)` is one machine's `Network` port."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.reset_probability = 0.0  # of each piece that leaves
        self._links: dict[tuple[str, str], Link] = {}
        self._listeners: dict[tuple[str, int], SimListener] = {}
        self._connections: dict[SimConnection, None] = {}
        self._next_port = FIRST_FREE_PORT
        self._outside = Context()  # of what happens on the wires
        self.ranges_count = 0  # ranges of files that connections began to send
        self.on_end: Callable[[SimConnection], None] = lambda connection: None
        """Called when one end of a stream is no more."""

    def node(self, name: str) -> SimNode:
        """The `Network` port of the current process, which runs on machine `name`."""
        return SimNode(self, name, PROCESS.get())

    def call_soon(self, callback: Callable[[], object]) -> Handle:
        return self.loop.call_soon(callback, context=self._outside)

    def call_at(self, when_s: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        return self.loop.call_at(when_s, callback, *args, context=self._outside)

    def note(self, what: str) -> None:
        self.loop.note(what)

    # --- faults ---

    def link(self, source: str, target: str) -> Link:
        return self._links.setdefault((source, target), Link())

    def cut(self, source: str, target: str, *, one_way: bool = False) -> None:
        """Bytes from `source` to `target` (and back, unless one way) wait."""
        self.note(f"cut {source} {target} {one_way}")
        self.link(source, target).is_cut = True
        if not one_way:
            self.link(target, source).is_cut = True

    def heal(self) -> None:
        """All cuts end."""
        self.note("heal")
        for link in self._links.values():
            link.is_cut = False
        for connection in list(self._connections):
            self.call_soon(connection.push)
            self.call_soon(connection.receive)

    def mend(self, source: str, target: str) -> None:
        """The cuts between two nodes end."""
        self.note(f"mend {source} {target}")
        pair = {source, target}
        self.link(source, target).is_cut = self.link(target, source).is_cut = False
        for connection in list(self._connections):
            if {connection.node, connection.other.node} == pair:
                self.call_soon(connection.push)
                self.call_soon(connection.receive)

    def slow(self, source: str, target: str, min_delay_ms: float, max_delay_ms: float) -> None:
        link = self.link(source, target)
        link.min_delay_ms, link.max_delay_ms = min_delay_ms, max_delay_ms

    def breaks(self) -> bool:
        return self.reset_probability > 0 and self.loop.random.random() < self.reset_probability

    def crash(self, node: str, *, silently: bool = False) -> None:
        """The node's process is gone. `silently`: with its machine, so that peers hear nothing."""
        self.note(f"crash {node}")
        for key in [key for key in self._listeners if key[0] == node]:
            del self._listeners[key]
        for connection in [one for one in self._connections if one.node == node]:
            other = connection.other
            connection.vanish()
            if not silently:
                self.call_at(self.loop.time() + 0.001, other.break_off, ConnectionResetError("reset by peer"))

    def resumed(self, node: str) -> None:
        """The node's process runs again: it hears what has arrived meanwhile."""
        for connection in [one for one in self._connections if one.node == node]:
            self.call_soon(connection.deliver)
            self.call_soon(connection.push)

    # --- for the ends ---

    def has_rebooted(self, node: str) -> bool:
        """Whether a machine that vanished is there again, and answers what belongs to its life before with a reset."""
        return any(key[0] == node for key in self._listeners)

    def forget(self, connection: SimConnection) -> None:
        self._connections.pop(connection, None)
        self.on_end(connection)

    def stop_listening(self, node: str, port: int, listener: SimListener) -> None:
        if self._listeners.get((node, port)) is listener:
            del self._listeners[node, port]

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def listen(self, owner: SimNode, host: str, port: int, factory: Callable[[], ConnectionHandler]) -> SimListener:
        node, port = owner.name, port or self.free_port()
        if (node, port) in self._listeners:
            raise OSError(98, f"address in use: {node}:{port}")
        listener = SimListener(self, owner, Address(host, port), factory)
        self._listeners[node, port] = listener
        return listener

    async def connect(self, owner: SimNode, host: str, port: int, handler: ConnectionHandler) -> SimConnection:
        node = owner.name
        target = node if host in ("localhost", "127.0.0.1", "::1", "") else host
        out, back = self.link(node, target), self.link(target, node)
        await asyncio.sleep(self.loop.random.uniform(out.min_delay_ms, out.max_delay_ms) / 1000)
        if out.is_cut or back.is_cut:
            await asyncio.sleep(CONNECT_TIMEOUT_S)
            raise TimeoutError(110, f"no route from {node} to {target}")
        listener = self._listeners.get((target, port))
        while listener is not None and (listener.is_paused or _is_paused(listener.owner.process)):
            await asyncio.sleep(CONNECT_RETRY_S)
            listener = self._listeners.get((target, port))
        if listener is None:
            raise ConnectionRefusedError(111, f"nobody listens on {target}:{port}")
        local, remote = Address(node, self.free_port()), Address(target, port)
        ours = SimConnection(self, owner, local, remote, handler)
        with entered(listener.owner.process):
            theirs = SimConnection(self, listener.owner, remote, local, listener.factory())
        ours.other, theirs.other = theirs, ours
        self._connections[ours] = self._connections[theirs] = None
        self.note(f"connect {local.host}:{local.port}->{remote.host}:{remote.port}")
        theirs.open()
        ours.open()
        return ours


class SimNode:
    """The `Network` port of one process on one node."""

    def __init__(self, network: SimNetwork, name: str, process: Process | None) -> None:
        self._network = network
        self.name = name
        self.process = process

    async def listen(self, host: str, port: int, factory: Callable[[], ConnectionHandler]) -> Listener:
        return self._network.listen(self, host, port, factory)

    async def connect(self, host: str, port: int, handler: ConnectionHandler) -> Connection:
        return await self._network.connect(self, host, port, handler)
