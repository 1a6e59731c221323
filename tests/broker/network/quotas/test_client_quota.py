"""Which limit counts for a client, who shares a rate, and how many rates are kept."""

from __future__ import annotations

import math

import pytest

from broker.network.quotas.client_quota import NO_LIMIT, UNUSED_MS, ClientQuota, Tags, Windows
from metadata.client_quotas import DEFAULT, QuotaEntity

WINDOWS = Windows(1_000, 11)

# The most specific first; the tags of the rate that counts for alice's client app.
LEVELS = [
    (QuotaEntity("alice", "app"), Tags("alice", "app")),
    (QuotaEntity("alice", DEFAULT), Tags("alice", "app")),
    (QuotaEntity("alice"), Tags("alice", "")),
    (QuotaEntity(DEFAULT, "app"), Tags("alice", "app")),
    (QuotaEntity(DEFAULT, DEFAULT), Tags("alice", "app")),
    (QuotaEntity(DEFAULT), Tags("alice", "")),
    (QuotaEntity(None, "app"), Tags("", "app")),
    (QuotaEntity(None, DEFAULT), Tags("", "app")),
]


def quota_of(*limits: tuple[QuotaEntity, float], rates_max: int = 10) -> ClientQuota:
    quota = ClientQuota(WINDOWS, rates_max)
    for entity, limit in limits:
        quota.limit(entity, limit)
    return quota


@pytest.mark.parametrize("first", range(len(LEVELS)))
@pytest.mark.parametrize("second", range(len(LEVELS)))
def test_the_more_specific_limit_counts(first: int, second: int) -> None:
    quota = quota_of((LEVELS[first][0], first), (LEVELS[second][0], second))
    rate = quota.rate_of("alice", "app", 0)
    best = min(first, second)
    assert (rate.limit, rate.tags) == (best, LEVELS[best][1])


@pytest.mark.parametrize("level", range(len(LEVELS)))
def test_every_level_counts_when_those_above_it_are_removed(level: int) -> None:
    quota = quota_of(*((entity, number) for number, (entity, _) in enumerate(LEVELS)))
    for entity, _ in LEVELS[:level]:
        quota.limit(entity, None)
    rate = quota.rate_of("alice", "app", 0)
    assert (rate.limit, rate.tags) == (level, LEVELS[level][1])


def test_a_client_without_a_limit_is_counted_and_never_waits() -> None:
    quota = quota_of((QuotaEntity("alice", "app"), 1), (QuotaEntity(None, "other"), 1))
    rate = quota.rate_of("bob", "app", 0)
    assert rate.limit == NO_LIMIT
    assert rate.record(1e12, 0) == 0
    assert rate.rate.per_second(0) == pytest.approx(1e11)


def test_client_ids_of_a_user_share_its_rate() -> None:
    quota = quota_of((QuotaEntity("alice"), 100))
    assert quota.rate_of("alice", "one", 0) is quota.rate_of("alice", "two", 0)
    assert quota.rate_of("alice", "one", 0) is not quota.rate_of("bob", "one", 0)
    users = quota_of((QuotaEntity(DEFAULT), 100))
    assert users.rate_of("alice", "one", 0) is not users.rate_of("bob", "one", 0)


def test_a_changed_limit_holds_for_rates_that_there_are() -> None:
    quota = quota_of((QuotaEntity("alice"), 100))
    rate = quota.rate_of("alice", "", 0)
    assert rate.record(2_000, 0) == 10_000
    quota.limit(QuotaEntity("alice"), 1_000)
    assert rate.limit == 1_000
    assert rate.record(0, 0) == 0
    quota.limit(QuotaEntity("alice"), None)
    assert not quota.is_on
    assert len(quota) == 0


def test_a_limit_that_is_no_number_is_none() -> None:
    quota = quota_of((QuotaEntity("alice"), math.nan))
    assert quota.rate_of("alice", "", 0).limit == NO_LIMIT


def test_rates_that_are_unused_for_an_hour_are_dropped() -> None:
    quota = quota_of((QuotaEntity(None, DEFAULT), 5))
    quota.rate_of("", "one", 0)
    quota.rate_of("", "two", 1)
    quota.rate_of("", "three", UNUSED_MS - 1)
    assert len(quota) == 3
    quota.rate_of("", "two", UNUSED_MS)
    quota.rate_of("", "four", UNUSED_MS)
    assert [rate.tags.client_id for rate in quota] == ["three", "two", "four"]


def test_client_ids_without_end_take_no_memory() -> None:
    quota = quota_of((QuotaEntity("alice"), 5), (QuotaEntity(None, DEFAULT), 5), rates_max=10)
    for number in range(100):
        quota.rate_of("mallory", f"client-{number}", number)
        alices = quota.rate_of("alice", "app", number)
    assert len(quota) == 10
    assert alices in list(quota), "who is served is not forgotten"


def test_mean_throttle_time() -> None:
    rate = quota_of((QuotaEntity("alice"), 100)).rate_of("alice", "", 0)
    assert rate.mean_throttle_ms(0) == 0
    rate.throttled(100, 0)
    rate.throttled(300, 10)
    assert rate.mean_throttle_ms(20) == pytest.approx(200)
    assert rate.mean_throttle_ms(1_000_000) == 0


@pytest.mark.parametrize(("limit", "largest"), [(100.0, 1000), (0.0, 0), (NO_LIMIT, NO_LIMIT)])
def test_the_largest_use_in_a_window(limit: float, largest: float) -> None:
    quota = quota_of((QuotaEntity("alice"), limit))
    assert quota.largest_in_window("alice", "", 0) == largest
