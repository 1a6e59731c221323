"""How far each partition's log must survive, whatever fails from now on.

A committed record is promised as long as the ISR, at every moment since, held a member that has the record and has not
lost power since. A crash of a process alone excuses nothing: the page cache survives it.

For each partition and broker, `kept` is where the log ends that this broker is sure to have whatever happens to it but
a loss of power; the promise reaches as far as the best member of the ISR. `on_fallen` is told when that was further once.
A broker that has lost power stays away until it is out of every ISR with other members. One that gave up waiting, because
nobody controlled for so long, is not sure of its logs: when it leads it takes the others down with it, which is excused.
Seen from inside, too: at a commit every live member of the ISR must hold what is committed, and whoever joins it must.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from protocol.topic_partition import TopicPartition
from tests.simulation.disk_survey import FoundBatch

LogEnd = Callable[[int, TopicPartition], "int | None"]
Replicas = Callable[[TopicPartition], Collection[int]]

NEVER = 1 << 62


@dataclass(slots=True)
class Promise:
    isr: tuple[int, ...] = ()
    end: int = 0
    kept: dict[int, int] = field(default_factory=dict)  # by broker
    has_lost_power: set[int] = field(default_factory=set)  # since it joined the ISR
    shared: dict[int, int] = field(default_factory=dict)  # up to where who has left the ISR has what is promised
    lowest_fall: int = NEVER  # for brokers that never were in it

    def note_left(self, left: Iterable[int]) -> None:
        """They hold what is promised now, and may have more that nobody else has."""
        self.shared.update(dict.fromkeys(left, self.end))

    def note_fall(self) -> None:
        """Who is not in the ISR may have other records from here on than those that come now."""
        self.lowest_fall = min(self.lowest_fall, self.end)
        for broker_id in self.shared:
            self.shared[broker_id] = min(self.shared[broker_id], self.end)

    def forget_removed(self, replicas: Collection[int]) -> None:
        """A broker that is no replica any more has deleted its log: when it is one again, it begins with nothing."""
        for broker_id in self.kept.keys() - {*replicas, *self.isr}:
            del self.kept[broker_id]
            self.shared.pop(broker_id, None)

    @property
    def insured_end(self) -> int:
        return max((self.kept.get(broker_id, 0) for broker_id in self.isr), default=0)


class PromiseChecker:
    """`log_end` tells where a live broker's log ends, None when nobody can say; `replicas` who has a log, nobody of an unknown
    partition; `is_unsure` whether a live broker knows that its logs may lack what the ISR counts on."""

    def __init__(
        self,
        report: Callable[[str], None],
        log_end: LogEnd,
        replicas: Replicas,
        is_unsure: Callable[[int], bool],
        on_fallen: Callable[[TopicPartition, int], None],
    ) -> None:
        self._report = report
        self._log_end = log_end
        self._replicas = replicas
        self._is_unsure = is_unsure
        self._on_fallen = on_fallen
        self.promises: dict[TopicPartition, Promise] = {}

    def of(self, key: TopicPartition) -> Promise:
        return self.promises.setdefault(key, Promise())

    def forget(self, key: TopicPartition) -> None:
        """The partition was deleted."""
        self.promises.pop(key, None)

    def on_state(self, key: TopicPartition, leader: int, isr: Iterable[int]) -> None:
        """The state node has changed."""
        promise = self.of(key)
        joined = set(isr) - set(promise.isr)
        is_first = not promise.isr
        is_unclean = not is_first and joined == set(isr)
        promise.note_left(set(promise.isr) - set(isr))
        promise.forget_removed(self._replicas(key))
        promise.isr = tuple(isr)
        for broker_id in sorted(joined):
            promise.has_lost_power.discard(broker_id)
            end = self._log_end(broker_id, key)
            if end is None:
                continue
            if end < promise.end and not is_first and set(promise.isr) - {broker_id}:
                self._report(f"{key}: broker {broker_id} joins the ISR at {end}, committed is {promise.end}")
            if is_unclean:
                end = min(end, promise.shared.get(broker_id, promise.lowest_fall))
            promise.kept[broker_id] = min(end, promise.end)
        self._settle(key, promise)
        for broker_id in joined:
            promise.shared.pop(broker_id, None)
        if is_unclean:
            # The leader before may have come with records behind the promise, uncleanly as well: what was read of it goes.
            self._on_fallen(key, promise.end)
        self.on_leader(key, leader)

    def on_leader(self, key: TopicPartition, leader: int) -> None:
        """`leader` was elected, or leads again where it led before."""
        promise = self.of(key)
        if self._is_excused(promise, leader):
            promise.has_lost_power.discard(leader)
            end = promise.kept.get(leader, 0)
            for broker_id in promise.kept:
                promise.kept[broker_id] = min(promise.kept[broker_id], end)
            self._settle(key, promise)

    def on_commit(self, key: TopicPartition, end: int, *, is_current: bool) -> None:
        """A leader's high watermark has moved to `end`. `is_current`: it is the leader that the state node names."""
        promise = self.of(key)
        for broker_id in promise.isr:
            log_end = self._log_end(broker_id, key)
            if log_end is None:
                continue
            if is_current and log_end < end and not self._is_excused(promise, broker_id):
                self._report(f"{key}: {end} is committed, but broker {broker_id} of the ISR ends at {log_end}")
            promise.kept[broker_id] = max(promise.kept.get(broker_id, 0), min(log_end, end))
        promise.end = max(promise.end, end)
        self._settle(key, promise)

    def _is_excused(self, promise: Promise, broker_id: int) -> bool:
        return broker_id in promise.has_lost_power and self._is_unsure(broker_id)

    def on_power_lost(
        self,
        broker_id: int,
        written: Mapping[TopicPartition, list[FoundBatch]],
        durable: Mapping[TopicPartition, list[FoundBatch]],
    ) -> None:
        """`written` is what its files held, `durable` what is sure to be left."""
        for key, promise in self.promises.items():
            left = common_end(written.get(key, ()), durable.get(key, ()))
            promise.kept[broker_id] = min(promise.kept.get(broker_id, 0), left)
            promise.has_lost_power.add(broker_id)
            self._settle(key, promise)

    def _settle(self, key: TopicPartition, promise: Promise) -> None:
        if promise.insured_end < promise.end:
            promise.end = promise.insured_end
            promise.note_fall()
            for broker_id, end in promise.kept.items():  # what lies behind may be other records by now
                promise.kept[broker_id] = min(end, promise.end)
            self._on_fallen(key, promise.end)


def common_end(written: Iterable[FoundBatch], durable: Iterable[FoundBatch]) -> int:
    """Where the equal beginning of two logs ends. A truncation that was not flushed may come undone."""
    end = 0
    by_offset = {batch.base_offset: batch for batch in written}
    for batch in durable:
        if by_offset.get(batch.base_offset) != batch:
            break
        end = batch.next_offset
    return end
