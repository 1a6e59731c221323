"""The partitions of keys, as clients choose them."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from barnabas.embedded import EmbeddedBroker
from protocol.key_hashes import PARTITIONERS, by_murmur2, murmur2

KEYS = [b"", b"a", b"abc", b"\xff\x00\x80", b"order-4711", *(str(number).encode() for number in range(60))]
# What librdkafka calls them.
LIBRDKAFKA = {"murmur2": "murmur2", "crc32": "consistent", "fnv1a": "fnv1a"}


def test_keys_go_where_java_clients_put_them() -> None:
    # From Apache Kafka's UtilsTest: the hashes as signed numbers of 32 bits.
    known = {
        b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829, b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }  # fmt: skip
    assert {key: murmur2(key) for key in known} == {key: value & 0xFFFFFFFF for key, value in known.items()}
    assert by_murmur2(b"21", 7) == (-973932308 & 0x7FFFFFFF) % 7


@pytest.mark.parametrize("name", PARTITIONERS)
def test_keys_go_where_librdkafka_puts_them(name: str) -> None:
    with EmbeddedBroker(topics={"keyed": 7}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "partitioner": LIBRDKAFKA[name]})
        found: dict[bytes, int] = {}
        for key in KEYS:
            producer.produce(
                "keyed", b"", key, on_delivery=lambda _error, m: found.update({m.key() or b"": m.partition()})
            )
        producer.flush()
    assert found == {key: PARTITIONERS[name](key, 7) for key in KEYS}
