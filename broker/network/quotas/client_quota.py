"""One kind of client quota: who has which limit, how much each has used, and for how long a client must wait. Pure.

The limit of a client is the first that is set, of

    user and client id    user and default client id    user
    default user and client id    default user and default client id    default user    client id    default client id

Those whose limit has the same tags (`user`, `client_id`; empty where the limit is not for it) share a rate: all client ids of a
user with a limit of its own or by default, but each of them alone where the limit is for user and client id.

Rules: no IO; time is passed. Nothing is counted while no limit of the kind is set anywhere.
Invariants: a rate that is not used for an hour is dropped; there are at most `rates_max` of them, of which the one that is
unused for the longest goes: a client may send as many client ids as it likes.
Source: KIP-13, KIP-55; Kafka ClientQuotaManager, DefaultQuotaCallback.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from metadata.client_quotas import DEFAULT, QuotaEntity
from runtime.sampled_rates import TokenBucket, WindowedRate

UNUSED_MS = 3_600_000
NO_LIMIT = math.inf
# What throttle times are averaged over: Kafka's metrics.num.samples and metrics.sample.window.ms.
AVERAGE_SAMPLES = 2
AVERAGE_WINDOW_MS = 30_000

# Which entities have limits.
_OF_CLIENT_IDS, _OF_USERS, _OF_BOTH = 1, 2, 4


class Tags(NamedTuple):
    """The two labels of a rate; empty where its limit is not for a user, or not for a client id."""

    user: str
    client_id: str


class Windows(NamedTuple):
    """How rates are measured: `quota.window.size.seconds` and `quota.window.num`."""

    window_ms: int
    samples_max: int


class ClientRate:
    """What the clients of some tags have used."""

    __slots__ = ("_throttles", "bucket", "limit", "rate", "tags", "used_ms")

    def __init__(self, tags: Tags, limit: float, windows: Windows, *, has_bucket: bool) -> None:
        self.tags = tags
        self.limit = limit
        self.rate = WindowedRate(windows.window_ms, windows.samples_max)
        self.bucket = TokenBucket(windows.samples_max * windows.window_ms / 1000) if has_bucket else None
        self.used_ms = 0
        self._throttles: tuple[WindowedRate, WindowedRate] | None = (
            None  # since the first: their times, and their count
        )

    def record(self, value: float, now_ms: int) -> int:
        """Count `value`; return the time in milliseconds for which the client must wait."""
        self.rate.record(value, now_ms)
        return 0 if self.limit == NO_LIMIT else self.rate.throttle_ms(self.limit, now_ms)

    def take_back(self, value: float, now_ms: int) -> None:
        self.rate.record(-value, now_ms)

    def take(self, count: float, now_ms: int) -> None:
        """Take tokens, whether they are there or not."""
        assert self.bucket is not None
        self.rate.record(count, now_ms)
        if self.limit != NO_LIMIT:
            self.bucket.take(count, self.limit, now_ms)

    def bucket_throttle_ms(self, now_ms: int) -> int:
        """Return the time until there are tokens again."""
        assert self.bucket is not None
        return 0 if self.limit == NO_LIMIT else self.bucket.throttle_ms(self.limit, now_ms)

    def throttled(self, throttle_ms: int, now_ms: int) -> None:
        """A response asked a client to wait."""
        if self._throttles is None:
            self._throttles = (
                WindowedRate(AVERAGE_WINDOW_MS, AVERAGE_SAMPLES),
                WindowedRate(AVERAGE_WINDOW_MS, AVERAGE_SAMPLES),
            )
        times, count = self._throttles
        times.record(throttle_ms, now_ms)
        count.record(1, now_ms)

    def mean_throttle_ms(self, now_ms: int) -> float:
        """Return the mean throttle time of late; 0 if no client had to wait."""
        if self._throttles is None:
            return 0.0
        times, count = self._throttles
        many = count.per_second(now_ms)
        return times.per_second(now_ms) / many if many else 0.0


class ClientQuota:
    """All limits and rates of one kind. `is_on` while any limit is set."""

    def __init__(self, windows: Windows, rates_max: int, *, has_buckets: bool = False) -> None:
        self._windows = windows
        self._rates_max = rates_max
        self._has_buckets = has_buckets
        self._limits: dict[QuotaEntity, float] = {}
        self._levels = 0
        self._limits_count = {_OF_CLIENT_IDS: 0, _OF_USERS: 0, _OF_BOTH: 0}
        self._rates: dict[Tags, ClientRate] = {}  # the one that is unused for the longest first
        self.is_on = False

    def __len__(self) -> int:
        return len(self._rates)

    def __iter__(self) -> Iterator[ClientRate]:
        return iter(list(self._rates.values()))

    # --- limits ---

    def limit(self, entity: QuotaEntity, value: float | None) -> None:
        """Set the limit of an entity, or remove it (None)."""
        before = self._limits.pop(entity, None)
        if value is not None:
            self._limits[entity] = NO_LIMIT if math.isnan(value) else value
        if self._limits.get(entity) == before:
            return
        level = _OF_CLIENT_IDS if entity.user is None else _OF_USERS if entity.client_id is None else _OF_BOTH
        self._limits_count[level] += (value is not None) - (before is not None)
        self._levels = sum(each for each, count in self._limits_count.items() if count)
        self.is_on = bool(self._limits)
        if not self.is_on:
            self._rates.clear()
        for rate in self._rates.values():
            rate.limit = self.limit_of(rate.tags)

    def tags_of(self, user: str, client_id: str) -> Tags:
        """Return the tags of the rate that counts for a client."""
        levels = self._levels
        if levels == _OF_CLIENT_IDS:
            return Tags("", client_id)
        if levels == _OF_USERS:
            return Tags(user, "")
        if levels == _OF_BOTH:
            return Tags(user, client_id)
        limits = self._limits
        for name in (user, DEFAULT):
            if QuotaEntity(name, client_id) in limits or QuotaEntity(name, DEFAULT) in limits:
                return Tags(user, client_id)
            if QuotaEntity(name) in limits:
                return Tags(user, "")
        return Tags("", client_id)

    def limit_of(self, tags: Tags) -> float:
        user, client_id = tags
        entities: tuple[QuotaEntity, ...] = ()
        if user and client_id:
            entities = (
                QuotaEntity(user, client_id), QuotaEntity(user, DEFAULT),
                QuotaEntity(DEFAULT, client_id), QuotaEntity(DEFAULT, DEFAULT),
            )  # fmt: skip
        elif user:
            entities = (QuotaEntity(user), QuotaEntity(DEFAULT))
        elif client_id:
            entities = (QuotaEntity(None, client_id), QuotaEntity(None, DEFAULT))
        return next((self._limits[entity] for entity in entities if entity in self._limits), NO_LIMIT)

    # --- rates ---

    def rate_of(self, user: str, client_id: str, now_ms: int) -> ClientRate:
        """Return the rate that counts for a client."""
        tags = self.tags_of(user, client_id)
        rates = self._rates
        found = rates.pop(tags, None)
        if found is None:
            self._drop_unused(now_ms)
            found = ClientRate(tags, self.limit_of(tags), self._windows, has_bucket=self._has_buckets)
        rates[tags] = found
        found.used_ms = now_ms
        return found

    def largest_in_window(self, user: str, client_id: str, now_ms: int) -> float:
        """Return what a client may use in a window at once: more would be throttled whatever came before."""
        full_windows = self._windows.samples_max - 1
        return self.rate_of(user, client_id, now_ms).limit * full_windows * self._windows.window_ms / 1000

    def _drop_unused(self, now_ms: int) -> None:
        rates = self._rates
        while rates:
            oldest = next(iter(rates.values()))
            if len(rates) < self._rates_max and now_ms - oldest.used_ms < UNUSED_MS:
                return
            del rates[oldest.tags]
