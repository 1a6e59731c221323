from __future__ import annotations

import random

import pytest

from relay.waiting.entries import NO_ID
from relay.waiting.id_table import IdTable

FACTOR = 0x9E3779B97F4A7C15


@pytest.mark.parametrize("first_reference", [1, (1 << 32) - 5_000], ids=["four bytes", "eight bytes"])
def test_references_are_found_while_rows_come_and_go(first_reference: int) -> None:
    choice = random.Random(3)
    ids: dict[int, int] = {}
    table = IdTable(lambda references: [ids.get(each, NO_ID) for each in references], FACTOR)
    for round_number in range(60):
        start = first_reference + round_number * 1000
        added = {start + at: choice.getrandbits(64) if at % 10 else NO_ID for at in range(1000)}
        ids |= added
        table.add(added.values(), start)
        for gone in choice.sample(sorted(ids), 500):
            ids[gone] = NO_ID
    assert [table.find(id_hash) for id_hash in ids.values() if id_hash] == [
        each for each, id_hash in ids.items() if id_hash
    ]
    assert table.find(NO_ID) is None
    assert table.find(12345) is None


def test_ids_that_someone_chose_alike_are_found() -> None:
    chosen = [1 << 44 | at << 48 for at in range(20_000)]  # of one part, however often it is divided
    table = IdTable(lambda references: [chosen[each - 1] for each in references], FACTOR)
    table.add(chosen, 1)
    assert [table.find(each) for each in chosen[::100]] == list(range(1, 20_001, 100))


def test_a_reference_that_means_another_id_by_now_is_not_found_by_the_first() -> None:
    ids = [NO_ID, 5]
    table = IdTable(lambda references: [ids[each] for each in references], FACTOR)
    table.add([5], 1)
    ids[1] = 6
    table.add([6], 1)
    assert (table.find(5), table.find(6)) == (None, 1)
