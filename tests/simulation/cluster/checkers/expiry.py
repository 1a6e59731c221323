"""Records that expire (`barnabas.message.ttl.ms`): none goes early by any machine's clock, and none stays for long.

A batch is as old as its newest record. The clock of a machine may be wrong, and it is the leader's that counts: early is what
the fastest clock that ever was cannot explain, late is what the slowest one cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from protocol.topic_partition import TopicPartition

GRACE_MS = 4_000
"""A new leader looks within a second; its followers hear of it with their next fetch."""


class ExpiryChecker:
    """`ttls_ms` by topic. `fastest_ms` returns the time of the fastest clock that ever was, `slowest_ms` of the slowest one."""

    def __init__(
        self,
        report: Callable[[str], None],
        count: Callable[[str, int], None],
        ttls_ms: Mapping[str, int],
        *,
        fastest_ms: Callable[[], int],
        slowest_ms: Callable[[], int],
    ) -> None:
        self._report = report
        self._count = count
        self._ttls_ms = ttls_ms
        self._fastest_ms = fastest_ms
        self._slowest_ms = slowest_ms
        self._newest_ms: dict[str, int] = {}  # of the batch of a value
        self._expired_to: dict[TopicPartition, int] = {}

    def sending(self, key: TopicPartition, values: Iterable[str], newest_ms: int) -> None:
        """A batch with these values is sent."""
        if key[0] in self._ttls_ms:
            self._newest_ms.update(dict.fromkeys(values, newest_ms))

    def fallen(self, key: TopicPartition, end_offset: int) -> None:
        """Other records may come at `end_offset` and behind."""
        self._expired_to[key] = min(self._expired_to.get(key, 0), end_offset)

    def may_be_gone(self, key: TopicPartition, known: Mapping[int, str], start_offset: int, end_offset: int) -> bool:
        """Whether the `known` records in [start_offset, end_offset) may have expired by now."""
        ttl_ms = self._ttls_ms.get(key[0])
        if ttl_ms is None:
            return False
        now_ms, expired_to = self._fastest_ms(), self._expired_to.get(key, 0)
        for offset in range(max(start_offset, expired_to), end_offset):
            value = known.get(offset)
            if value is not None and now_ms - self._newest_ms[value] <= ttl_ms:
                return False
        if end_offset > expired_to:
            self._count("records expired", end_offset - max(start_offset, expired_to))
            self._expired_to[key] = end_offset
        return True

    def at_rest(self, key: TopicPartition, records: Sequence[tuple[int, str]]) -> None:
        """All that is readable, when nobody has written any more for longer than a leader needs."""
        ttl_ms = self._ttls_ms.get(key[0])
        if ttl_ms is None or not records:
            return
        offset, value = records[0]
        age_ms = self._slowest_ms() - self._newest_ms[value]
        if age_ms > ttl_ms + GRACE_MS:
            self._report(f"{key} begins at {offset} with a record that is {age_ms} ms old, and expires after {ttl_ms}")
