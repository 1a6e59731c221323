from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from relay.waiting.entries import TIERS, id_hash, offset_of, place_of, tier_of


@given(st.sampled_from(TIERS), st.integers(0, (1 << 56) - 1))
def test_a_place_has_its_tier_and_offset(tier: int, offset: int) -> None:
    place = place_of(tier, offset)
    assert (tier_of(place), offset_of(place)) == (tier, offset)


def test_the_hash_of_an_id_is_the_same_everywhere() -> None:
    assert [id_hash(message_id) for message_id in (b"", b"order-17")] == [0xB4B2797457A0A6E4, 0xB05B448E0CAEE978]
