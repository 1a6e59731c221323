"""Delegation tokens in the store: nodes as Apache Kafka writes them, and the notifications of their changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.store.delegation_tokens import (
    CHANGE_EXPIRATION_MS,
    TOKEN_CHANGES,
    TokenNode,
    changed_tokens,
    ensure_token_paths,
    purge_token_changes,
    read_tokens,
    remove_token,
    write_token,
)
from metadata.store.sanitized_names import desanitized, sanitized
from tests.async_tests import played_by
from tests.doubles.clock import ManualClock
from tests.simulation.store import SimulatedEnsemble, SimulatedStore

# Read from a running Apache Kafka 3.9.1.
BY_KAFKA = (
    b'{"issueTimestamp":1795671708287,"renewers":["User%3Abob%20x"],"tokenRequester":"User%3Aadmin","tokenId":"4dLq5pNuTnu6SfLd'
    b'pJE_PQ","owner":"User%3Aali%3Dce%20%C3%BC","expiryTimestamp":1795671708292,"maxTimestamp":1795671708292,"version":3}'
)
TOKEN = TokenNode(
    "4dLq5pNuTnu6SfLdpJE_PQ",
    "User:ali=ce ü",
    "User:admin",
    ("User:bob x",),
    1795671708287,
    1795671708292,
    1795671708292,
)


def run(case: Callable[[SimulatedStore, ManualClock], Awaitable[None]]) -> None:
    async def body() -> None:
        clock = ManualClock()
        store = SimulatedEnsemble(clock).connect()
        await ensure_token_paths(store)
        await case(store, clock)

    asyncio.run(body())


def test_the_node_is_apache_kafkas_byte_for_byte() -> None:
    assert TOKEN.encode() == BY_KAFKA
    assert TokenNode.decode(BY_KAFKA) == TOKEN


def test_before_version_3_a_token_belongs_to_whoever_asked() -> None:
    value = json.loads(BY_KAFKA)
    del value["tokenRequester"]
    read = TokenNode.decode(json.dumps({**value, "version": 2}).encode())
    assert (read.owner, read.requester) == ("User:ali=ce ü", "User:ali=ce ü")


@pytest.mark.parametrize(
    "change",
    [{"version": 4}, {"version": 0}, {"owner": None}, {"renewers": 3}, {"renewers": [1]}, {"maxTimestamp": "x"}],
)
def test_nodes_that_cannot_be_read(change: dict[str, object]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - one error for every bad node
        TokenNode.decode(json.dumps({**json.loads(BY_KAFKA), **change}).encode())


@played_by(run, gives=2)
async def test_tokens_are_written_read_and_removed(store: SimulatedStore, clock: ManualClock) -> None:
    await write_token(store, TOKEN)
    await write_token(store, TOKEN)
    await store.create("/delegation_token/tokens/rubbish", b"x")
    await store.create("/delegation_token/tokens/empty", b"")
    await store.create("/delegation_token/tokens/other", BY_KAFKA)
    assert await read_tokens(store) == {TOKEN.token_id: TOKEN}
    assert await read_tokens(store, ["missing", TOKEN.token_id]) == {TOKEN.token_id: TOKEN}
    await remove_token(store, TOKEN.token_id)
    await remove_token(store, TOKEN.token_id)
    assert await read_tokens(store) == {}
    assert await changed_tokens(store, -1) == (3, [TOKEN.token_id])


@played_by(run, gives=2)
async def test_notifications_are_read_once_and_watched(store: SimulatedStore, clock: ManualClock) -> None:
    fired: list[str] = []
    assert await changed_tokens(store, -1, lambda event: fired.append(event.path)) == (-1, [])
    await write_token(store, TOKEN)
    assert fired == [TOKEN_CHANGES]
    assert await changed_tokens(store, -1) == (0, [TOKEN.token_id])
    assert await changed_tokens(store, 0) == (0, [])
    for data in (b"a/b", b"..", b"", b"\xff", b"new"):
        await store.create(f"{TOKEN_CHANGES}/token_change_", data, sequential=True)
    await store.create(f"{TOKEN_CHANGES}/other", b"other")
    assert await changed_tokens(store, 0) == (5, ["\ufffd", "new"])


@played_by(run, gives=2)
async def test_old_notifications_are_removed(store: SimulatedStore, clock: ManualClock) -> None:
    await write_token(store, TOKEN)
    clock.now_ms += 1000
    await write_token(store, TOKEN)
    await purge_token_changes(store, CHANGE_EXPIRATION_MS + 1)
    assert await store.children(TOKEN_CHANGES) == ["token_change_0000000001"]


@pytest.mark.parametrize(
    ("name", "text"), [("a*b+c d~/é", "a%2Ab%2Bc%20d%7E%2F%C3%A9"), ("A-z_0.9", "A-z_0.9"), ("", "")]
)
def test_sanitized_names(name: str, text: str) -> None:
    assert sanitized(name) == text and desanitized(text) == name


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_every_name_comes_back(name: str) -> None:
    assert desanitized(sanitized(name)) == name and "/" not in sanitized(name)
