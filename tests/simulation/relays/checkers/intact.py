"""What is delivered is what was produced: key, value, headers, where it came from, and the partition that the rule says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from zlib import crc32

from protocol.key_hashes import by_murmur2
from tests.simulation.relays.facts import (
    SOURCE_OFFSET,
    SOURCE_PARTITION,
    SOURCE_TIMESTAMP,
    SOURCE_TOPIC,
    Finals,
    Stored,
)
from tests.simulation.relays.plan import PlannedRule


def altered(finals: Finals, rules: Mapping[str, PlannedRule]) -> Iterator[str]:
    sources = {each.value: each for records in finals.sources.values() for each in records}
    targets = {rule.target for rule in rules.values()}
    for key, records in finals.outputs.items():
        for stored in records if key[0] in targets else ():
            source = sources.get(stored.value)
            if source is not None:
                yield from _compared(source, stored, rules[source.topic])


def _compared(source: Stored, stored: Stored, rule: PlannedRule) -> Iterator[str]:
    if stored.record.key != source.record.key:
        yield f"altered: {stored} has another key than {source}"
    own = [each for each in source.record.headers if not each[0].startswith("barnabas-")]
    if [each for each in stored.record.headers if not each[0].startswith("barnabas-")] != own:
        yield f"altered: {stored} has other headers than {source}"
    place = (source.topic, str(source.partition), str(source.offset), str(source.record.timestamp))
    found = tuple(stored.header(name) for name in (SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET, SOURCE_TIMESTAMP))
    if found != place:
        yield f"altered: {stored} comes from {place}, and says {found}"
    if stored.partition != _partition(source, rule):
        yield f"altered: {stored} belongs to partition {_partition(source, rule)}"


def _partition(source: Stored, rule: PlannedRule) -> int:
    key = source.record.key or b""
    if rule.partitioner == "same":
        return source.partition
    return crc32(key) % rule.partitions if rule.partitioner == "crc32" else by_murmur2(key, rule.partitions)
