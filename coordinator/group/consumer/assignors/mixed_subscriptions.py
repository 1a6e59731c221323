"""The assignor `uniform` where members read different topics.

Members keep what they own of topics that they read. Partitions that nobody owns go to the reader that owns least, topic by
topic, beginning where a reader has the most partitions to take. Then, topic by topic, partitions move from the readers that
own most to those that own least until they are one apart, or no reader that owns most has a partition of this topic. That is
repeated until a round moves nothing, at most 16 times.

Invariant: `owners[topic][partition]` is the index of the member that owns it, or -1; `sizes[member]` counts its partitions.
Source: Kafka UniformHeterogeneousAssignmentBuilder.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from typing import Final

from coordinator.group.assigned.assignor import STEP_WORK, Assignment, Members, Steps, Topics, id_order

_MAX_ROUNDS: Final = 16
_NOBODY: Final = -1


def assign_mixed(members: Members, topics: Topics) -> Steps:
    state = _Shares(members, topics)
    yield from state.load()
    order = state.topics_in_order()
    yield from state.give_out(order)
    yield from state.balance(order)
    return (yield from state.assignment())


class _Shares:
    def __init__(self, members: Members, topics: Topics) -> None:
        self._members = members
        self._topics = topics
        self._readers: defaultdict[bytes, list[int]] = defaultdict(list)  # in ascending order
        self._owners: dict[bytes, list[int]] = {}
        self._sizes = [0] * len(members)
        self._changed: set[int] = set()

    def load(self) -> Generator[None, None, None]:
        """Take what members own and read."""
        work = 0
        for index, member in enumerate(self._members.values()):
            for topic_id in member.topic_ids:
                self._readers[topic_id].append(index)
            work += len(member.topic_ids) + 1
            if work >= STEP_WORK:
                yield
                work = 0
        for topic_id in self._readers:
            self._owners[topic_id] = [_NOBODY] * self._topics[topic_id]
        for index, member in enumerate(self._members.values()):
            for topic_id, partitions in member.owned.items():
                if topic_id not in member.topic_ids:
                    self._changed.add(index)
                    continue
                owners = self._owners[topic_id]
                for partition in partitions:
                    owners[partition] = index
                self._sizes[index] += len(partitions)
                work += len(partitions) + 1
            if work >= STEP_WORK:
                yield
                work = 0

    def topics_in_order(self) -> list[bytes]:
        """Topics with the most partitions for a reader first, among them those with the fewest readers."""

        def order(topic_id: bytes) -> tuple[float, int, tuple[int, int]]:
            readers_count = len(self._readers[topic_id])
            return -(self._topics[topic_id] / readers_count), readers_count, id_order(topic_id)

        return sorted(self._readers, key=order)

    def give_out(self, order: list[bytes]) -> Generator[None, None, None]:
        """Give partitions that nobody owns to the readers that own least."""
        for topic_id in order:
            owners = self._owners[topic_id]
            unowned = [partition for partition, owner in enumerate(owners) if owner == _NOBODY]
            if unowned:
                queue = _ReadersBySize(self._sizes, self._readers[topic_id])
                for partition in unowned:
                    self._move(owners, partition, queue.next_least())
                yield

    def balance(self, order: list[bytes]) -> Generator[None, None, None]:
        """Go through all topics until a whole round, from the last move on, has moved nothing."""
        order = [topic_id for topic_id in order if len(self._readers[topic_id]) > 1]
        last_moved = order[0] if order else None
        is_first = True
        for _ in range(_MAX_ROUNDS):
            for topic_id in order:
                if topic_id == last_moved and not is_first:
                    return
                is_first = False
                if self._balance_topic(topic_id) > 0:
                    last_moved = topic_id
                yield

    def _balance_topic(self, topic_id: bytes) -> int:
        """Move partitions from the readers that own most to those that own least. Returns how many moved."""
        readers = self._readers[topic_id]
        sizes = [self._sizes[reader] for reader in readers]
        if max(sizes) - min(sizes) <= 1:
            return 0
        owners = self._owners[topic_id]
        owned: defaultdict[int, list[int]] = defaultdict(list)
        for partition, owner in enumerate(owners):
            owned[owner].append(partition)
        queue = _ReadersBySize(self._sizes, readers)
        moved = 0
        while not queue.is_balanced():
            giver = queue.next_most(owned)
            taker = queue.next_least()
            if giver is None or queue.is_balanced():
                break
            self._move(owners, owned[giver].pop(), taker)
            moved += 1
        return moved

    def _move(self, owners: list[int], partition: int, taker: int) -> None:
        giver = owners[partition]
        if giver != _NOBODY:
            self._sizes[giver] -= 1
            self._changed.add(giver)
        owners[partition] = taker
        self._sizes[taker] += 1
        self._changed.add(taker)

    def assignment(self) -> Steps:
        shares: dict[int, dict[bytes, list[int]]] = {index: {} for index in self._changed}
        work = 0
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                if owner in shares:
                    shares[owner].setdefault(topic_id, []).append(partition)
            work += len(owners)
            if work >= STEP_WORK:
                yield
                work = 0
        assignment: Assignment = {}
        for index, (member_id, member) in enumerate(self._members.items()):
            assignment[member_id] = member.owned
            if index in shares:
                share = {topic_id: frozenset(partitions) for topic_id, partitions in shares[index].items()}
                if share != member.owned:
                    assignment[member_id] = share
                work += self._sizes[index]
            work += 1
            if work >= STEP_WORK:
                yield
                work = 0
        return assignment


class _ReadersBySize:
    """The readers of a topic by how many partitions they own, taken in turn from either end.

    All readers with the smallest size get one each, then they and those with the next size, and so on; and the same from the
    other end. `sizes` changes between calls: who was taken owns one more or one less.
    """

    def __init__(self, sizes: list[int], readers: list[int]) -> None:
        self._sizes = sizes
        self._readers = sorted(readers, key=sizes.__getitem__)  # stable: those of one size stay in ascending order
        self._least_end = 0  # the readers before it own `_least_size`, as far as this turn has not reached them
        self._least_size = sizes[self._readers[0]] - 1
        self._next_least = 0
        self._most_start = self._most_end = len(readers)  # the readers between own `_most_size`, in the same way
        self._most_size = sizes[self._readers[-1]] + 1
        self._next_most = len(readers) - 1

    def is_balanced(self) -> bool:
        return self._most_size - self._least_size <= 1

    def next_least(self) -> int:
        readers, sizes = self._readers, self._sizes
        if self._next_least >= self._least_end:
            self._least_size += 1
            while self._least_end < len(readers) and sizes[readers[self._least_end]] == self._least_size:
                self._least_end += 1
            self._next_least = 0
        reader = readers[self._next_least]
        self._next_least += 1
        return reader

    def next_most(self, owned: Mapping[int, Sequence[int]]) -> int | None:
        """The next reader that has a partition of this topic, of which each reader has `owned`; None: no reader has one."""
        while self._turn_to_most():
            reader = self._readers[self._next_most]
            if owned.get(reader):
                self._next_most -= 1
                return reader
            self._most_end -= 1  # it has nothing to give: out of the end
            last = self._readers[self._most_end]
            self._readers[self._next_most], self._readers[self._most_end] = last, reader
            self._next_most -= 1
        return None

    def _turn_to_most(self) -> bool:
        """Begin the next turn where the last one is over. False: no reader is left."""
        readers, sizes = self._readers, self._sizes
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                self._most_size = sizes[readers[self._most_start - 1]]
            else:
                self._most_size -= 1
            while self._most_start > 0 and sizes[readers[self._most_start - 1]] == self._most_size:
                self._most_start -= 1
            self._next_most = self._most_end - 1
        return self._next_most >= 0
