"""How fast something goes, measured as a quota needs it: rates over a sliding window, and token buckets. Pure.

A `WindowedRate` keeps sums in samples of `window_ms`, of which the last `samples_max` count. The time that is counted is never
less than all samples but the present one, so that a client that begins is not throttled for its first request. A `TokenBucket`
fills by the quota's rate up to what all samples would allow; a burst empties it, and what is above zero may be used at once.

Rules: no IO; the caller passes the time, in milliseconds, which does not go back. Above a quota of zero
or less, the throttle time is the whole window: Kafka's formula divides by it.
Invariant: memory is bounded by the number of samples.
Source: KIP-599; Kafka Rate, SampledStat, TokenBucket, QuotaUtils.throttleTime; tested for equality with these classes.
"""

from __future__ import annotations

import math

LONGEST_THROTTLE_MS = 2**31 - 1
"""What a response can carry."""


class _Sample:
    __slots__ = ("last_ms", "start_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.restart(now_ms)

    def restart(self, now_ms: int) -> None:
        self.total = 0.0
        self.start_ms = self.last_ms = now_ms


class WindowedRate:
    """The rate of what is recorded, a second."""

    __slots__ = ("_current", "_samples", "_samples_max", "_window_ms")

    def __init__(self, window_ms: int, samples_max: int) -> None:
        assert window_ms > 0 < samples_max
        self._window_ms = window_ms
        self._samples_max = samples_max
        self._samples: list[_Sample] = []
        self._current = 0  # the index of the present sample

    def record(self, value: float, now_ms: int) -> None:
        """Count `value`; one below zero takes back what was counted."""
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
        sample = samples[self._current]
        if now_ms - sample.start_ms >= self._window_ms:
            sample = self._next(now_ms)
        sample.total += value
        sample.last_ms = now_ms

    def _next(self, now_ms: int) -> _Sample:
        """Begin the next sample. One more than counts is kept: the oldest counts as long as a part of it is in the window."""
        self._current = (self._current + 1) % (self._samples_max + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].restart(now_ms)
        return self._samples[self._current]

    def per_second(self, now_ms: int) -> float:
        window_ms = self.window_ms(now_ms)
        return sum(sample.total for sample in self._samples) / (window_ms / 1000)

    def window_ms(self, now_ms: int) -> int:
        """Return the time over which the rate is measured, at least one millisecond."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        expired_ms = self._samples_max * self._window_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= expired_ms:
                sample.restart(now_ms)
        elapsed_ms = now_ms - min(sample.start_ms for sample in self._samples)
        missing = self._samples_max - 1 - elapsed_ms // self._window_ms
        return max(elapsed_ms + max(missing, 0) * self._window_ms, 1)

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return for how long nothing may be recorded until the rate is down to `limit`; 0 if it is not above it."""
        rate = self.per_second(now_ms)
        if not rate > limit:
            return 0
        if limit <= 0:
            return self._samples_max * self._window_ms
        return _rounded((rate - limit) / limit * self.window_ms(now_ms))


class TokenBucket:
    """What may still be used. `burst_s` is how many seconds of the quota the full bucket holds."""

    __slots__ = ("_burst_s", "_filled_ms", "_tokens")

    def __init__(self, burst_s: float) -> None:
        self._burst_s = burst_s
        self._tokens = math.inf  # as full as the quota allows
        self._filled_ms = 0

    def tokens(self, limit: float, now_ms: int) -> float:
        """Return the tokens that are left; below zero when more was used than there was."""
        filled = limit * ((now_ms - self._filled_ms) / 1000)
        self._tokens = min(self._burst_s * limit, self._tokens + filled)
        self._filled_ms = now_ms
        return self._tokens

    def take(self, count: float, limit: float, now_ms: int) -> None:
        self._tokens = min(self._burst_s * limit, self.tokens(limit, now_ms) - count)

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return how long the bucket takes to be filled up to zero."""
        tokens = self.tokens(limit, now_ms)
        if tokens >= 0:
            return 0
        return _rounded(self._burst_s * 1000 if limit <= 0 else -tokens / limit * 1000)


def _rounded(duration_ms: float) -> int:
    """Round as Kafka does: a half goes up."""
    return LONGEST_THROTTLE_MS if duration_ms >= LONGEST_THROTTLE_MS else math.floor(duration_ms + 0.5)
