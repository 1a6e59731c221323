from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.letters.headers import (
    NOTHING,
    TABLE,
    Family,
    Letter,
    RecordHeaders,
    SourcePlace,
    dead_letter_headers,
    delivered_headers,
    read,
    requeued_headers,
    shown,
)

HERE = SourcePlace("orders-retry", 3, 17, 1_700_000_000_000)
PLACED = [
    ("barnabas-source-topic", b"orders-retry"),
    ("barnabas-source-partition", b"3"),
    ("barnabas-source-offset", b"17"),
    ("barnabas-source-timestamp", b"1700000000000"),
]
OURS = [
    ("barnabas-reason", b"no JSON"),
    ("barnabas-source-topic", b"orders"),
    ("barnabas-source-partition", b"2"),
    ("barnabas-source-offset", b"41"),
    ("barnabas-source-timestamp", b"1600000000000"),
    ("barnabas-attempt", b"2"),
    ("barnabas-retries", b"1"),
]
# As Spring Kafka's DeadLetterPublishingRecoverer makes them: ByteBuffer.putInt, putLong, texts in UTF-8.
SPRING = [
    ("kafka_dlt-exception-fqcn", b"org.springframework.kafka.listener.ListenerExecutionFailedException"),
    ("kafka_dlt-exception-cause-fqcn", b"java.lang.IllegalStateException"),
    ("kafka_dlt-exception-message", b"Listener failed; boom"),
    ("kafka_dlt-original-topic", b"payments"),
    ("kafka_dlt-original-partition", bytes.fromhex("00000005")),
    ("kafka_dlt-original-offset", bytes.fromhex("0000000100000007")),
    ("kafka_dlt-original-timestamp", bytes.fromhex("0000018bcfe56800")),
    ("kafka_dlt-original-timestamp-type", b"CreateTime"),
    ("kafka_dlt-original-consumer-group", b"billing"),
]
RETRY_TOPIC = [
    ("kafka_original-topic", b"payments"),
    ("kafka_original-partition", bytes.fromhex("00000000")),
    ("kafka_original-offset", bytes.fromhex("0000000000000009")),
    ("kafka_original-timestamp", bytes.fromhex("0000018bcfe56800")),
    ("kafka_exception-message", b"boom"),
    ("retry_topic-original-timestamp", bytes.fromhex("018bcfe56800")),
    ("retry_topic-attempts", bytes.fromhex("00000004")),
    ("retry_topic-backoff-timestamp", bytes.fromhex("018bcfe56be8")),
]
CONNECT = [
    ("__connect.errors.topic", b"lines"),
    ("__connect.errors.partition", b"0"),
    ("__connect.errors.offset", b"3"),
    ("__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
    ("__connect.errors.exception.message", b"Converting byte[] failed"),
]
OURS_READ = Letter("no JSON", None, None, "orders", 2, 41, 1_600_000_000_000, 2, 1)
SPRING_READ = Letter(
    "Listener failed; boom",
    "java.lang.IllegalStateException",
    "billing",
    "payments",
    5,
    (1 << 32) + 7,
    1_700_000_000_000,
)


@pytest.mark.parametrize(
    ("headers", "letter"),
    [
        ([], NOTHING),
        ([("trace", b"1"), ("barnabas-other", b"2")], NOTHING),
        (OURS, OURS_READ),
        (SPRING, SPRING_READ),
        (RETRY_TOPIC, Letter("boom", None, None, "payments", 0, 9, 1_700_000_000_000, 3)),
        (CONNECT, Letter("Converting byte[] failed", "org.apache.kafka.connect.errors.DataException", None, "lines", 0, 3)),
        (CONNECT[:4], Letter("org.apache.kafka.connect.errors.DataException", "org.apache.kafka.connect.errors.DataException",
                             None, "lines", 0, 3)),
        ([("retry_topic-attempts", b"\xff")], Letter(attempt=254)),
        ([("barnabas-deliver-at", b"1700000000000"), ("barnabas-id", b"\x00\xff")],
         Letter(deliver_at_ms=1_700_000_000_000, message_id=b"\x00\xff")),
        ([("barnabas-delay-ms", b"0"), ("barnabas-expires-at", b"9223372036854775807")],
         Letter(delay_ms=0, expires_at_ms=(1 << 63) - 1)),
        ([("barnabas-id", b"7"), ("barnabas-cancel", None)], Letter(message_id=b"7", is_cancellation=True)),
    ],
)  # fmt: skip
def test_headers_are_read(headers: RecordHeaders, letter: Letter) -> None:
    assert read([("user", b"x"), *headers]) == letter


def test_the_last_of_a_name_and_the_last_family_count() -> None:
    assert read([("barnabas-delay-ms", b"nonsense"), ("barnabas-delay-ms", b"5")]) == Letter(delay_ms=5)
    spring_last, ours_last = read(OURS + SPRING), read(SPRING + OURS)
    assert spring_last[:7] == SPRING_READ[:7] and spring_last.attempt == 2
    assert (ours_last.source_topic, ours_last.source_offset, ours_last.reason) == ("orders", 41, "no JSON")
    lacking = read([*SPRING, ("barnabas-source-topic", b"orders")])
    assert (lacking.source_topic, lacking.source_offset) == ("orders", None), "no offset of another topic"


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("barnabas-deliver-at", b"tomorrow", "barnabas-deliver-at is 'tomorrow', and no time in ms since the epoch"),
        ("barnabas-deliver-at", b"-1", "barnabas-deliver-at is '-1', and no time in ms since the epoch"),
        ("barnabas-deliver-at", b"9223372036854775808",
         "barnabas-deliver-at is '9223372036854775808', and no time in ms since the epoch"),
        ("barnabas-deliver-at", None, "barnabas-deliver-at is null, and no time in ms since the epoch"),
        ("barnabas-delay-ms", b"1_000", "barnabas-delay-ms is '1_000', and no number of ms"),
        ("barnabas-delay-ms", "\u0661".encode(), "barnabas-delay-ms is '\u0661', and no number of ms"),
        ("barnabas-delay-ms", b"9" * 5000, f"barnabas-delay-ms is '{'9' * 40}...', and no number of ms"),
        ("barnabas-expires-at", b"", "barnabas-expires-at is '', and no time in ms since the epoch"),
        ("barnabas-id", b"", "barnabas-id is '', and no id"),
        ("barnabas-cancel", b"1", "barnabas-cancel without barnabas-id"),
    ],
)  # fmt: skip
def test_rubbish_that_would_decide_is_a_problem(name: str, value: bytes | None, problem: str) -> None:
    assert read([(name, value)]).problem == problem


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("barnabas-attempt", b"many"),
        ("barnabas-attempt", b"-3"),
        ("barnabas-retries", b""),
        ("barnabas-source-offset", b"x"),
        ("kafka_dlt-original-partition", b"5"),
        ("kafka_dlt-original-offset", b"\xff" * 8),
        ("retry_topic-attempts", b"\x00\x00\x00\x00"),
        ("retry_topic-attempts", b"\x00\x01\x00\x00"),
        ("retry_topic-attempts", b"abc"),
    ],
)
def test_rubbish_elsewhere_is_absent(name: str, value: bytes) -> None:
    assert read([(name, value)]) == NOTHING


@given(st.lists(st.tuples(st.sampled_from(sorted(TABLE)), st.none() | st.binary(max_size=12)), max_size=6))
def test_reading_never_fails_and_counts_are_bounded(headers: list[tuple[str, bytes | None]]) -> None:
    letter = read(headers)
    assert 0 <= letter.attempt < 1 << 31 and 0 <= letter.retries < 1 << 31
    for name, value in headers:
        assert isinstance(shown(TABLE[name], value), str | int | None)


def test_a_delivered_record_has_its_place_and_waits_no_more() -> None:
    sent = [
        ("trace", b"1"),
        ("barnabas-deliver-at", b"5"),
        ("barnabas-id", b"7"),
        ("trace", b"2"),
        ("barnabas-cancel", b""),
    ]
    delivered = delivered_headers(sent + OURS, HERE)
    assert delivered == [("trace", b"1"), ("barnabas-id", b"7"), ("trace", b"2"), *OURS[5:], *PLACED]
    assert delivered_headers(delivered, HERE) == delivered


def test_a_retry_carries_both_counts_and_springs_where_it_is() -> None:
    retried = delivered_headers(OURS, HERE, attempt=3)
    assert retried == [*PLACED, ("barnabas-attempt", b"3"), ("barnabas-retries", b"3")]
    of_spring = dict(delivered_headers([("retry_topic-attempts", b"\x02")], HERE, attempt=3))
    assert of_spring["retry_topic-attempts"] == bytes.fromhex("00000004")
    assert read(list(of_spring.items())).attempt == 3


def test_a_dead_letter_is_the_record_with_place_and_reason() -> None:
    sent: RecordHeaders = [("trace", b"1"), ("barnabas-deliver-at", b"rubbish")]
    dead = dead_letter_headers([*sent, *OURS], HERE, "too late")
    assert dead == [*sent, *OURS[5:], ("barnabas-reason", b"too late"), *PLACED]
    counted = dead_letter_headers([*sent, *OURS], HERE, "again", attempt=3)
    assert counted == [*sent, OURS[6], ("barnabas-reason", b"again"), *PLACED, ("barnabas-attempt", b"3")]
    long = dict(dead_letter_headers([], HERE, "\ud800" + "x" * 10_000))["barnabas-reason"]
    assert long is not None and len(long) == 1_000


def test_a_requeued_record_is_the_one_that_was_sent() -> None:
    sent = [("trace", b"1"), ("barnabas-id", b"7"), ("barnabas-expires-at", b"5")]
    assert requeued_headers([*sent, *OURS, *SPRING, *RETRY_TOPIC, *CONNECT]) == sent
    assert requeued_headers([*sent, *OURS], keeps_attempts=True) == [*sent, *OURS[5:]]


def test_binary_numbers_are_shown_as_numbers() -> None:
    values = {name: shown(TABLE[name], value) for name, value in RETRY_TOPIC}
    assert (values["kafka_original-offset"], values["retry_topic-attempts"]) == (9, 4)
    assert values["retry_topic-backoff-timestamp"] == 1_700_000_001_000
    assert shown(TABLE["barnabas-id"], b"\xff7") == "\ufffd7"


def test_the_page_names_all_headers_of_ours() -> None:
    page = (Path(__file__).parents[3] / "docs" / "dead-letters.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(barnabas-[a-z-]+)` \| (.*?) \|", page, re.MULTILINE)
    assert dict(rows) == {name: each.text for name, each in TABLE.items() if each.family is Family.OURS}
