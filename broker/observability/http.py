"""The pages of the optional HTTP port: /metrics in Prometheus text form, /metrics/clients with what clients have pushed,
/ready and /live for health checks, /health in JSON for `barnabas cluster health`: since when something is wrong.

Rules: `runtime.monitoring.http_port` reads requests and sends pages. The page of metrics is
written in slices, so that the event loop can serve clients of a broker with 10,000 partitions in between; one page at a time,
and requests that arrive meanwhile share the next one.
Source: the Prometheus text exposition format 0.0.4.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from broker.observability.conditions import (
    DIRECTORY_OFFLINE,
    DISK_FULL,
    RECENT_MS,
    SHARE_GAVE_UP,
    SHARE_LOCKS_RAN_OUT,
    Began,
    ConditionTimes,
)
from broker.observability.conditions import row as condition_row
from broker.observability.gauges import gauges, memory
from broker.observability.process_metrics import broker_samples, disk_samples, loop_samples
from broker.observability.quota_gauges import connection_samples, quota_samples
from broker.observability.readiness import readiness
from runtime.monitoring.exposition import family_of, header, sample_line
from runtime.monitoring.http_port import METRICS_TYPE, OK, HttpPort
from runtime.monitoring.metric import Metric, Sample
from runtime.monitoring.process_text import process_text
from runtime.network.transport import Address, Network
from runtime.process.os_memory import RETURNED_AT_ONCE_BYTES
from runtime.slices import Slices

if TYPE_CHECKING:
    from broker.server import Broker
    from metadata.image import ClusterImage
    from runtime.clock import Clock
    from runtime.disk.filesystem import FileSystem
    from runtime.loop_times import LoopTimes

SAMPLES_PER_SLICE = 200
SMALL_PAGE_BYTES = 64 * 1024
TYPES = {b"/metrics": METRICS_TYPE, b"/metrics/clients": METRICS_TYPE, b"/health": "application/json"}


class HttpServer:
    """The server. `start` before the broker, so that /ready reports its start; `stop` before the broker stops."""

    def __init__(self, broker: Broker, filesystem: FileSystem, clock: Clock, loop_times: LoopTimes) -> None:
        self._broker = broker
        self._loop_times = loop_times
        self._filesystem = filesystem
        self._clock = clock
        self._conditions = ConditionTimes()
        self._port = HttpPort(self._page, TYPES)
        self._metrics = _SharedPage(self._make_metrics)
        self._clients = _SharedPage(self._make_clients)

    @property
    def address(self) -> Address:
        return self._port.address

    async def start(self, network: Network, host: str, port: int) -> None:
        """Open the port. Raises OSError."""
        await self._port.start(network, host, port)
        self._broker.metadata.subscribe(self._on_image)

    def _on_image(self, image: ClusterImage) -> None:
        self._conditions.on_image(image, self._clock.wall_ms())

    async def stop(self) -> None:
        self._broker.metadata.unsubscribe(self._on_image)
        await self._port.stop()

    async def _page(self, path: bytes) -> tuple[str, bytes | bytearray]:
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
            case b"/metrics/clients":
                return OK, await self._clients()
            case _:
                return "404 Not Found", b"there are /metrics, /metrics/clients, /health, /ready and /live\n"

    async def _health(self) -> bytes:
        """Return since when conditions hold, as JSON, made in slices."""
        rows = [json.dumps(row) for row in (*self._directory_conditions(), *self._share_conditions())]
        for number, row in enumerate(self._conditions.rows()):
            if number % SAMPLES_PER_SLICE == SAMPLES_PER_SLICE - 1:
                await asyncio.sleep(0)
            rows.append(json.dumps(row))
        who = json.dumps({"broker": self._broker.broker_id, "cluster_id": self._broker.cluster_id})
        return f'{who[:-1]}, "conditions": [{", ".join(rows)}]}}\n'.encode()

    def _share_conditions(self) -> Iterator[dict[str, Any]]:
        """Yield what members of share groups do not get done, by group and partition."""
        if not self._broker.is_ready:
            return
        since_ms = self._clock.wall_ms() - RECENT_MS
        for shared in list(self._broker.services.sharing):
            for condition, at_ms in (
                (SHARE_GAVE_UP, shared.gave_up_ms),
                (SHARE_LOCKS_RAN_OUT, shared.lock_timed_out_ms),
            ):
                if at_ms is not None and at_ms > since_ms:
                    name = f"{shared.group_id} {shared.partition.topic}-{shared.index}"
                    yield condition_row(condition, name, Began(at_ms, seen_first=False))

    def _directory_conditions(self) -> Iterator[dict[str, Any]]:
        if not self._broker.is_ready:
            return
        logs, broker_id = self._broker.services.logs, self._broker.broker_id
        for condition, times in ((DIRECTORY_OFFLINE, logs.offline_since_ms), (DISK_FULL, logs.space.full_since_ms)):
            for path, since_ms in sorted(times.items()):
                yield condition_row(condition, f"{broker_id}:{path}", Began(since_ms, seen_first=False))

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

    async def _make_clients(self) -> bytearray:
        """Return what clients have pushed; nothing before the broker is ready."""
        page = _Page()
        if not self._broker.is_ready:
            return page.content()
        series = self._broker.services.telemetry.series
        series.forget_old(self._clock.monotonic_ms())
        slices = Slices(self._clock)
        lines: list[str] = []
        for piece in series.page():
            lines.append(piece)
            if len(lines) >= SAMPLES_PER_SLICE:
                page.add("".join(lines))
                lines.clear()
                await slices.yield_if_due()
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


class _SharedPage:
    """A page that takes long to make: one at a time is made, and requests that arrive meanwhile share the next one."""

    def __init__(self, make: Callable[[], Awaitable[bytearray]]) -> None:
        self._make = make
        self._making = asyncio.Lock()
        self._begun_count = self._waiting_count = 0
        self._page_to_share: bytearray | None = None

    async def __call__(self) -> bytearray:
        """Return the page as it is at the time of the request, or later."""
        begun_count = self._begun_count
        self._waiting_count += 1
        try:
            async with self._making:
                page = self._page_to_share if self._begun_count > begun_count else None
                if page is None:
                    self._begun_count += 1
                    self._page_to_share = None
                    page = self._page_to_share = await self._make()
                return page
        finally:
            self._waiting_count -= 1
            if not self._waiting_count:
                self._page_to_share = None


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
