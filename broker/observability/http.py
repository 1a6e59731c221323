"""The optional HTTP port: /metrics in Prometheus text form, /ready and /live for health checks, /health in JSON
for `barnabas cluster health`: since when something is wrong.

Rules: GET and HEAD only, one response a connection; a request head of at most MAX_HEAD_BYTES within HEAD_TIMEOUT_S, a
response that is received within RESPONSE_TIMEOUT_S, at most MAX_CONNECTIONS at a time: one more takes the place of the oldest
that has not asked yet, so that idle connections do not keep others from asking whether the broker lives. The page of metrics is
written in slices, so that the event loop can serve clients of a broker with 10,000 partitions in between; one page at a time,
and requests that arrive meanwhile share the next one.
Source: the Prometheus text exposition format 0.0.4; RFC 9112.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from broker.network.listening.listen_errors import listen_error
from broker.observability.conditions import DIRECTORY_OFFLINE, DISK_FULL, Began, ConditionTimes
from broker.observability.conditions import row as condition_row
from broker.observability.exposition import family_of, header, sample_line
from broker.observability.gauges import gauges, memory
from broker.observability.metric import Metric, Sample
from broker.observability.process_metrics import broker_samples, disk_samples, loop_samples, process_text
from broker.observability.quota_gauges import connection_samples, quota_samples
from broker.observability.readiness import readiness
from runtime.network.transport import Address, Connection, Listener, Network
from runtime.process.os_memory import RETURNED_AT_ONCE_BYTES
from runtime.slices import Slices
from runtime.tasks import TaskScope

if TYPE_CHECKING:
    from broker.server import Broker
    from metadata.image import ClusterImage
    from runtime.clock import Clock
    from runtime.disk.filesystem import Buffer, FileSystem
    from runtime.loop_times import LoopTimes

logger = logging.getLogger(__name__)

MAX_HEAD_BYTES = 8 * 1024
MAX_SKIPPED_BYTES = 256 * 1024
"""Of a head that is too long, what is read to its end, for its client to get an answer."""
MAX_CONNECTIONS = 32
HEAD_TIMEOUT_S = 10
RESPONSE_TIMEOUT_S = 30
SAMPLES_PER_SLICE = 200
SMALL_PAGE_BYTES = 64 * 1024
OK = "200 OK"
TEXT_TYPE = "text/plain; charset=utf-8"
TYPES = {b"/metrics": "text/plain; version=0.0.4; charset=utf-8", b"/health": "application/json"}
_REQUEST_LINE = re.compile(rb"([A-Z]+) (?:http://[^/\s]*)?(/[^?\s]*|\*)(?:\?\S*)?(?: HTTP/1\.[0-9])?\r?\n")
_HEAD_END = re.compile(rb"\n\r?\n")


class HttpServer:
    """The server. `start` before the broker, so that /ready reports its start; `stop` before the broker stops."""

    def __init__(self, broker: Broker, filesystem: FileSystem, clock: Clock, loop_times: LoopTimes) -> None:
        self._broker = broker
        self._loop_times = loop_times
        self._filesystem = filesystem
        self._clock = clock
        self._tasks = TaskScope("http")
        self._conditions = ConditionTimes()
        self._listener: Listener | None = None
        self._making = asyncio.Lock()
        self._begun_count = self._waiting_count = 0
        self._page_to_share: bytearray | None = None
        self.open_count = 0
        self.not_asked: dict[_Exchange, None] = {}  # connections without a complete head, the oldest first

    @property
    def address(self) -> Address:
        assert self._listener is not None, "the HTTP port is not open"
        return self._listener.address

    async def start(self, network: Network, host: str, port: int) -> None:
        """Open the port. Raises OSError."""
        try:
            self._listener = await network.listen(host, port, lambda: _Exchange(self))
        except OSError as error:
            raise listen_error(f"barnabas.http.host={host}, barnabas.http.port={port}", error) from error
        self._broker.metadata.subscribe(self._on_image)

    def _on_image(self, image: ClusterImage) -> None:
        self._conditions.on_image(image, self._clock.wall_ms())

    async def stop(self) -> None:
        self._broker.metadata.unsubscribe(self._on_image)
        if self._listener is not None:
            await self._listener.close()
        await self._tasks.close()

    def respond(self, head: bytes | None, exchange: _Exchange) -> None:
        """Respond to a complete request head, None when it was too long, and close the connection."""
        self._tasks.spawn(self._respond(head, exchange), name="HTTP response")

    async def _respond(self, head: bytes | None, exchange: _Exchange) -> None:
        asked = None if head is None else _REQUEST_LINE.match(head)
        method, path = asked.groups() if asked is not None else (b"", b"")
        body: bytes | bytearray
        try:
            if head is None:
                status, body = "431 Request Header Fields Too Large", b"a request has at most 8 KiB\n"
            elif asked is None:
                status, body = "400 Bad Request", b"not a request of HTTP/1.1 without TLS\n"
            else:
                status, body = await self._page(method, path)
        except Exception:
            logger.exception("HTTP page not served: path=%r", path.decode("latin-1"))
            status, body = "500 Internal Server Error", b"the broker's log says why\n"
        content_type = TYPES.get(path, TEXT_TYPE) if status == OK else TEXT_TYPE
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
        lines += ["Allow: GET, HEAD", "Connection: close", "", ""]
        exchange.send(["\r\n".join(lines).encode(), *([] if method == b"HEAD" else [body])])

    async def _page(self, method: bytes, path: bytes) -> tuple[str, bytes | bytearray]:
        if method not in (b"GET", b"HEAD"):
            return "405 Method Not Allowed", b"only GET and HEAD\n"
        match path:
            case b"/live":
                return OK, b"live\n"
            case b"/ready":
                status, text = readiness(self._broker)
                return status, text.encode("utf-8", "backslashreplace")
            case b"/health":
                return OK, await self._health()
            case b"/metrics":
                return OK, await self._metrics()
            case _:
                return "404 Not Found", b"there are /metrics, /health, /ready and /live\n"

    async def _health(self) -> bytes:
        """Return since when conditions hold, as JSON, made in slices."""
        rows = [json.dumps(row) for row in self._directory_conditions()]
        for number, row in enumerate(self._conditions.rows()):
            if number % SAMPLES_PER_SLICE == SAMPLES_PER_SLICE - 1:
                await asyncio.sleep(0)
            rows.append(json.dumps(row))
        who = json.dumps({"broker": self._broker.broker_id, "cluster_id": self._broker.cluster_id})
        return f'{who[:-1]}, "conditions": [{", ".join(rows)}]}}\n'.encode()

    def _directory_conditions(self) -> Iterator[dict[str, Any]]:
        if not self._broker.is_ready:
            return
        logs, broker_id = self._broker.services.logs, self._broker.broker_id
        for condition, times in ((DIRECTORY_OFFLINE, logs.offline_since_ms), (DISK_FULL, logs.space.full_since_ms)):
            for path, since_ms in sorted(times.items()):
                yield condition_row(condition, f"{broker_id}:{path}", Began(since_ms, seen_first=False))

    async def _metrics(self) -> bytearray:
        """Return the page as it is at the time of the request, or later."""
        begun_count = self._begun_count
        self._waiting_count += 1
        try:
            async with self._making:
                page = self._page_to_share if self._begun_count > begun_count else None
                if page is None:
                    self._begun_count += 1
                    self._page_to_share = None
                    page = self._page_to_share = await self._make_metrics()
                return page
        finally:
            self._waiting_count -= 1
            if not self._waiting_count:
                self._page_to_share = None

    async def _make_metrics(self) -> bytearray:
        samples = page_samples(self._broker, self._loop_times, self._filesystem)
        page = _Page()
        page.add(process_text(self._filesystem))
        slices = Slices(self._clock)
        last: tuple[Metric, str] | None = None
        lines: list[str] = []
        for sample in samples:
            is_due = len(lines) >= SAMPLES_PER_SLICE
            if (family := family_of(sample)) != last:
                last = family
                is_due = is_due or slices.is_over  # the value of a single sample may be the sum of 10,000
                lines += header(*family)
            lines.append(sample_line(sample))
            if is_due:
                page.add("".join(lines))
                lines.clear()
                await asyncio.sleep(0)
                slices = Slices(self._clock)
        page.add("".join(lines))
        return page.content()


def page_samples(broker: Broker, loop_times: LoopTimes, filesystem: FileSystem) -> Iterator[Sample]:
    """Return everything that the broker has to tell now, those of one metric together; little before it is ready."""
    samples: Iterator[Sample] = chain(broker_samples(broker), loop_samples(loop_times), disk_samples(filesystem))
    if not broker.is_ready:
        return samples
    services = broker.services
    services.metrics.keep_topics(services.metadata.image.topics)
    now_ms = services.clock.monotonic_ms()
    return chain(
        samples,
        services.metrics.samples(),
        gauges(services),
        quota_samples(services.quotas, services.metrics.requests.counts(), now_ms),
        connection_samples(broker.acceptor, now_ms),
        memory(broker.request_budget, broker.plain_budget),
    )


class _Page:
    """Text that is written in pieces. For 10,000 partitions it has megabytes, which the process would keep if they were
    allocated in pieces: a larger page is written into memory that is returned to the kernel with it."""

    def __init__(self) -> None:
        self._buffer = bytearray(SMALL_PAGE_BYTES)
        self._size = 0

    def add(self, text: str) -> None:
        piece = text.encode()
        end = self._size + len(piece)
        if end > len(self._buffer):
            larger = bytearray(2 * max(end, RETURNED_AT_ONCE_BYTES))
            larger[: self._size] = memoryview(self._buffer)[: self._size]
            self._buffer = larger
        self._buffer[self._size : end] = piece
        self._size = end

    def content(self) -> bytearray:
        """Return the page; nothing is added afterwards."""
        del self._buffer[self._size :]
        return self._buffer


class _Exchange:
    """One connection: receives a request head, sends a response."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._connection: Connection | None = None
        self._buffer = bytearray(1024)
        self._head = bytearray()
        self._skipped_bytes = 0
        self._is_complete = False
        self._timeout: asyncio.TimerHandle | None = None

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        server = self._server
        server.open_count += 1
        server.not_asked[self] = None
        self._abort_after(HEAD_TIMEOUT_S)
        if server.open_count > MAX_CONNECTIONS:
            next(iter(server.not_asked)).abort()

    def abort(self) -> None:
        """Another takes this connection's place."""
        self._server.not_asked.pop(self, None)
        if self._connection is not None:
            self._connection.abort()

    def receive_buffer(self, size_hint: int) -> memoryview:
        return memoryview(self._buffer)

    def received(self, count: int) -> None:
        assert self._connection is not None
        if self._is_complete:
            return
        head = self._head
        head += self._buffer[:count]
        if _HEAD_END.search(head) is not None:
            self._is_complete = True
            self._server.not_asked.pop(self, None)
            self._cancel_timeout()
            self._server.respond(None if self._skipped_bytes else bytes(head), self)
        elif len(head) > MAX_HEAD_BYTES:
            self._skipped_bytes += len(head) - len(b"\n\r")
            del head[: -len(b"\n\r")]
            if self._skipped_bytes > MAX_SKIPPED_BYTES:
                self._connection.abort()

    def send(self, response: Sequence[Buffer]) -> None:
        """Send the response, and close the connection when the client has received it, or after a timeout: otherwise its
        memory, and one of MAX_CONNECTIONS, would remain in use."""
        connection = self._connection
        if connection is not None:
            connection.write(response)
            connection.close()
            self._abort_after(RESPONSE_TIMEOUT_S)

    def writing_paused(self) -> None:
        """Do nothing: only the queued response is written."""

    def writing_resumed(self) -> None:
        """Do nothing, as above."""

    def disconnected(self, error: Exception | None) -> None:
        self._connection = None
        self._server.open_count -= 1
        self._server.not_asked.pop(self, None)
        self._cancel_timeout()

    def _abort_after(self, timeout_s: float) -> None:
        assert self._connection is not None
        self._timeout = asyncio.get_running_loop().call_later(timeout_s, self.abort)

    def _cancel_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
