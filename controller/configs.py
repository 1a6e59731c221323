"""Dynamic settings in the tree: /config/<type>/<name>, and the notifications that make brokers read them again.

Rules: the settings are written first and the notification after, so that whoever hears it finds the new values. Any
broker writes them, not only the controller. A notification says only which entity changed.
Source: Kafka AdminZkClient.changeEntityConfig, ZkNodeChangeNotificationListener.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller import znodes
from controller.store import Delete, NodeExistsError, NoNodeError, Tree, Watch

CHANGE_PREFIX = "config_change_"
CHANGE_EXPIRATION_MS = 15 * 60 * 1000  # Kafka's: a broker that sleeps longer reads everything at its new session
DEFAULT_ENTITY = "<default>"


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """`sequence` orders changes; `entity_path` is as in "topics/orders"."""

    sequence: int
    entity_path: str


async def entity_config(store: Tree, entity_type: str, name: str) -> dict[str, str]:
    """The settings of one entity ("topics", "orders"); empty when it has none."""
    try:
        data, _ = await store.get(znodes.config_path(entity_type, name))
    except NoNodeError:
        return {}
    return znodes.decode_config(data)


async def entity_configs(store: Tree, entity_type: str) -> dict[str, dict[str, str]]:
    """The settings of every entity of a type, by name: what a broker reads at its start."""
    parent = f"{znodes.CONFIG}/{entity_type}"
    try:
        names = await store.children(parent)
    except NoNodeError:
        return {}
    nodes = await store.read_many([f"{parent}/{name}" for name in names])
    return {name: znodes.decode_config(node[0]) for name, node in zip(names, nodes, strict=True) if node is not None}


async def write_entity_config(store: Tree, entity_type: str, name: str, config: Mapping[str, str]) -> None:
    """Replace an entity's settings, without telling anybody: for entities that nobody has read yet."""
    path, data = znodes.config_path(entity_type, name), znodes.encode_config(config)
    try:
        await store.set(path, data)
    except NoNodeError:
        try:
            await store.create(path, data)
        except NodeExistsError:
            await store.set(path, data)


async def alter_entity_config(store: Tree, entity_type: str, name: str, new_config: Mapping[str, str]) -> None:
    """Replace an entity's settings and notify every broker."""
    await write_entity_config(store, entity_type, name, new_config)
    await notify(store, f"{entity_type}/{name}")


async def notify(store: Tree, entity_path: str) -> None:
    await store.create(znodes.config_change_path(), znodes.encode_config_change(entity_path), sequential=True)


async def changes_after(store: Tree, sequence: int, watch: Watch | None = None) -> list[ConfigChange]:
    """The notifications behind `sequence` (-1: all), in order. `watch` is left on the list."""
    names = await store.children(znodes.CONFIG_CHANGES, watch)
    numbered = sorted(
        (int(name.removeprefix(CHANGE_PREFIX)), name)
        for name in names
        if name.startswith(CHANGE_PREFIX) and name.removeprefix(CHANGE_PREFIX).isdigit()
    )
    newer = [(number, name) for number, name in numbered if number > sequence]
    nodes = await store.read_many([f"{znodes.CONFIG_CHANGES}/{name}" for _, name in newer])
    return [
        ConfigChange(number, znodes.decode_config_change(node[0]))
        for (number, _), node in zip(newer, nodes, strict=True)
        if node is not None
    ]


async def purge_changes(store: Tree, now_ms: int) -> int:
    """Remove notifications older than CHANGE_EXPIRATION_MS; returns how many."""
    names = await store.children(znodes.CONFIG_CHANGES)
    paths = [f"{znodes.CONFIG_CHANGES}/{name}" for name in names]
    nodes = await store.read_many(paths)
    old = [
        path
        for path, node in zip(paths, nodes, strict=True)
        if node is not None and node[1].ctime_ms + CHANGE_EXPIRATION_MS < now_ms
    ]
    await store.write_many([[Delete(path)] for path in old])
    return len(old)
