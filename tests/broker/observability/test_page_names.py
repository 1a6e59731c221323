"""What jmx_exporter gives of a cluster of Apache Kafka 3.9.1, the pages of a cluster of ours have, too: names and labels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import cast

from broker.observability.http import page_samples
from broker.observability.not_kept import NOT_KEPT, OTHER_LABELS
from broker.server import Broker
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from runtime.disk.filesystem import FileSystem
from runtime.disk.os_filesystem import OsFileSystem
from runtime.loop_times import LoopTimes
from runtime.monitoring.exposition import family_of, header, sample_line
from storage.log.record_errors import RecordsTooLarge
from tests.async_tests import simulated
from tests.broker.cluster_world import ClusterWorld
from tests.simulation.loop import SimLoop

EXPORTED = [
    line for line in (Path(__file__).parent / "jmx-exporter-3.9.txt").read_text().splitlines() if line[:1] != "#"
]
MISSING = [pattern for patterns in NOT_KEPT.values() for pattern in patterns]

Names = set[tuple[str, frozenset[str]]]


def page_of(broker: Broker) -> str:
    lines: list[str] = []
    last = None
    for sample in page_samples(broker, LoopTimes(), cast(FileSystem, OsFileSystem())):
        if family_of(sample) != last:
            last = family_of(sample)
            lines += header(*last)
        lines.append(sample_line(sample))
    return "".join(lines)


def names_on(page: str) -> Names:
    lines = (re.match(r"([a-z_:0-9]+)(?:{(.*)})? ", line) for line in page.splitlines() if line[:1] != "#")
    return {(line[1], frozenset(re.findall(r'([a-zA-Z_]+)="', line[2] or ""))) for line in lines if line is not None}


def wanted() -> Iterator[tuple[str, frozenset[str]]]:
    """The samples that are not named as missing."""
    for line in EXPORTED:
        name, _, labels = line.split(" ")
        if name not in OTHER_LABELS and not any(_covers(pattern, name) for pattern in MISSING):
            yield name, frozenset(filter(None, labels.split(",")))


def _covers(pattern: str, name: str) -> bool:
    """Whether a pattern of MBeans stands for the metric of that name."""
    domain, keys = pattern.split(":", 1)
    values = [key.partition("=")[2] for key in keys.split(",")[:2] if key.startswith(("type=", "name="))]
    if len(values) < 2 and not keys.endswith(",*"):
        return False
    told = "_".join([domain, *values, *(["*"] if keys.endswith(",*") else [])]).removesuffix("PerSec").lower()
    told = re.sub(r"[.\-]", "_", told)
    return any(fnmatchcase(each, told) for each in (name, name.removesuffix("_count"), name.removesuffix("_total")))


@simulated(5)
async def test_the_pages_of_a_cluster_have_every_name(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    await world.create_topic("orders")
    for number in range(5):
        assert await world.produce("orders", b"%d" % number) == (ErrorCode.NONE, number)
    found: Names = set()
    for broker in world.live.values():
        services = broker.services
        services.metrics.produce_failed(RecordsTooLarge(ErrorCode.MESSAGE_TOO_LARGE, "too large", 2_000), "orders")
        services.metrics.produce_failed(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS), "orders")
        services.metrics.fetch_failed("orders")
        quota = {"producer_byte_rate": "1000", "consumer_byte_rate": "1000", "request_percentage": "50"}
        services.quotas.apply_entity("clients/limited", {**quota, "controller_mutation_rate": "5"})
        for each in (services.quotas.produce, services.quotas.request, services.quotas.mutation):
            each.rate_of("somebody", "limited", services.clock.monotonic_ms()).record(1, services.clock.monotonic_ms())
    answer = await world.ask(1, HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3, HeartbeatResponse)
    assert answer.error_code is not ErrorCode.NONE
    for broker in world.live.values():
        found |= names_on(page_of(broker))
    missing = [each for each in wanted() if each not in found]
    assert not missing, sorted(name for name, _ in missing)
