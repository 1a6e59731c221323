"""Client metrics of this broker: answers what clients are to push, and takes what they push.

Rules: what is pushed is unfolded in slices, one push at a time, so that neither the event loop nor the memory suffers from one
that is made to. It may unfold to `barnabas.client.metrics.unfolded.max.bytes`, and have ITEMS_MAX data points. There is at most
one line in LOG_INTERVAL_MS about what was left out.
Source: KIP-714; Kafka 4.3 ClientMetricsManager.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.telemetry.instances import Instances
from broker.telemetry.series import Limits, Series
from broker.telemetry.subscriptions import ClientFacts, Subscriptions
from broker.telemetry.unfolding import LABEL_VALUE_MAX, Left, otlp, unfold
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from protocol.messages.push_telemetry import PushTelemetryRequest
from protocol.primitives import ZERO_UUID, uuid_to_text
from protocol.records.compression import Compression, DecompressionTooLarge, decompress_chunks
from protocol.records.invalid import InvalidBatch
from runtime.randomness import uuid_bytes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.network.connections.client_connection import RequestFacts
    from broker.telemetry.instances import Instance
    from config.broker import BrokerSettings
    from runtime.clock import Clock
    from runtime.randomness import Randomness
    from runtime.slices import SerialQueue, Slices

logger = logging.getLogger(__name__)

TELEMETRY_KEYS = frozenset((GetTelemetrySubscriptionsRequest.api_key, PushTelemetryRequest.api_key))
ITEMS_MAX = 20_000
"""Steps of unfolding one push: its metrics, data points, and fields that nobody knows."""
LOG_INTERVAL_MS = 60_000
ACCEPTED_CODECS = [Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY]
"""The best first."""
NO_SOFTWARE = ("unknown", "unknown")
_RESERVED_IDS = (ZERO_UUID, bytes(15) + b"\1")


class ClientTelemetry:
    """Made once. `subscriptions` are replaced by whoever follows their settings."""

    def __init__(
        self,
        settings: Callable[[], BrokerSettings],
        clock: Clock,
        randomness: Randomness,
        queue: SerialQueue,
        in_thread: Callable[[Callable[[], object]], Awaitable[object]],
    ) -> None:
        """`in_thread` runs something in a thread of the broker's."""
        self._settings = settings
        self._clock = clock
        self._randomness = randomness
        self._queue = queue
        self._in_thread = in_thread
        self._is_loaded = False
        self.subscriptions = Subscriptions()
        self.instances = Instances(self.subscriptions)
        self.series = Series(_limits(settings()))
        self.throttled_count = self.unknown_subscriptions_count = 0
        self.pushes_count = self.refused_count = 0
        """Pushes that were unfolded, and those of them that could not be."""
        self._logged_ms: int | None = None
        self._logged_count = 0

    def ask(
        self, request: GetTelemetrySubscriptionsRequest, context: RequestFacts
    ) -> GetTelemetrySubscriptionsResponse:
        """Return what a client is to push. Raises KafkaError when it asks too early."""
        instance_id = request.client_instance_id
        if instance_id == ZERO_UUID:
            instance_id = self._new_id()
        now_ms = self._clock.monotonic_ms()
        instance = self._heard(instance_id, context, now_ms)
        code = instance.take_ask(now_ms)
        if code is not ErrorCode.NONE:
            self.throttled_count += 1
            raise KafkaError(code)
        asked = instance.asked
        return GetTelemetrySubscriptionsResponse(
            throttle_time_ms=0,
            error_code=ErrorCode.NONE,
            client_instance_id=instance_id,
            subscription_id=asked.subscription_id,
            accepted_compression_types=list(ACCEPTED_CODECS),
            push_interval_ms=asked.interval_ms,
            telemetry_max_bytes=self._settings().telemetry_max_bytes,
            delta_temporality=True,
            requested_metrics=list(asked.metrics),
        )

    async def push(self, request: PushTelemetryRequest, context: RequestFacts) -> ErrorCode:
        """Take a push, and return what its response says."""
        if request.client_instance_id in _RESERVED_IDS:
            return ErrorCode.INVALID_REQUEST
        now_ms = self._clock.monotonic_ms()
        instance = self._heard(request.client_instance_id, context, now_ms)
        code = instance.take_push(
            request.subscription_id,
            request.compression_type,
            len(request.metrics),
            self._settings().telemetry_max_bytes,
            is_last=request.terminating,
            now_ms=now_ms,
        )
        self.throttled_count += code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        self.unknown_subscriptions_count += code is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if code is not ErrorCode.NONE or not request.metrics:
            return code
        if not instance.asked.metrics:
            self.series.left[Left.NOT_ASKED] += 1
            return code
        if not self._is_loaded:
            await self._in_thread(otlp)
            self._is_loaded = True
        async with self._queue.begin() as slices:
            instance.error = await self._unfolded(request, instance, context, slices)
        self.pushes_count += 1
        self.refused_count += instance.error is not ErrorCode.NONE
        self._log_what_was_left()
        return instance.error

    async def _unfolded(
        self, request: PushTelemetryRequest, instance: Instance, context: RequestFacts, slices: Slices
    ) -> ErrorCode:
        try:
            data = await self._decompressed(request, slices)
        except DecompressionTooLarge:
            return ErrorCode.TELEMETRY_TOO_LARGE
        except InvalidBatch:
            return ErrorCode.INVALID_RECORD
        asked, series, now_ms = instance.asked, self.series, self._clock.monotonic_ms()
        taken = series.begin(
            request.client_instance_id, _shown(context.client_id or ""), _facts_to_show(instance.facts, context), now_ms
        )
        if taken is None:
            return ErrorCode.NONE
        try:
            for number, item in enumerate(unfold(data)):
                if number == ITEMS_MAX:
                    series.left[Left.SIZE] += 1
                    break
                taken.take(item, asked)
                await slices.yield_if_due()
        except ValueError:
            return ErrorCode.INVALID_RECORD
        finally:
            series.end(taken, asked, now_ms, is_last=request.terminating)
        return ErrorCode.NONE

    async def _decompressed(self, request: PushTelemetryRequest, slices: Slices) -> bytes:
        """Raises InvalidBatch, DecompressionTooLarge."""
        codec, max_bytes = (
            Compression(request.compression_type),
            self._settings().barnabas_client_metrics_unfolded_max_bytes,
        )
        chunks = []
        for chunk in decompress_chunks(codec, request.metrics, max_bytes):
            chunks.append(bytes(chunk))
            await slices.yield_if_due()
        return b"".join(chunks)

    def _heard(self, instance_id: bytes, context: RequestFacts, now_ms: int) -> Instance:
        is_followed = self.instances.is_connected(context.connection_id)
        software_name, software_version = context.software or NO_SOFTWARE
        peer = context.connection.peer
        facts = ClientFacts(
            client_instance_id=uuid_to_text(instance_id),
            client_id=context.client_id,
            client_software_name=software_name,
            client_software_version=software_version,
            client_source_address=peer.host,
            client_source_port=str(peer.port),
        )
        instance = self.instances.heard(instance_id, facts, context.connection_id, now_ms)
        if not is_followed and self.instances.is_connected(context.connection_id):
            connection_id = context.connection_id
            context.on_close(lambda: self.instances.disconnected(connection_id))
        return instance

    def _new_id(self) -> bytes:
        while (instance_id := uuid_bytes(self._randomness)) in self.instances:
            pass
        return instance_id

    def _log_what_was_left(self) -> None:
        left, now_ms = self.series.left, self._clock.monotonic_ms()
        count = left.total()
        if count == self._logged_count or (self._logged_ms is not None and now_ms - self._logged_ms < LOG_INTERVAL_MS):
            return
        reasons = ",".join(f"{each.value}:{left[each]}" for each in Left if left[each])
        logger.warning("client metrics left out: points=%d reasons=%s", count - self._logged_count, reasons)
        self._logged_ms, self._logged_count = now_ms, count


def _limits(settings: BrokerSettings) -> Limits:
    return Limits(
        clients=settings.barnabas_client_metrics_clients_max,
        series_of_client=settings.barnabas_client_metrics_series_per_client_max,
        names=settings.barnabas_client_metrics_names_max,
        size_bytes=settings.barnabas_client_metrics_memory_bytes,
        age_max_ms=settings.barnabas_client_metrics_age_max_ms,
    )


def _facts_to_show(facts: ClientFacts, context: RequestFacts) -> tuple[tuple[str, str], ...]:
    shown = (
        ("client_software_name", facts.client_software_name),
        ("client_software_version", facts.client_software_version),
        ("client_source_address", facts.client_source_address),
        ("principal", str(context.principal)),
    )
    return tuple((name, _shown(value)) for name, value in shown)


def _shown(text: str) -> str:
    """Return text as a label's value: what is no Unicode is escaped, and what is too long is cut."""
    return text.encode("utf-8", "backslashreplace").decode()[:LABEL_VALUE_MAX]
