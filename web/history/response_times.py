"""Response times that brokers tell of themselves, in the text form of Prometheus: brokers of ours, and those of Apache Kafka
with the JMX exporter.

Rules: of each broker the 99th percentile of `REQUESTS`. Bounded: brokers are asked side by side, each may take `ANSWER_S` and
tell `ANSWER_BYTES`; lines are read as they come in. A broker that does not answer has no response times.
Source: the exposition format of Prometheus; kafka.network:type=RequestMetrics,name=TotalTimeMs.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

REQUESTS: Final = ("Produce", "FetchConsumer", "FetchFollower")
QUANTILE: Final = 0.99
ANSWER_S: Final = 5.0
ANSWER_BYTES: Final = 32 * 1024 * 1024
NAME: Final = b"kafka_network_requestmetrics_totaltimems{"
_LINE = re.compile(r"\w+\{(?P<labels>[^}]*)\}\s+(?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="([^"\\]*)"')

logger = logging.getLogger(__name__)


class ResponseTimes:
    """`urls` are where brokers tell their metrics."""

    def __init__(self, urls: Sequence[str], http: httpx.AsyncClient) -> None:
        self._brokers = {url: urlsplit(url).netloc for url in urls}
        self._http = http
        self._silent: set[str] = set()

    async def told(self) -> dict[str, dict[str, float]]:
        """Return the response times in ms by request, of each broker that answers."""
        found = await asyncio.gather(*(self._ask(url) for url in self._brokers))
        return {broker: times for broker, times in zip(self._brokers.values(), found, strict=True) if times is not None}

    async def _ask(self, url: str) -> dict[str, float] | None:
        try:
            async with asyncio.timeout(ANSWER_S):
                lines = await self._matching_lines(url)
        except (httpx.HTTPError, TimeoutError) as error:
            if url not in self._silent:
                self._silent.add(url)
                logger.warning(
                    "metrics not read, retrying: document=%s error=%s", url, str(error) or type(error).__name__
                )
            return None
        self._silent.discard(url)
        return response_times(lines)

    async def _matching_lines(self, url: str) -> list[str]:
        """Raises httpx.HTTPError."""
        found: list[str] = []
        rest, left = b"", ANSWER_BYTES
        async with self._http.stream("GET", url) as response:
            response.raise_for_status()
            async for chunk in response.aiter_bytes():
                left -= len(chunk)
                if left < 0:
                    break
                *lines, rest = (rest + chunk).split(b"\n")
                found += [line.decode("utf-8", "replace") for line in lines if line.startswith(NAME)]
        return found


def response_times(lines: Iterable[str]) -> dict[str, float]:
    """Return the 99th percentile of each of `REQUESTS` that the lines have."""
    found: dict[str, float] = {}
    for line in lines:
        match = _LINE.match(line)
        labels = {} if match is None else dict(_LABEL.findall(match["labels"]))
        if match is None or labels.get("request") not in REQUESTS or _number(labels.get("quantile", "")) != QUANTILE:
            continue
        value = _number(match["value"])
        if math.isfinite(value):
            found[labels["request"]] = value
    return found


def _number(text: str) -> float:
    """Return a number, NaN for what is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
