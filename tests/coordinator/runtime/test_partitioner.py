"""Groups live where Java's arithmetic puts them."""

from __future__ import annotations

import pytest

from coordinator.runtime.partitioner import CACHED_KEY_LENGTH_MAX, java_string_hash, partition_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("Hello, World!", 1_498_789_909),
        ("\u00e9", 233),
        # Outside the basic plane a character is two UTF-16 units: 31 * 0xD83D + 0xDE00.
        ("\U0001f600", 31 * 0xD83D + 0xDE00),
        ("polygenelubricants", -(2**31)),
    ],
)
def test_string_hash_is_javas(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_partition_of_the_hash_without_a_positive_twin_is_the_first() -> None:
    assert partition_for("polygenelubricants", 50) == 0


def test_negative_hashes_count_by_their_absolute_value() -> None:
    assert java_string_hash("my-group") == -1_906_497_762
    assert partition_for("my-group", 50) == 12


@pytest.mark.parametrize(("group_id", "partition"), [("g", 3), ("m", 4)])
def test_groups_are_where_apache_kafka_puts_them(group_id: str, partition: int) -> None:
    """Read off Apache Kafka 3.9.1 with five partitions."""
    assert partition_for(group_id, 5) == partition


@pytest.mark.parametrize("length", [1, CACHED_KEY_LENGTH_MAX, CACHED_KEY_LENGTH_MAX + 1, 1_000])
def test_a_key_has_the_same_partition_each_time(length: int) -> None:
    key = "k" * length
    assert {partition_for(key, 50) for _ in range(3)} == {abs(java_string_hash(key)) % 50}
