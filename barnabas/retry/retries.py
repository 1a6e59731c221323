"""A consumer that sends to a retry topic what its owner could not process.

Rules: one thread. A message is settled, as handled, failed or dead, before the next one comes. What was settled is committed
at an interval, when partitions are revoked and at the end; before that, everything that was sent for it is acknowledged by all
in-sync replicas. So a message is processed at least once, and a failed one is in the retry topic before its place is given up.

With a transactional id everything that is sent for messages, and their offsets, are one transaction: each message has its
effects in topics exactly once, for whoever reads committed records. What `ReceivedMessage.send` takes is sent when the message
is settled as handled, and dropped when it fails. After an aborted transaction its messages come again.

Errors: confluent_kafka.KafkaException for what does not pass. What was not committed comes again, to whoever reads next.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import methodcaller
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from client.letters.headers import SourcePlace, dead_letter_headers, read

COMMIT_INTERVAL_S: Final = 1.0
POLL_S: Final = 0.5
"""How long it may take until `stop` is noticed."""
ABORTS_MAX: Final = 10
"""How many transactions in a row may be aborted: one or two by a rebalance, all by a topic that cannot be written."""
_SHARED: Final = (
    "bootstrap.servers", "metadata.broker.list", "client.id", "client.rack", "security.", "ssl.", "sasl.", "oauth_cb",
    "enable.ssl.", "enable.sasl.", "socket.", "broker.address.", "reconnect.", "retry.backoff.", "log", "debug",
)  # fmt: skip
"""What a producer has of its consumer's settings: the beginnings of their names."""
_PRODUCER: Final = {"partitioner": "murmur2_random", "enable.idempotence": True, "message.timeout.ms": 60_000}
"""Keys go where Java's clients put them."""
_NO_MEMBER: Final = (KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS,
                     KafkaError.FENCED_INSTANCE_ID, KafkaError._ASSIGNMENT_LOST)  # fmt: skip  # noqa: SLF001
"""The partitions are somebody else's by now."""
_headers = methodcaller("headers")
"""Unlike `message.headers()`, it always looks whether the library has set an error: what it returns then is no list."""
logger = logging.getLogger("barnabas.retry")
Headers = Sequence[tuple[str, bytes | None]]


class UnsettledMessageError(RuntimeError):
    """A message was neither handled nor failed when the next one was wanted, or it was settled twice."""


class Retries:
    """Iterates over the messages of `topics`, until `stop` is called. A context manager.

    `settings` are a consumer's, as librdkafka names them, with `group.id`; it reads committed records, from the earliest on
    where its group has no offset, unless they say otherwise. `retry_topic` is where failed messages go. `dead_letters` is where
    those go that are not to be tried again: whose exception is one of `never_retried`, or that `ReceivedMessage.dead` names.
    `transactional_id` makes the effects exactly once; each process has its own. `producer_settings` are added to what the
    producer takes from `settings`.

    Raises ValueError for what does not go together, KafkaException for invalid settings.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        topics: str | Sequence[str],
        retry_topic: str,
        *,
        dead_letters: str | None = None,
        never_retried: tuple[type[Exception], ...] = (),
        transactional_id: str | None = None,
        producer_settings: Mapping[str, Any] | None = None,
        commit_interval_s: float = COMMIT_INTERVAL_S,
    ) -> None:
        names = [topics] if isinstance(topics, str) else list(topics)
        if never_retried and dead_letters is None:
            raise ValueError("never_retried needs dead_letters: the topic where these messages go")
        self._retry_topic = retry_topic
        self._dead_letters = dead_letters
        self._never_retried = never_retried
        self._is_transactional = transactional_id is not None
        self._commit_interval_s = commit_interval_s
        self._current: ReceivedMessage | None = None
        self._next: dict[tuple[str, int], int] = {}
        """The offsets to commit, behind what was settled."""
        self._first: dict[tuple[str, int], int] = {}
        """The offsets of the first message of each partition that was settled since the last commit."""
        self._failure: KafkaError | None = None
        self._is_open = False
        self._aborts = 0
        self._committed_s = time.monotonic()  # noqa: TID251  the user's process, not the broker
        self._is_stopping = False
        shared = {name: value for name, value in settings.items() if name.startswith(_SHARED)}
        own = {} if transactional_id is None else {"transactional.id": transactional_id}
        self._producer = Producer({**shared, **_PRODUCER, **own, **(producer_settings or {})})
        if self._is_transactional:
            self._producer.init_transactions()
        defaults = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        fixed = {"enable.auto.commit": False, "enable.auto.offset.store": False}
        self._consumer = Consumer({**defaults, **settings, **fixed})
        self._consumer.subscribe(names, on_revoke=self._revoked, on_lost=self._lost)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._current = None  # what is not settled comes again
            if isinstance(error, KafkaException):
                self._forget()
            else:
                self.commit()
        finally:
            self._consumer.close()

    def __iter__(self) -> Iterator[ReceivedMessage]:
        while not self._is_stopping:
            self._check_settled()
            if self._now_s() - self._committed_s >= self._commit_interval_s:
                self.commit()
            found = self._consumer.poll(min(POLL_S, self._commit_interval_s))
            self._producer.poll(0)
            if found is None:
                continue
            if found.error() is None:
                self._current = ReceivedMessage(found, self._settle)
                yield self._current
            elif found.error().code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                raise KafkaException(found.error())
        self._check_settled()

    def stop(self) -> None:
        """End the iteration after the current message. May be called from another thread, or by a signal."""
        self._is_stopping = True

    def commit(self) -> None:
        """Commit what was settled, now. Raises KafkaException."""
        self._commit(())

    def _commit(self, leaving: Collection[tuple[str, int]]) -> None:
        self._committed_s = self._now_s()
        if not self._next:
            return
        offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in self._next.items()]
        if self._is_transactional:
            self._commit_transaction(offsets, leaving)
            return
        self._producer.flush()
        if self._failure is not None:
            raise KafkaException(self._failure)
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in _NO_MEMBER:
                raise
            logger.warning("offsets not committed after a rebalance: error=%s", error.args[0])
        self._forget_offsets()

    # --- messages ---

    def _settle(
        self, message: ReceivedMessage, sent: Sequence[_Sent], error: BaseException | str | None, *, is_dead: bool
    ) -> None:
        if self._current is not message:
            raise UnsettledMessageError(f"{message.place} is not the current message: it was settled before")
        if error is not None:
            sent = [self._letter(message, error, is_dead=is_dead)]
        if self._is_transactional and not self._is_open:
            self._producer.begin_transaction()
            self._is_open = True
        for topic, value, key, headers in sent:
            self._send(topic, value, key, headers)
        key_of = message.topic(), message.partition()
        self._first.setdefault(key_of, message.offset())
        self._next[key_of] = message.offset() + 1
        self._current = None

    def _letter(self, message: ReceivedMessage, error: BaseException | str, *, is_dead: bool) -> _Sent:
        is_dead = is_dead or isinstance(error, self._never_retried)
        target = self._dead_letters if is_dead else self._retry_topic
        if target is None:
            raise ValueError(f"{message.place} cannot be dead: Retries has no dead_letters")
        reason = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        if message.has_unreadable_headers:
            reason += " (its headers are lost: the name of one is no UTF-8)"
        attempt = message.failed_attempts + 1
        logger.warning(
            "message failed: topic=%s partition=%d offset=%d attempt=%d target=%s reason=%s",
            message.topic(), message.partition(), message.offset(), attempt, target, reason,
            exc_info=error if isinstance(error, BaseException) else None,
        )  # fmt: skip
        source = SourcePlace(message.topic(), message.partition(), message.offset(), message.timestamp_ms)
        return (
            target,
            message.value(),
            message.key(),
            dead_letter_headers(message.headers, source, reason, attempt=attempt),
        )

    def _send(self, topic: str, value: bytes | None, key: bytes | None, headers: Headers) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, headers=list(headers), on_delivery=self._delivered)
                return
            except BufferError:
                self._producer.poll(POLL_S)

    def _delivered(self, error: KafkaError | None, _message: Any) -> None:
        if error is not None and self._failure is None:
            self._failure = error

    def _check_settled(self) -> None:
        if self._current is not None:
            place, self._current = self._current.place, None
            raise UnsettledMessageError(
                f"{place} was neither handled nor failed: use `with message:`, or handled() or failed()"
            )

    # --- commits ---

    def _commit_transaction(self, offsets: list[TopicPartition], leaving: Collection[tuple[str, int]]) -> None:
        try:
            self._again(
                lambda: self._producer.send_offsets_to_transaction(offsets, self._consumer.consumer_group_metadata())
            )
            self._again(self._producer.commit_transaction)
        except KafkaException as error:
            self._aborts += 1
            if not error.args[0].txn_requires_abort() or self._aborts >= ABORTS_MAX:
                raise
            logger.warning("transaction aborted: error=%s", self._failure or error.args[0])
            self._abort(leaving)
        else:
            self._is_open, self._aborts = False, 0
            self._forget_offsets()

    @staticmethod
    def _again(call: Callable[[], Any]) -> None:
        """Call until it ends otherwise than by an error that passes. Raises KafkaException."""
        while True:
            try:
                call()
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def _abort(self, leaving: Collection[tuple[str, int]]) -> None:
        """End the transaction, and go back to where it began, but in partitions that are `leaving`."""
        if self._is_open:
            self._again(self._producer.abort_transaction)
            self._is_open = False
        assigned = {(each.topic, each.partition) for each in self._consumer.assignment()}.difference(leaving)
        for (topic, partition), offset in self._first.items():
            if (topic, partition) in assigned:
                self._consumer.seek(TopicPartition(topic, partition, offset))
        self._forget_offsets()

    def _forget(self) -> None:
        """Give up what was settled and not committed."""
        if self._is_open:
            try:
                self._producer.abort_transaction()
            except KafkaException as error:  # the coordinator ends it by itself, in time
                logger.warning("transaction left open: error=%s", error.args[0])
            self._is_open = False
        self._forget_offsets()

    def _forget_offsets(self) -> None:
        self._next.clear()
        self._first.clear()
        self._failure = None

    def _revoked(self, _consumer: Any, partitions: Sequence[TopicPartition]) -> None:
        self._commit([(each.topic, each.partition) for each in partitions])

    def _lost(self, _consumer: Any, _partitions: Any) -> None:
        self._forget()

    @staticmethod
    def _now_s() -> float:
        return time.monotonic()  # noqa: TID251  the user's process, not the broker


_Sent = tuple[str, bytes | None, bytes | None, Headers]


class ReceivedMessage:
    """A record to process, with the methods of confluent_kafka's Message that matter. Settled by `with`, or by one of
    `handled`, `failed` and `dead`. Raises UnsettledMessageError when it is settled twice."""

    def __init__(self, message: Any, settle: Callable[..., None]) -> None:
        self._message = message
        self._settle = settle
        self._sent: list[_Sent] = []
        self._is_settled = False
        self.headers: list[tuple[str, bytes | None]] = []
        self.has_unreadable_headers = False
        """Whether the client library could not give them, because the name of one is no UTF-8."""
        try:
            self.headers += _headers(message) or ()
        except (UnicodeDecodeError, SystemError):
            self.has_unreadable_headers = True
        letter = read(self.headers)
        self.failed_attempts: int = max(letter.attempt, letter.retries)
        """How often it failed before."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """An exception makes it a failed message, and is not raised further; KeyboardInterrupt and its like are."""
        if self._is_settled or not (error is None or isinstance(error, Exception)):
            return False
        if error is None:
            self.handled()
        else:
            self.failed(error)
        return True

    @property
    def place(self) -> str:
        return f"{self.topic()}-{self.partition()} at {self.offset()}"

    @property
    def timestamp_ms(self) -> int:
        """In ms since the epoch; -1 without one."""
        timestamp_ms: int = self._message.timestamp()[1]
        return timestamp_ms

    def topic(self) -> str:
        topic: str = self._message.topic()
        return topic

    def partition(self) -> int:
        partition: int = self._message.partition()
        return partition

    def offset(self) -> int:
        offset: int = self._message.offset()
        return offset

    def key(self) -> bytes | None:
        key: bytes | None = self._message.key()
        return key

    def value(self) -> bytes | None:
        value: bytes | None = self._message.value()
        return value

    def send(self, topic: str, value: bytes | None, key: bytes | None = None, headers: Headers = ()) -> None:
        """Send a record when this message is handled, before its offset is committed; nothing if it fails."""
        self._sent.append((topic, value, key, headers))

    def handled(self) -> None:
        """It is done. Raises KafkaException."""
        self._end(None)

    def failed(self, error: BaseException | str) -> None:
        """Try it again later. `error` is the reason. Raises KafkaException."""
        self._end(error)

    def dead(self, error: BaseException | str) -> None:
        """Put it aside at once. Raises ValueError without `dead_letters`, KafkaException."""
        self._end(error, is_dead=True)

    def _end(self, error: BaseException | str | None, *, is_dead: bool = False) -> None:
        self._settle(self, self._sent, error, is_dead=is_dead)
        self._is_settled = True
