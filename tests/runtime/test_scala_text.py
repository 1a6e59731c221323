"""Texts that Apache Kafka 3.9.1 sent (tests/differential/recorded), and the class of sets by their size."""

from __future__ import annotations

from runtime.scala_text import array_buffer, hash_map_of_buffers, hash_set, immutable_set


def test_collections_as_scala_prints_them() -> None:
    assert array_buffer([0, -1]) == "ArrayBuffer(0, -1)"
    assert array_buffer([]) == "ArrayBuffer()"
    assert immutable_set([1, 2, 3]) == "Set(1, 2, 3)"
    assert immutable_set(range(5)) == "HashSet(0, 1, 2, 3, 4)"
    assert hash_set(["ssl.keystore.password"]) == "HashSet(ssl.keystore.password)"
    assert hash_map_of_buffers({0: (0, 0), 1: (2,)}) == "HashMap(0 -> ArrayBuffer(0, 0), 1 -> ArrayBuffer(2))"
