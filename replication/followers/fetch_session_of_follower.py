"""The follower's side of a fetch session: the leader knows the partitions, and requests name only changes. Pure.

    first request: id 0, epoch 0, all partitions  ->  the leader answers an id (0: it keeps no session)
    then:          that id, epoch 1, 2, ...       ->  changed and forgotten partitions alone
    after an error or a lost connection: the id, epoch 0, all partitions again: ends the old session and opens one

Rules: no IO. Call `want` and `forget` at any time; `request` collects the changes; each request is followed by `on_response` or
`on_no_answer`. Work is proportional to what changed.
Invariants: the leader has the values that `want` had last before the request; topic ids are used
by a session for all of its partitions or for none.
Source: KIP-227, KIP-516; Kafka FetchSessionHandler.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic
from protocol.primitives import ZERO_UUID
from protocol.topic_partition import TopicPartition

NO_SESSION = 0
FIRST_EPOCH = 0
INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """The values that the leader needs of one partition."""

    topic_id: bytes
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    leader_epoch: int
    max_bytes: int


@dataclass(slots=True)
class SessionRequest:
    """The part of a Fetch request that the session decides. `wanted` are all partitions that the leader will read."""

    session_id: int
    session_epoch: int
    uses_topic_ids: bool
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


class FollowerSession:
    """One session with one broker."""

    __slots__ = (
        "_changed",
        "_forgotten",
        "_names",
        "_next_epoch",
        "_sent_topic_ids",
        "_session_id",
        "_uses_topic_ids",
        "wanted",
    )

    def __init__(self) -> None:
        self.wanted: dict[TopicPartition, Wanted] = {}
        self._session_id = NO_SESSION
        self._next_epoch = FIRST_EPOCH
        self._uses_topic_ids = False
        # Since the last request: partitions to be sent, and those the leader knows that are not wanted any more.
        self._changed: dict[TopicPartition, None] = {}
        self._forgotten: dict[TopicPartition, bytes] = {}
        # The topic id under which the leader knows each partition: ZERO_UUID when it knows it by name.
        self._sent_topic_ids: dict[TopicPartition, bytes] = {}
        self._names: dict[bytes, str] = {}

    @property
    def is_open(self) -> bool:
        return self._next_epoch != FIRST_EPOCH

    def want(self, key: TopicPartition, wanted: Wanted) -> None:
        if self.wanted.get(key) != wanted:
            self.wanted[key] = wanted
            self._changed[key] = None

    def forget(self, key: TopicPartition) -> None:
        """Remove the partition from the session, for a while or for good."""
        if self.wanted.pop(key, None) is not None:
            self._changed.pop(key, None)
            topic_id = self._sent_topic_ids.get(key)
            if topic_id is not None:
                self._forgotten[key] = topic_id

    def is_sent(self, key: TopicPartition) -> bool:
        """Whether the last request had the present values of `want`: only then does its response count."""
        return key in self.wanted and key not in self._changed

    def topic_of(self, topic_id: bytes) -> str | None:
        """Return the topic name for an id in a response."""
        return self._names.get(topic_id)

    # --- requests ---

    def request(self, *, may_use_topic_ids: bool) -> SessionRequest | None:
        """Return the next request; None when nothing is wanted and nothing has to be forgotten."""
        uses_topic_ids = may_use_topic_ids and all(wanted.topic_id != ZERO_UUID for wanted in self._to_tell())
        if self.is_open and uses_topic_ids != self._uses_topic_ids:
            self._end()
            uses_topic_ids = may_use_topic_ids and all(wanted.topic_id != ZERO_UUID for wanted in self.wanted.values())
        if self.is_open:
            return self._incremental() if self.wanted or self._forgotten else None
        if not self.wanted:
            return None
        self._uses_topic_ids = uses_topic_ids
        self._forgotten.clear()
        self._changed.clear()
        self._sent_topic_ids = {key: self._id_to_send(wanted) for key, wanted in self.wanted.items()}
        self._names = {topic_id: key[0] for key, topic_id in self._sent_topic_ids.items()}
        return SessionRequest(self._session_id, FIRST_EPOCH, uses_topic_ids, self._rows(self.wanted), [])

    def _to_tell(self) -> Iterable[Wanted]:
        """Whose topic ids decide: in an open session that uses ids, the others are known to have one."""
        if self.is_open and self._uses_topic_ids:
            return (self.wanted[key] for key in self._changed)
        return self.wanted.values()

    def _id_to_send(self, wanted: Wanted) -> bytes:
        return wanted.topic_id if self._uses_topic_ids else ZERO_UUID

    def _incremental(self) -> SessionRequest:
        changed, self._changed = self._changed, {}
        for key in changed:
            sent_id, topic_id = self._sent_topic_ids.get(key), self._id_to_send(self.wanted[key])
            if sent_id == topic_id:
                self._forgotten.pop(key, None)  # it is wanted again
            elif sent_id is not None:
                self._forgotten[key] = sent_id  # the topic was deleted and created again
            self._sent_topic_ids[key] = topic_id
            self._names[topic_id] = key[0]
        forgotten, self._forgotten = self._forgotten, {}
        for key, topic_id in forgotten.items():
            if self._sent_topic_ids.get(key) == topic_id and key not in self.wanted:
                del self._sent_topic_ids[key]
        return SessionRequest(
            self._session_id,
            self._next_epoch,
            self._uses_topic_ids,
            self._rows(changed),
            self._forgotten_rows(forgotten),
        )

    def _rows(self, keys: Iterable[TopicPartition]) -> list[FetchTopic]:
        topics: dict[str, FetchTopic] = {}
        for key in keys:
            wanted = self.wanted[key]
            topic = topics.get(key[0])
            if topic is None:
                topic = topics[key[0]] = FetchTopic(topic=key[0], topic_id=wanted.topic_id, partitions=[])
            topic.partitions.append(
                FetchPartition(
                    partition=key[1],
                    current_leader_epoch=wanted.leader_epoch,
                    fetch_offset=wanted.fetch_offset,
                    last_fetched_epoch=wanted.last_fetched_epoch,
                    log_start_offset=wanted.log_start_offset,
                    partition_max_bytes=wanted.max_bytes,
                )
            )
        return list(topics.values())

    @staticmethod
    def _forgotten_rows(forgotten: dict[TopicPartition, bytes]) -> list[ForgottenTopic]:
        topics: dict[tuple[str, bytes], ForgottenTopic] = {}
        for (name, partition), topic_id in forgotten.items():
            topic = topics.get((name, topic_id))
            if topic is None:
                topic = topics[name, topic_id] = ForgottenTopic(topic=name, topic_id=topic_id, partitions=[])
            topic.partitions.append(partition)
        return list(topics.values())

    # --- answers ---

    def on_response(self, error: int, session_id: int) -> bool:
        """Apply the leader's response. Returns False when it is an error of the session, without partitions."""
        if error != ErrorCode.NONE:
            if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._session_id = NO_SESSION
            self._end()
            return False
        if session_id == NO_SESSION:
            self._session_id = NO_SESSION
            self._end()
        elif not self.is_open:
            self._session_id, self._next_epoch = session_id, FIRST_EPOCH + 1
        else:
            self._next_epoch = 1 if self._next_epoch == INT32_MAX else self._next_epoch + 1
        return True

    def on_no_answer(self) -> None:
        """Restart the session, because it is unknown whether the leader got the request."""
        self._end()

    def _end(self) -> None:
        self._next_epoch = FIRST_EPOCH
