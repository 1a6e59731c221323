"""Dictionaries by partition and by replica, for the controller, which has several with thousands of keys. Pure.

A topic's values are in one list, indexed by partition: 8 bytes each, where a tuple as key takes a hundred. Partitions are
numbered from 0 without gaps; nodes that were written by hand may have any numbers, so a number far above the others has a key
of its own.
Rules: a value is never None. Iteration is by topic, in the order of insertion, and by number within a topic.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Generic, TypeVar

from protocol.topic_partition import TopicPartition

_Replica = tuple[str, int, int]  # topic, partition, broker

V = TypeVar("V")

GAP_MAX = 64  # empty entries of a list for one that is used


class PartitionMap(MutableMapping[TopicPartition, V], Generic[V]):
    __slots__ = ("_count", "_rows", "_strays")

    def __init__(self) -> None:
        self._rows: dict[str, list[V | None]] = {}
        self._strays: dict[TopicPartition, V] = {}
        self._count = 0

    def find(self, key: TopicPartition) -> V | None:
        name, partition = key
        row = self._rows.get(name)
        if row is not None and 0 <= partition < len(row):
            value = row[partition]
            if value is not None:
                return value
        return self._strays.get(key) if self._strays else None

    def __getitem__(self, key: TopicPartition) -> V:
        value = self.find(key)
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return isinstance(key, tuple) and self.find(key) is not None

    def of(self, name: str) -> Iterator[tuple[int, V]]:
        """Iterate over the values of one topic, by number."""
        for partition, value in enumerate(self._rows.get(name, ())):
            if value is not None:
                yield partition, value
        for (topic, partition), value in self._strays.items():
            if topic == name:
                yield partition, value

    def __setitem__(self, key: TopicPartition, value: V) -> None:
        name, partition = key
        row = self._rows.get(name, ())
        if key in self._strays or not 0 <= partition <= len(row) + GAP_MAX:
            self._count += key not in self._strays
            self._strays[key] = value
            return
        if not isinstance(row, list):
            row = self._rows[name] = []
        if partition >= len(row):
            row += [None] * (partition - len(row))
            row.append(value)
            self._count += 1
            return
        self._count += row[partition] is None
        row[partition] = value

    def __delitem__(self, key: TopicPartition) -> None:
        self[key]  # raises KeyError
        self._count -= 1
        if self._strays.pop(key, None) is not None:
            return
        name, partition = key
        row = self._rows[name]
        row[partition] = None
        while row and row[-1] is None:
            row.pop()
        if not row:
            del self._rows[name]

    def __iter__(self) -> Iterator[TopicPartition]:
        return (key for key, _ in self.pairs())

    def pairs(self) -> Iterator[tuple[TopicPartition, V]]:
        """Iterate like `items`, without a lookup of each value."""
        for name, row in self._rows.items():
            for partition, value in enumerate(row):
                if value is not None:
                    yield (name, partition), value
        yield from self._strays.items()

    def __len__(self) -> int:
        return self._count


class ReplicaMap(MutableMapping[_Replica, V], Generic[V]):
    __slots__ = ("_by_broker",)

    def __init__(self) -> None:
        self._by_broker: dict[int, PartitionMap[V]] = {}

    def find(self, key: _Replica) -> V | None:
        name, partition, broker_id = key
        found = self._by_broker.get(broker_id)
        return None if found is None else found.find((name, partition))

    def __getitem__(self, key: _Replica) -> V:
        value = self.find(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: _Replica, value: V) -> None:
        name, partition, broker_id = key
        found = self._by_broker.get(broker_id)
        if found is None:
            found = self._by_broker[broker_id] = PartitionMap()
        found[name, partition] = value

    def __delitem__(self, key: _Replica) -> None:
        name, partition, broker_id = key
        found = self._by_broker[broker_id]
        del found[name, partition]
        if not found:
            del self._by_broker[broker_id]

    def __iter__(self) -> Iterator[_Replica]:
        for broker_id, found in self._by_broker.items():
            for name, partition in found:
                yield name, partition, broker_id

    def __len__(self) -> int:
        return sum(map(len, self._by_broker.values()))
