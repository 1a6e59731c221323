"""Settings of users, clients and addresses: written to their nodes, followed by every broker, and removed with their nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from broker.settings.dynamic_settings import Edit
from metadata.store import configs
from metadata.store.port import Store
from tests.broker.settings_world import SettingsWorld

PATIENCE_S = 60
BOTH = "users/alice/clients/app"


def _setting(**given: str | None) -> Edit:
    def edit(stored: Mapping[str, str]) -> Mapping[str, str]:
        changed = {**stored, **given}
        return {name: text for name, text in changed.items() if text is not None}

    return edit


async def _nodes(store: Store, path: str = "/config/users") -> list[str]:
    found = []
    for name in await store.children(path):
        below = f"{path}/{name}"
        found += [below, *await _nodes(store, below)]
    return found


async def test_every_broker_hears_of_it() -> None:
    async with SettingsWorld() as world:
        other = await world.broker(1)
        heard: asyncio.Queue[tuple[str, Mapping[str, str]]] = asyncio.Queue()
        other.on_entity_changed(lambda path, settings: heard.put_nowait((path, settings)))
        for path in (BOTH, "clients/<default>", "ips/10.0.0.1"):
            await world.settings.alter_entity(path, _setting(a="1"), validate_only=False)
            assert world.settings.entities[path] == {"a": "1"}
            assert await asyncio.wait_for(heard.get(), PATIENCE_S) == (path, {"a": "1"})
            await world.settings.alter_entity(path, _setting(a=None), validate_only=False)
            assert await asyncio.wait_for(heard.get(), PATIENCE_S) == (path, {})
            assert path not in world.settings.entities


async def test_other_settings_of_the_node_stay() -> None:
    async with SettingsWorld() as world:
        await configs.alter_entity_config(world.store, "users", "alice", {"SCRAM-SHA-256": "salt=x"})
        await world.settings.alter_entity("users/alice", _setting(a="1"), validate_only=False)
        assert world.settings.entities["users/alice"] == {"SCRAM-SHA-256": "salt=x", "a": "1"}
        await world.settings.alter_entity("users/alice", _setting(a=None), validate_only=False)
        assert world.settings.entities["users/alice"] == {"SCRAM-SHA-256": "salt=x"}


async def test_only_validated() -> None:
    async with SettingsWorld() as world:
        await world.settings.alter_entity(BOTH, _setting(a="1"), validate_only=True)
        assert world.settings.entities == {}
        assert await _nodes(world.store) == []


async def test_nodes_without_settings_are_removed() -> None:
    async with SettingsWorld() as world:
        alter = world.settings.alter_entity
        await alter("users/bob", _setting(a="1"), validate_only=False)
        for path in (BOTH, "users/alice/clients/<default>", "users/bob/clients/app"):
            await alter(path, _setting(a="1"), validate_only=False)
        await alter("users/bob/clients/app", _setting(a=None), validate_only=False)
        await alter(BOTH, _setting(a=None), validate_only=False)
        clients = "/config/users/alice/clients"
        assert await _nodes(world.store) == [
            "/config/users/alice",
            clients,
            f"{clients}/<default>",
            "/config/users/bob",
        ]
        await alter("users/alice/clients/<default>", _setting(a=None), validate_only=False)
        await alter("users/bob", _setting(a=None), validate_only=False)
        await alter("users/carol", _setting(a=None), validate_only=False)
        assert await _nodes(world.store) == []


async def test_the_node_of_a_user_stays_with_those_of_its_clients() -> None:
    async with SettingsWorld() as world:
        alter = world.settings.alter_entity
        await alter("users/alice", _setting(a="1"), validate_only=False)
        await alter(BOTH, _setting(a="1"), validate_only=False)
        await alter("users/alice", _setting(a=None), validate_only=False)
        assert dict(world.settings.entities) == {BOTH: {"a": "1"}}
        fresh = await world.broker(7)
        assert fresh.entities == {BOTH: {"a": "1"}}


async def test_a_change_of_another_broker_in_between_is_kept() -> None:
    """Quotas and SCRAM credentials of a user are in one node: who changes one of them loses nothing of the other."""
    async with SettingsWorld() as world:
        edits: list[Mapping[str, str]] = []

        def edit(stored: Mapping[str, str]) -> Mapping[str, str]:
            edits.append(stored)
            return {**stored, "a": "1"}

        other = world.ensemble.connect()
        await configs.edit_entity_config(other, "users/alice", _setting(b="0"))
        world.ensemble.latency_s = lambda: 0.001
        first, second = await asyncio.gather(
            configs.edit_entity_config(world.store, "users/alice", edit),
            configs.edit_entity_config(other, "users/alice", _setting(b="2")),
        )
        assert await configs.entity_config(world.store, "users", "alice") == {"a": "1", "b": "2"}
        assert len(edits) == 2 or first[1] == {"a": "1", "b": "0"}
        assert second[1]["b"] == "2"
