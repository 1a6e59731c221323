"""The headers of delayed records, retries and dead letters: one table, what they mean, and how they are written. Pure.

Three families are read. Ours: texts in UTF-8, numbers in decimal. Those of Spring Kafka: numbers in binary, big-endian, as
its DeadLetterPublishingRecoverer (`kafka_dlt-*`) and its retry topics (`kafka_original-*`, `retry_topic-*`) write them. Those
of Kafka Connect (`__connect.errors.*`): numbers in decimal. Only ours are written, with one exception: `retry_topic-attempts`
is kept right where a record has it.

A record that failed has a reason, the place where it failed, and the number of attempts that failed. A client that fails
counts one more in `barnabas-attempt`. The relay keeps its own count in `barnabas-retries`: a client that copies headers without
counting does not go in circles for ever.

Rules: reading never fails, whatever the bytes are. Of several headers with one name the last one counts; of several families
the one whose header comes last, because whoever writes adds at the end. What is no number in a header that decides when a
record is delivered is a `problem`; elsewhere it counts as absent.
Source: Spring Kafka KafkaHeaders, DeadLetterPublishingRecoverer, DeadLetterPublishingRecovererFactory (`getAttempts`,
`addHeaders`), RetryTopicHeaders; Kafka DeadLetterQueueReporter (KIP-298).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from protocol.java_text import AS_JAVA

RecordHeaders = Sequence[tuple[str, bytes | None]]

REASON: Final = "barnabas-reason"
SOURCE_TOPIC: Final = "barnabas-source-topic"
SOURCE_PARTITION: Final = "barnabas-source-partition"
SOURCE_OFFSET: Final = "barnabas-source-offset"
SOURCE_TIMESTAMP: Final = "barnabas-source-timestamp"
ATTEMPT: Final = "barnabas-attempt"
RETRIES: Final = "barnabas-retries"
DELIVER_AT: Final = "barnabas-deliver-at"
DELAY: Final = "barnabas-delay-ms"
EXPIRES_AT: Final = "barnabas-expires-at"
ID: Final = "barnabas-id"
CANCEL: Final = "barnabas-cancel"
SPRING_ATTEMPTS: Final = "retry_topic-attempts"

PLACE: Final = (REASON, SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET, SOURCE_TIMESTAMP)
"""Where a record comes from, and why: what the next writer replaces."""
COUNTS: Final = (ATTEMPT, RETRIES)
TIMES: Final = (DELIVER_AT, DELAY, CANCEL)
"""What a delivered record has no more: it would wait again in the next topic of a delay."""

REASON_CHARS_MAX: Final = 1_000
_INT64_MAX: Final = (1 << 63) - 1
_ATTEMPT_MAX: Final = (1 << 31) - 1
_SPRING_ATTEMPT_MAX: Final = (1 << 15) - 1
_DECIMAL: Final = re.compile(rb"-?[0-9]{1,19}")


class Family(Enum):
    """Whose header it is."""

    OURS = "Barnabas"
    SPRING_DEAD_LETTERS = "Spring Kafka, dead letters"
    SPRING_RETRY_TOPICS = "Spring Kafka, retry topics"
    CONNECT = "Kafka Connect"


class Form(Enum):
    """How a value is written."""

    TEXT = "text"
    DECIMAL = "decimal number"
    INT32 = "4 bytes, big-endian"
    INT64 = "8 bytes, big-endian"
    BIG_INTEGER = "1 to 8 bytes, big-endian"
    ATTEMPTS = "1 or 4 bytes, big-endian"
    BYTES = "bytes"
    PRESENT = "any"

    def decode(self, value: bytes | None) -> Any:
        """Return a text, a number from 0 on, bytes or True; None for what is none."""
        return _DECODERS[self](value)


class Header(NamedTuple):
    """A row of the table. `meaning` is the field of a `Letter` that it fills; empty for what is only shown."""

    name: str
    family: Family
    form: Form
    meaning: str
    text: str


class Letter(NamedTuple):
    """What the headers of a record say; None, 0 and False for what they do not say. Times are in ms since the epoch."""

    reason: str | None = None
    exception: str | None = None
    """The class of the exception with which the attempt failed."""
    group: str | None = None
    """The consumer group whose member failed."""
    source_topic: str | None = None
    source_partition: int | None = None
    source_offset: int | None = None
    source_timestamp_ms: int | None = None
    attempt: int = 0
    """How many attempts failed, as clients count."""
    retries: int = 0
    """How often the relay brought the record back."""
    deliver_at_ms: int | None = None
    delay_ms: int | None = None
    expires_at_ms: int | None = None
    message_id: bytes | None = None
    is_cancellation: bool = False
    problem: str | None = None
    """Why the headers cannot be followed, as a text for a dead letter."""

    def is_expired(self, now_ms: int) -> bool:
        """Return whether nobody wants the record any more."""
        return self.expires_at_ms is not None and self.expires_at_ms <= now_ms


class SourcePlace(NamedTuple):
    """Where a record stands that is written to another topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


NOTHING: Final = Letter()


def read(headers: RecordHeaders) -> Letter:
    """Return what the headers of a record say. Costs next to nothing for a record that has none of the table."""
    found: dict[str, bytes | None] = {}
    for name, value in headers:
        if name in TABLE:
            found.pop(name, None)  # so that the names are in the order of their last headers
            found[name] = value
    return _letter(found) if found else NOTHING


def delivered_headers(
    headers: RecordHeaders, source: SourcePlace, *, attempt: int | None = None
) -> list[tuple[str, bytes | None]]:
    """Return the headers of a record that the relay brings to its target. `attempt`: how many attempts have failed, for a
    retry; both counts become that."""
    dropped = {*PLACE, *TIMES}
    added = _place(source)
    kept: RecordHeaders = headers
    if attempt is not None:
        dropped.update(COUNTS)
        added += [(ATTEMPT, _decimal(attempt)), (RETRIES, _decimal(attempt))]
        kept = _with_spring_attempts(headers, attempt)
    return [*without(kept, dropped), *added]


def dead_letter_headers(
    headers: RecordHeaders, source: SourcePlace, reason: str, *, attempt: int | None = None
) -> list[tuple[str, bytes | None]]:
    """Return the headers of a record that failed at `source`, on its way to a retry topic or to the dead letters: its own,
    also those that say when it is due, with the place and the reason. `attempt`: how many attempts have failed; without it the
    count stays what it was."""
    added = [(REASON, reason[:REASON_CHARS_MAX].encode("utf-8", "replace")), *_place(source)]
    if attempt is None:
        return [*without(headers, PLACE), *added]
    return [*without(_with_spring_attempts(headers, attempt), (*PLACE, ATTEMPT)), *added, (ATTEMPT, _decimal(attempt))]


def requeued_headers(headers: RecordHeaders, *, keeps_attempts: bool = False) -> list[tuple[str, bytes | None]]:
    """Return the headers of a dead letter that begins anew: without those of the table that say what happened to it, and
    without counts, unless they are kept. What it was sent with stays: its id, when it is due and expires."""
    kept = _SENT | {"attempt", "retries"} if keeps_attempts else _SENT
    return [(name, value) for name, value in headers if name not in TABLE or TABLE[name].meaning in kept]


def without(headers: RecordHeaders, names: Collection[str]) -> list[tuple[str, bytes | None]]:
    """Return headers without those of these names."""
    return [header for header in headers if header[0] not in names]


def shown(header: Header, value: bytes | None) -> str | int | None:
    """Return a header's value for people: a text or a number; None for what is not of its form."""
    decoded = header.form.decode(value)
    if header.form in (Form.BYTES, Form.PRESENT):
        return None if value is None else value.decode("utf-8", AS_JAVA)
    assert decoded is None or isinstance(decoded, str | int)
    if header.form is Form.ATTEMPTS and isinstance(decoded, int):
        return decoded + 1  # as it is written
    return decoded


# --- reading ---


def _letter(found: dict[str, bytes | None]) -> Letter:
    fields: dict[str, Any] = {}
    sources: dict[Family, dict[str, Any]] = {}
    family, attempt, problem = None, 0, None
    for name, raw in found.items():
        header = TABLE[name]
        meaning, value = header.meaning, header.form.decode(raw)
        if meaning in _STRICT and value is None and problem is None:
            problem = f"{name} is {_quoted(raw)}, and no {_STRICT[meaning]}"
        if value is None or not meaning:
            continue
        if meaning == "attempt":
            attempt = max(attempt, min(value, _ATTEMPT_MAX))
        elif meaning.startswith("source_"):
            sources.setdefault(header.family, {})[meaning] = value
            family = header.family if meaning == "source_topic" else family
        else:
            fields[meaning] = value
    if fields.get("is_cancellation") and "message_id" not in fields and problem is None:
        problem = f"{CANCEL} without {ID}"
    if "cause" in fields:  # what was thrown is mostly a wrapper of it
        fields["exception"] = fields.pop("cause")
    fields.setdefault("reason", fields.get("exception"))
    if family is not None:
        fields |= sources[family]
    fields["retries"] = min(fields.get("retries", 0), _ATTEMPT_MAX)
    return Letter(**fields, attempt=attempt, problem=problem)


def _quoted(raw: bytes | None) -> str:
    if raw is None:
        return "null"
    text = raw[:40].decode("utf-8", AS_JAVA)
    return repr(text if len(raw) <= 40 else text + "...")


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", AS_JAVA)


def _number(value: bytes | None) -> int | None:
    if value is None or not _DECIMAL.fullmatch(value):
        return None
    number = int(value)
    return number if 0 <= number <= _INT64_MAX else None


def _binary(*lengths: int) -> Callable[[bytes | None], int | None]:
    def decode(value: bytes | None) -> int | None:
        if value is None or len(value) not in lengths:
            return None
        number = int.from_bytes(value, "big", signed=True)
        return number if number >= 0 else None

    return decode


def _attempts(value: bytes | None) -> int | None:
    """The number that Spring counts is that of the attempt that comes next, from 1; return how many failed before it."""
    if value is None or len(value) not in (1, 4):
        return None
    number = int.from_bytes(value, "big", signed=len(value) > 1)
    return number - 1 if 1 <= number <= _SPRING_ATTEMPT_MAX else None


_DECODERS: Final[dict[Form, Callable[[bytes | None], Any]]] = {
    Form.TEXT: _text,
    Form.DECIMAL: _number,
    Form.INT32: _binary(4),
    Form.INT64: _binary(8),
    Form.BIG_INTEGER: _binary(*range(1, 9)),
    Form.ATTEMPTS: _attempts,
    Form.BYTES: lambda value: value or None,
    Form.PRESENT: lambda _: True,
}
_STRICT: Final = {
    "deliver_at_ms": "time in ms since the epoch",
    "delay_ms": "number of ms",
    "expires_at_ms": "time in ms since the epoch",
    "message_id": "id",
}
_SENT: Final = frozenset({"deliver_at_ms", "delay_ms", "expires_at_ms", "message_id", "is_cancellation"})
"""What the producer of a record said."""


# --- writing ---


def _place(source: SourcePlace) -> list[tuple[str, bytes | None]]:
    return [
        (SOURCE_TOPIC, source.topic.encode()),
        (SOURCE_PARTITION, _decimal(source.partition)),
        (SOURCE_OFFSET, _decimal(source.offset)),
        (SOURCE_TIMESTAMP, _decimal(source.timestamp_ms)),
    ]


def _with_spring_attempts(headers: RecordHeaders, attempt: int) -> RecordHeaders:
    """Return headers in which Spring's count, where there is one, says the same."""
    if not any(name == SPRING_ATTEMPTS for name, _ in headers):
        return headers
    count = min(attempt + 1, _SPRING_ATTEMPT_MAX).to_bytes(4, "big")
    return [*without(headers, (SPRING_ATTEMPTS,)), (SPRING_ATTEMPTS, count)]


def _decimal(number: int) -> bytes:
    return b"%d" % number


# --- the table ---


def _spring(family: Family, prefix: str) -> list[Header]:
    """The two sets of names that Spring Kafka writes alike."""
    rows = (
        ("original-topic", Form.TEXT, "source_topic", "the topic where it failed"),
        ("original-partition", Form.INT32, "source_partition", "its partition there"),
        ("original-offset", Form.INT64, "source_offset", "its offset there"),
        ("original-timestamp", Form.INT64, "source_timestamp_ms", "its timestamp there"),
        ("original-timestamp-type", Form.TEXT, "", "what kind of timestamp"),
        ("exception-fqcn", Form.TEXT, "exception", "the class of the exception"),
        ("exception-cause-fqcn", Form.TEXT, "cause", "the class of what caused the exception"),
        ("exception-message", Form.TEXT, "reason", "the message of the exception"),
        ("exception-stacktrace", Form.TEXT, "", "where it was thrown"),
        ("key-exception-fqcn", Form.TEXT, "", "the class of the exception that its key caused"),
        ("key-exception-message", Form.TEXT, "", "the message of the exception that its key caused"),
        ("key-exception-stacktrace", Form.TEXT, "", "where that was thrown"),
    )
    return [Header(prefix + name, family, form, meaning, text) for name, form, meaning, text in rows]


_OURS: Final = (
    (REASON, Form.TEXT, "reason", "why the record failed"),
    (SOURCE_TOPIC, Form.TEXT, "source_topic", "the topic from which it was taken"),
    (SOURCE_PARTITION, Form.DECIMAL, "source_partition", "its partition there"),
    (SOURCE_OFFSET, Form.DECIMAL, "source_offset", "its offset there"),
    (SOURCE_TIMESTAMP, Form.DECIMAL, "source_timestamp_ms", "its timestamp there, in ms"),
    (ATTEMPT, Form.DECIMAL, "attempt", "how many attempts failed, as clients count"),
    (RETRIES, Form.DECIMAL, "retries", "how often the relay brought it back"),
    (DELIVER_AT, Form.DECIMAL, "deliver_at_ms", "when it is to be delivered, in ms since the epoch"),
    (DELAY, Form.DECIMAL, "delay_ms", "how long after its timestamp it is to be delivered, in ms"),
    (EXPIRES_AT, Form.DECIMAL, "expires_at_ms", "since when nobody wants it any more, in ms since the epoch"),
    (ID, Form.BYTES, "message_id", "its identity, for a cancellation or a new time"),
    (CANCEL, Form.PRESENT, "is_cancellation", "the record that waits with this id is not to be delivered"),
)
_RETRY_TOPICS: Final = (
    (SPRING_ATTEMPTS, Form.ATTEMPTS, "attempt", "the number of the attempt that comes next"),
    ("retry_topic-original-timestamp", Form.BIG_INTEGER, "", "its timestamp when it failed for the first time, in ms"),
    ("retry_topic-backoff-timestamp", Form.BIG_INTEGER, "", "when Spring tries it again, in ms since the epoch"),
)
_CONNECT: Final = (
    ("topic", Form.TEXT, "source_topic", "the topic of the record"),
    ("partition", Form.DECIMAL, "source_partition", "its partition there"),
    ("offset", Form.DECIMAL, "source_offset", "its offset there"),
    ("connector.name", Form.TEXT, "", "the connector"),
    ("task.id", Form.DECIMAL, "", "its task"),
    ("stage", Form.TEXT, "", "what it was doing"),
    ("class.name", Form.TEXT, "", "the class that did it"),
    ("exception.class.name", Form.TEXT, "exception", "the class of the exception"),
    ("exception.message", Form.TEXT, "reason", "the message of the exception"),
    ("exception.stacktrace", Form.TEXT, "", "where it was thrown"),
)
TABLE: Final[dict[str, Header]] = {
    header.name: header
    for header in (
        *(Header(name, Family.OURS, form, meaning, text) for name, form, meaning, text in _OURS),
        *_spring(Family.SPRING_DEAD_LETTERS, "kafka_dlt-"),
        Header("kafka_dlt-original-consumer-group", Family.SPRING_DEAD_LETTERS, Form.TEXT, "group",
               "the consumer group whose member failed"),
        *_spring(Family.SPRING_RETRY_TOPICS, "kafka_"),
        *(Header(name, Family.SPRING_RETRY_TOPICS, form, meaning, text) for name, form, meaning, text in _RETRY_TOPICS),
        *(Header(f"__connect.errors.{name}", Family.CONNECT, form, meaning, text) for name, form, meaning, text in _CONNECT),
    )
}  # fmt: skip
"""All headers that are understood, by their names."""
