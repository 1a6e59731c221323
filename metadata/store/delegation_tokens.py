"""Delegation tokens in the store: /delegation_token/tokens/<id>, and the notifications of their changes.

Rules: any broker writes them, first the token, then the notification, which has the token's id. The HMAC is not stored: each
broker computes it from the id and the cluster's secret. Principals are texts ("User:alice") here. A node that cannot be decoded
is treated as missing.
Source: Kafka DelegationTokenManagerZk, ZkData (DelegationTokenInfoZNode), ZkNodeChangeNotificationListener; KIP-48, KIP-373.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from metadata.store.node_reading import decoded
from metadata.store.port import Delete, NodeExistsError, NoNodeError, Tree, Watch, ensure_path
from metadata.store.sanitized_names import desanitized, sanitized
from metadata.store.znode_json import decode_json, encode_json, one_error, require, text

DELEGATION_TOKEN: Final = "/delegation_token"  # noqa: S105 - a path
TOKENS: Final = f"{DELEGATION_TOKEN}/tokens"
TOKEN_CHANGES: Final = f"{DELEGATION_TOKEN}/token_changes"
CHANGE_PREFIX: Final = "token_change_"
# Kafka's: a broker that is suspended longer reads everything with its new session.
CHANGE_EXPIRATION_MS: Final = 15 * 60 * 1000

TOKEN_VERSION: Final = 3
FIRST_VERSION_WITH_REQUESTER: Final = 3


@dataclass(frozen=True, slots=True)
class TokenNode:
    """/delegation_token/tokens/ID. Principals are as in "User:alice"."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int

    def encode(self) -> bytes:
        return encode_json(
            {
                "issueTimestamp": self.issued_ms,
                "renewers": [sanitized(renewer) for renewer in self.renewers],
                "tokenRequester": sanitized(self.requester),
                "tokenId": self.token_id,
                "owner": sanitized(self.owner),
                "expiryTimestamp": self.expires_ms,
                "maxTimestamp": self.max_ms,
                "version": TOKEN_VERSION,
            }
        )

    @classmethod
    @one_error
    def decode(cls, data: bytes) -> TokenNode:
        """Decode a node. Before version 3 a token belongs to its requester."""
        value = decode_json(data, TOKENS)
        version = int(require(value, "version", TOKENS))
        if not 1 <= version <= TOKEN_VERSION:
            raise ValueError(f"{TOKENS}: version {version} is unknown")
        owner = desanitized(text(require(value, "owner", TOKENS)))
        has_requester = version >= FIRST_VERSION_WITH_REQUESTER
        return cls(
            token_id=text(require(value, "tokenId", TOKENS)),
            owner=owner,
            requester=desanitized(text(require(value, "tokenRequester", TOKENS))) if has_requester else owner,
            renewers=tuple(desanitized(text(renewer)) for renewer in require(value, "renewers", TOKENS)),
            issued_ms=int(require(value, "issueTimestamp", TOKENS)),
            max_ms=int(require(value, "maxTimestamp", TOKENS)),
            expires_ms=int(require(value, "expiryTimestamp", TOKENS)),
        )


def token_path(token_id: str) -> str:
    return f"{TOKENS}/{token_id}"


async def ensure_token_paths(store: Tree) -> None:
    """Create the parents of the nodes."""
    await ensure_path(store, TOKENS)
    await ensure_path(store, TOKEN_CHANGES)


async def read_tokens(store: Tree, token_ids: Sequence[str] | None = None) -> dict[str, TokenNode]:
    """Return the named tokens, or all, by id, without those that do not exist."""
    ids = await store.children(TOKENS) if token_ids is None else token_ids
    nodes = await store.read_many([token_path(each) for each in ids])
    found = {}
    for token_id, node in zip(ids, nodes, strict=True):
        if node is not None and node[0]:
            read = decoded(token_path(token_id), partial(TokenNode.decode, node[0]))
            if read is not None and read.token_id == token_id:
                found[token_id] = read
    return found


async def write_token(store: Tree, token: TokenNode) -> None:
    """Create or replace a token, and notify every broker."""
    path, data = token_path(token.token_id), token.encode()
    try:
        await store.set(path, data)
    except NoNodeError:
        try:
            await store.create(path, data)
        except NodeExistsError:
            await store.set(path, data)
    await _notify(store, token.token_id)


async def remove_token(store: Tree, token_id: str) -> None:
    """Remove a token, and notify every broker."""
    with suppress(NoNodeError):  # another broker has removed it
        await store.delete(token_path(token_id))
    await _notify(store, token_id)


async def _notify(store: Tree, token_id: str) -> None:
    await store.create(f"{TOKEN_CHANGES}/{CHANGE_PREFIX}", token_id.encode(), sequential=True)


async def changed_tokens(store: Tree, sequence: int, watch: Watch | None = None) -> tuple[int, list[str]]:
    """Return the number of the last notification after `sequence` (-1: before all), and the ids of the tokens that those
    after `sequence` name. `watch` is set on the list."""
    numbered = sorted(
        (int(number), name)
        for name in await store.children(TOKEN_CHANGES, watch)
        if (number := name.removeprefix(CHANGE_PREFIX)) != name and number.isascii() and number.isdigit()
    )
    newer = [name for number, name in numbered if number > sequence]
    nodes = await store.read_many([f"{TOKEN_CHANGES}/{name}" for name in newer])
    ids = (node[0].decode(errors="replace") for node in nodes if node is not None)
    return max(sequence, numbered[-1][0] if numbered else -1), [each for each in dict.fromkeys(ids) if _is_name(each)]


def _is_name(token_id: str) -> bool:
    """Return whether it can be the name of a node."""
    return bool(token_id) and "/" not in token_id and token_id not in (".", "..") and token_id.isprintable()


async def purge_token_changes(store: Tree, now_ms: int) -> None:
    """Remove notifications that every broker has seen."""
    paths = [f"{TOKEN_CHANGES}/{name}" for name in await store.children(TOKEN_CHANGES)]
    nodes = await store.read_many(paths)
    old = [
        path
        for path, node in zip(paths, nodes, strict=True)
        if node is not None and node[1].ctime_ms + CHANGE_EXPIRATION_MS < now_ms
    ]
    await store.write_many([[Delete(path)] for path in old])
