"""The share session of one member at one leader: fetches that carry acknowledgements, acknowledgements alone, and what
checkers are told of both.

One request is under way at a time. After one without an answer, or one that says so, the session is opened anew: what was
acquired in it is not acknowledged any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from random import Random

from client.event_loop.cluster_client import WAITING_LANE
from protocol.errors import ErrorCode, KafkaError
from protocol.messages import share_acknowledge, share_fetch
from protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from protocol.messages.share_fetch import ForgottenTopic, ShareFetchRequest, ShareFetchResponse
from protocol.share_states import AcknowledgeType, ShareAcquireMode
from protocol.topic_partition import TopicPartition
from tests.simulation.clients.observed import ObservedCluster
from tests.simulation.shares.checkers.deliveries import AcknowledgedRows, Term
from tests.simulation.shares.plan import TRANSACTIONAL
from tests.simulation.shares.world import ShareWorld
from tests.simulation.transactions.records import read_records

OPENS, CLOSES = 0, -1
MAX_WAIT_MS = 300
SESSION_LOST = frozenset({ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH})
Kinds = dict[TopicPartition, dict[int, AcknowledgeType]]


@dataclass(frozen=True, slots=True)
class Taken:
    """One record that was acquired, at one leader."""

    key: TopicPartition
    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one fetch."""

    max_records: int
    batch_size: int
    mode: ShareAcquireMode
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Then:
    """What held when a request was sent."""

    sent_s: float
    terms: dict[TopicPartition, Term | None]
    rows: dict[TopicPartition, AcknowledgedRows]
    forgotten_count: int


class ShareSession:
    """`version` is that of the requests."""

    def __init__(
        self, world: ShareWorld, cluster: ObservedCluster, group: str, member: str, broker_id: int, *, version: int
    ) -> None:
        self.broker_id = broker_id
        self.version = version
        self.pending: Kinds = {}
        """What is to be acknowledged."""
        self._world = world
        self._cluster = cluster
        self._group = group
        self._member = member
        self._epoch = OPENS
        self._keys: set[TopicPartition] = set()

    @property
    def is_open(self) -> bool:
        return self._epoch != OPENS

    # --- requests ---

    async def fetch(self, keys: Collection[TopicPartition], limits: Limits) -> list[Taken] | None:
        """Records that were acquired, and what is pending is acknowledged; None when the leaders are to be asked for
        again."""
        if self._epoch == OPENS:
            self._begin()
        wanted = set(keys)
        kinds, added, gone = self._taken_pending(), wanted - self._keys, self._keys - wanted
        self._keys = wanted | (gone & kinds.keys())
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._member,
            share_session_epoch=self._epoch,
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=limits.max_bytes,
            max_records=limits.max_records,
            batch_size=limits.batch_size,
            share_acquire_mode=limits.mode if self.version >= 2 else ShareAcquireMode.BATCH_OPTIMIZED,
            is_renew_ack=_renews(kinds),
            topics=[
                share_fetch.FetchTopic(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in self._fetch_rows(added, kinds).items()
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=self._world.topic_ids[topic], partitions=sorted(partitions))
                for topic, partitions in _by_topic(gone - kinds.keys()).items()
            ],
        )
        if _renews(kinds):  # nothing is fetched then
            request.max_bytes = request.max_records = request.max_wait_ms = request.min_bytes = request.batch_size = 0
        then = self._sending(wanted, kinds)
        try:
            response = await self._cluster.send(
                self.broker_id, request, ShareFetchResponse, lane=WAITING_LANE, max_version=self.version
            )
        except (OSError, KafkaError) as error:
            self._world.loop.note(f"{self._member}: {error}")
            for key in wanted:
                self._world.deliveries.unanswered(self._group, key)
            self._lost()
            return None
        return self._fetched(response, then, limits)

    async def acknowledge(self, *, closes: bool = False) -> bool:
        """What is pending is acknowledged; `closes` ends the session, and releases what is left. Whether there was an
        answer."""
        kinds = self._taken_pending()
        if self._epoch == OPENS or not (kinds or closes):
            return True
        request = ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=self._member,
            share_session_epoch=CLOSES if closes else self._epoch,
            is_renew_ack=_renews(kinds),
            topics=[
                share_acknowledge.AcknowledgeTopic(
                    topic_id=self._world.topic_ids[topic],
                    partitions=[
                        share_acknowledge.AcknowledgePartition(
                            partition_index=partition,
                            acknowledgement_batches=[
                                share_acknowledge.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=types
                                )
                                for first, last, types in batches_of(kinds[topic, partition], self._world.random)
                            ],
                        )
                        for partition in sorted(partitions)
                    ],
                )
                for topic, partitions in _by_topic(kinds).items()
            ],
        )
        then = self._sending(kinds, kinds)
        if closes:
            self._over()
        try:
            response = await self._cluster.send(
                self.broker_id, request, ShareAcknowledgeResponse, lane=WAITING_LANE, max_version=self.version
            )
        except (OSError, KafkaError) as error:
            self._world.loop.note(f"{self._member}: {error}")
            self._lost()
            return False
        if not self._is_fine(response.error_code, "ShareAcknowledge"):
            self._undone(then, ErrorCode.of(response.error_code))
            return True
        for topic in response.responses:
            for row in topic.partitions:
                key = (self._world.name_of(topic.topic_id), row.partition_index)
                self._acknowledged(key, then, ErrorCode.of(row.error_code))
        if closes:
            self._epoch = OPENS
        else:
            self._epoch += 1
        return True

    def forget(self) -> None:
        """Open it anew with the next request."""
        self._lost()

    # --- what goes out ---

    def _begin(self) -> None:
        self._keys = set()
        self.pending.clear()
        self._over()

    def _taken_pending(self) -> Kinds:
        kinds, self.pending = {key: each for key, each in self.pending.items() if each}, {}
        return kinds

    def _fetch_rows(self, added: set[TopicPartition], kinds: Kinds) -> dict[bytes, list[share_fetch.FetchPartition]]:
        rows: dict[bytes, list[share_fetch.FetchPartition]] = {}
        for key in sorted(added | kinds.keys()):
            batches = [
                share_fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                for first, last, types in batches_of(kinds.get(key, {}), self._world.random)
            ]
            rows.setdefault(self._world.topic_ids[key[0]], []).append(
                share_fetch.FetchPartition(partition_index=key[1], acknowledgement_batches=batches)
            )
        return rows

    def _sending(self, keys: Iterable[TopicPartition], kinds: Kinds) -> Then:
        world = self._world
        terms = {key: world.term(self.broker_id, self._group, key) for key in sorted({*keys, *kinds})}
        rows = {
            key: world.deliveries.acknowledging(self._group, key, self._member, kinds[key], terms[key])
            for key in sorted(kinds)
        }
        return Then(world.loop.time(), terms, rows, world.deliveries.forgotten_count)

    # --- what comes back ---

    def _fetched(self, response: ShareFetchResponse, then: Then, limits: Limits) -> list[Taken] | None:
        if not self._is_fine(response.error_code, "ShareFetch"):
            self._undone(then, ErrorCode.of(response.error_code))
            return []
        self._epoch += 1
        self._world.count("share fetches")
        taken: list[Taken] = []
        has_moved = False
        for topic in response.responses:
            for row in topic.partitions:
                key = (self._world.name_of(topic.topic_id), row.partition_index)
                if key in then.rows:
                    self._acknowledged(key, then, ErrorCode.of(row.acknowledge_error_code))
                code = ErrorCode.of(row.error_code)
                if code is ErrorCode.NONE:
                    taken += self._acquired(key, row, then, response.acquisition_lock_timeout_ms / 1_000)
                elif code not in self._world.not_now:
                    self._world.report(f"{self._member}: ShareFetch of {key} was answered {code!r}")
                has_moved |= code is not ErrorCode.NONE
        if limits.mode is ShareAcquireMode.RECORD_LIMIT and self.version >= 2 and len(taken) > limits.max_records:
            self._world.report(f"{self._member} asked for {limits.max_records} records and was given {len(taken)}")
        if has_moved:
            self._cluster.forget_topics([key[0] for key in then.terms])
        return taken

    def _acquired(self, key: TopicPartition, row: share_fetch.PartitionData, then: Then, lock_s: float) -> list[Taken]:
        world, taken = self._world, []
        values = {each.offset: each.value for each in read_records(bytes(row.records or b""))[0] if each.marker is None}
        term = world.term(self.broker_id, self._group, key)
        if term != then.terms[key]:
            term = None
        next_offset = -1
        for acquired in row.acquired_records:
            whole = range(acquired.first_offset, acquired.last_offset + 1)
            offsets = [offset for offset in whole if offset in values]
            missing = [offset for offset in whole if offset not in values]
            if key[0] == TRANSACTIONAL:  # markers
                self.pending.setdefault(key, {}).update(dict.fromkeys(missing, AcknowledgeType.GAP))
                world.fates.delivered(self._member, [values[offset] for offset in offsets])
            elif missing or acquired.first_offset < next_offset or not offsets:
                world.report(f"{self._member}: {key} {acquired!r} is acquired, without {missing}")
                return []
            next_offset = acquired.last_offset + 1
            if not offsets:
                continue
            world.deliveries.acquired(
                self._group, key, self._member, {offset: values[offset] for offset in offsets}, acquired.delivery_count,
                sent_s=then.sent_s, lock_s=lock_s, term=term, forgotten_count=then.forgotten_count,
            )  # fmt: skip
            taken += [Taken(key, offset, values[offset]) for offset in offsets]
        return taken

    def _acknowledged(self, key: TopicPartition, then: Then, code: ErrorCode) -> None:
        world = self._world
        if key not in then.rows:
            if code is not ErrorCode.NONE:
                world.report(f"{self._member}: {key} is answered {code!r}, nothing of it was acknowledged")
            return
        is_refused = code in REFUSED
        if is_refused:
            world.count("acknowledgements refused")
        elif code is not ErrorCode.NONE:
            world.count("acknowledgements in doubt")
            if code not in world.not_now and code not in FENCED:
                world.report(f"{self._member}: acknowledgements in {key} were answered {code!r}")
        term = world.term(self.broker_id, self._group, key)
        world.deliveries.answered(
            then.rows[key], term if term == then.terms[key] else None, is_done=code is ErrorCode.NONE,
            is_refused=is_refused, forgotten_count=then.forgotten_count,
        )  # fmt: skip

    def _undone(self, then: Then, code: ErrorCode) -> None:
        """The whole request was refused."""
        for rows in then.rows.values():
            self._world.deliveries.answered(
                rows, None, is_done=False, is_refused=code in SESSION_LOST, forgotten_count=then.forgotten_count
            )

    def _is_fine(self, error_code: int, what: str) -> bool:
        code = ErrorCode.of(error_code)
        if code is ErrorCode.NONE:
            return True
        self._world.count("share sessions lost")
        if code not in SESSION_LOST and code not in self._world.not_now:
            self._world.report(f"{self._member}: {what} was answered {code!r}")
        self._lost()
        return False

    def _over(self) -> None:
        """What was acquired here may be free from now on."""
        self._world.deliveries.session_over(self._member, self.broker_id)

    def _lost(self) -> None:
        self._epoch = OPENS
        self.pending.clear()
        self._over()


REFUSED = frozenset({ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST})
"""The second: a leader has read anew what is stored, and has nothing in flight there."""
FENCED = frozenset({ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_LEADER_EPOCH})
"""Of a leader that another one has followed."""


def batches_of(kinds: Mapping[int, AcknowledgeType], rng: Random) -> Iterator[tuple[int, int, list[int]]]:
    """Offsets as rows of a request: first, last, and one type for all or one for each."""
    run: list[int] = []
    for offset in sorted(kinds):
        if run and (offset != run[-1] + 1 or rng.random() < 0.05):
            yield _row(run, kinds)
            run = []
        run.append(offset)
    if run:
        yield _row(run, kinds)


def _row(run: list[int], kinds: Mapping[int, AcknowledgeType]) -> tuple[int, int, list[int]]:
    types = [int(kinds[offset]) for offset in run]
    return run[0], run[-1], types[:1] if len(set(types)) == 1 else types


def _renews(kinds: Kinds) -> bool:
    return any(kind is AcknowledgeType.RENEW for each in kinds.values() for kind in each.values())


def _by_topic(keys: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(keys):
        found.setdefault(topic, []).append(partition)
    return found
