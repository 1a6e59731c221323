"""The last two goals: bytes on each broker, and records a second written to the leaders of each broker. Pure.

Rules: replicas change places, so that their numbers stay; a single one moves only where the numbers stay as even as they are.
What is moved has to pay: an exchange evens out a tenth at least of what it copies. Leaders change places first, since that
copies nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from tools.balance.goals import Band, bytes_band, rate_band
from tools.balance.layout import Key, Layout

PAYS_FROM = 10
"""So many times what is evened out may be copied."""
_FIRST_CHOICES, _SECOND_CHOICES = 64, 8


@dataclass(frozen=True, slots=True)
class _Exchange:
    """`given` goes from source to target, and `taken` the other way, if there is one. `gain` is what lies outside the band no
    more."""

    gain: int
    copied_bytes: int
    given: Key
    taken: Key | None

    @property
    def rank(self) -> tuple[int, int, Key, Key]:
        return -self.gain, self.copied_bytes, self.given, self.taken or ("", -1)


def even_out_bytes(layout: Layout, percent: int) -> None:
    band = bytes_band(layout, percent)
    while (found := _best_exchange_of_bytes(layout, band)) is not None:
        _carry_out(layout, *found)


def even_out_rate(layout: Layout, percent: int) -> None:
    band, of_bytes = rate_band(layout, percent), bytes_band(layout, percent)
    while True:
        found = _best_exchange_of_leaders(layout, band)
        if found is not None:
            source, target, exchange = found
            layout.lead(exchange.given, target)
            if exchange.taken is not None:
                layout.lead(exchange.taken, source)
            continue
        found = _best_exchange_of_rate(layout, band, of_bytes)
        if found is None:
            return
        _carry_out(layout, *found)


def _carry_out(layout: Layout, source: int, target: int, exchange: _Exchange) -> None:
    layout.replace(exchange.given, source, target)
    if exchange.taken is not None:
        layout.replace(exchange.taken, target, source)


def _pairs(layout: Layout, sums: dict[int, int], band: Band) -> Iterator[tuple[int, int]]:
    """Return pairs of brokers one of which is outside the band, those first that are farthest apart."""
    ordered = sorted(layout.takers, key=lambda broker: (sums[broker], broker))
    for source in reversed(ordered):
        for target in ordered:
            if sums[source] <= sums[target]:
                break
            if sums[source] > band.high or sums[target] < band.low:
                yield source, target


def _gain(band: Band, from_sum: int, to_sum: int, difference: int) -> int:
    """Return how much less is outside the band when `difference` goes from one broker to the other."""
    before = band.excess(from_sum) + band.excess(to_sum)
    return before - band.excess(from_sum - difference) - band.excess(to_sum + difference)


def _best_exchange_of_bytes(layout: Layout, band: Band) -> tuple[int, int, _Exchange] | None:
    for source, target in _pairs(layout, layout.bytes, band):
        wanted = (layout.bytes[source] - layout.bytes[target]) // 2
        best: _Exchange | None = None
        for given in islice(layout.gives(source, target, wanted), _FIRST_CHOICES):
            size = layout.loads[given].bytes
            for taken in _counterparts(layout, source, target, given, size - wanted):
                other = 0 if taken is None else layout.loads[taken].bytes
                gain = _gain(band, layout.bytes[source], layout.bytes[target], size - other)
                found = _Exchange(gain, size + other, given, taken)
                if gain * PAYS_FROM >= found.copied_bytes and gain > 0 and (best is None or found.rank < best.rank):
                    best = found
        if best is not None:
            return source, target, best
    return None


def _counterparts(layout: Layout, source: int, target: int, given: Key, wanted_bytes: int) -> Iterator[Key | None]:
    """Return what may come back for `given`, so that numbers of replicas and leaders stay as even; None for nothing."""
    leads = int(layout.leader(given) == source)
    difference = layout.leaders[source] - layout.leaders[target]
    if layout.count[source] > layout.count[target] and (not leads or difference > 0):
        yield None
    allowed = (
        key
        for key in layout.gives(target, source, max(wanted_bytes, 0))
        if (moved := leads - int(layout.leader(key) == target)) == 0 or difference * moved > 0
    )
    yield from islice(allowed, _SECOND_CHOICES)


def _best_exchange_of_leaders(layout: Layout, band: Band) -> tuple[int, int, _Exchange] | None:
    for source, target in _pairs(layout, layout.rate, band):
        given = [key for key in layout.led_by(source) if target in layout.replicas[key]]
        taken: list[Key | None] = [key for key in layout.led_by(target) if source in layout.replicas[key]]
        if layout.leaders[source] > layout.leaders[target]:
            taken.append(None)
        best = _best_by_rate(layout, band, (source, target), given, taken, copies=False)
        if best is not None:
            return source, target, best
    return None


def _best_exchange_of_rate(layout: Layout, band: Band, of_bytes: Band) -> tuple[int, int, _Exchange] | None:
    """Return two partitions that change their leading replicas with each other, which leaves bytes as even as they are."""
    for source, target in _pairs(layout, layout.rate, band):
        given = [key for key in layout.led_by(source) if layout.can_give(key, source, target)]
        taken: list[Key | None] = [key for key in layout.led_by(target) if layout.can_give(key, target, source)]
        best = _best_by_rate(layout, band, (source, target), given, taken, copies=True, of_bytes=of_bytes)
        if best is not None:
            return source, target, best
    return None


def _best_by_rate(
    layout: Layout,
    band: Band,
    brokers: tuple[int, int],
    given: list[Key],
    taken: list[Key | None],
    *,
    copies: bool,
    of_bytes: Band | None = None,
) -> _Exchange | None:
    source, target = brokers
    wanted = (layout.rate[source] - layout.rate[target]) // 2
    best: _Exchange | None = None
    returned = {key: 0 if key is None else layout.loads[key].rate for key in taken}
    for key in sorted(given, key=lambda each: (abs(layout.loads[each].rate - wanted), each))[:_FIRST_CHOICES]:
        load = layout.loads[key]
        nearest = sorted(taken, key=lambda each: (abs(load.rate - returned[each] - wanted), each or ("", -1)))
        for other in nearest[:_SECOND_CHOICES]:
            gain = _gain(band, layout.rate[source], layout.rate[target], load.rate - returned[other])
            size = 0 if other is None else layout.loads[other].bytes
            copied = load.bytes + size if copies else 0
            if gain <= 0 or gain * PAYS_FROM * max(layout.bytes.total(), 1) < copied * band.total:
                continue
            if (
                of_bytes is not None
                and _gain(of_bytes, layout.bytes[source], layout.bytes[target], load.bytes - size) < 0
            ):
                continue
            found = _Exchange(gain, copied, key, other)
            best = found if best is None or found.rank < best.rank else best
    return best
