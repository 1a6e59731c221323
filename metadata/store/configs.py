"""Dynamic settings in the store: /config/<type>/<name>, and the notifications of their changes.

Rules: the settings are written before the notification, so that brokers read the new values. Any broker writes them, not only
the controller. A notification has only the entity that changed.
Source: Kafka AdminZkClient.changeEntityConfig, ZkNodeChangeNotificationListener.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from metadata.store import change_nodes, znodes
from metadata.store.port import (
    ANY_VERSION,
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Tree,
    Watch,
    ensure_path,
    parent_of,
)

CHANGE_PREFIX = "config_change_"
DEFAULT_ENTITY = "<default>"
QUOTA_TYPES = ("users", "clients", "ips")
# How often a change of an entity is tried while others change it, too.
EDIT_ATTEMPTS = 10
# Returns the changed settings, from the stored ones.
Edit = Callable[[Mapping[str, str]], Mapping[str, str]]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """`sequence` orders changes; `entity_path` is as in "topics/orders"."""

    sequence: int
    entity_path: str


async def entity_config(store: Tree, entity_type: str, name: str) -> dict[str, str]:
    """Return the settings of one entity ("topics", "orders"); empty when it has none."""
    try:
        data, _ = await store.get(znodes.config_path(entity_type, name))
    except NoNodeError:
        return {}
    return _decoded(znodes.config_path(entity_type, name), data)


async def entity_configs(store: Tree, entity_type: str) -> dict[str, dict[str, str]]:
    """Return the settings of every entity of a type, by name."""
    return await named_configs(store, entity_type, await _names(store, f"{znodes.CONFIG}/{entity_type}"))


async def named_configs(store: Tree, entity_type: str, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the settings of the named entities of a type, without those that have none."""
    paths = [znodes.config_path(entity_type, name) for name in names]
    nodes = await store.read_many(paths)
    return {
        name: _decoded(path, node[0]) for name, path, node in zip(names, paths, nodes, strict=True) if node is not None
    }


async def quota_entities(store: Tree) -> dict[str, Mapping[str, str]]:
    """Return the settings of users, clients and addresses, and of clients of one user, by path ("users/alice/clients/app")."""
    found: dict[str, Mapping[str, str]] = {}
    for entity_type in QUOTA_TYPES:
        entities = await entity_configs(store, entity_type)
        found |= {f"{entity_type}/{name}": config for name, config in entities.items()}
        if entity_type == "users":
            for user in entities:
                inner = f"users/{user}/clients"
                clients = await named_configs(store, inner, await _names(store, f"{znodes.CONFIG}/{inner}"))
                found |= {f"{inner}/{name}": config for name, config in clients.items()}
    return found


async def _names(store: Tree, parent: str) -> list[str]:
    try:
        return await store.children(parent)
    except NoNodeError:
        return []


def _decoded(path: str, data: bytes) -> dict[str, str]:
    """Decode a node; an invalid one has no settings: it must not stop a broker."""
    try:
        return znodes.decode_config(data)
    except ValueError as error:
        logger.warning("settings node ignored: path=%s error=%s", path, str(error))
        return {}


async def edit_entity_config(store: Tree, entity_path: str, edit: Edit) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Replace the settings of a user, client or address by the result of `edit`, whose errors it raises, and notify every
    broker; returns the settings before and after. `edit` is called again when another client has changed them meanwhile.
    Raises StoreError."""
    for _ in range(EDIT_ATTEMPTS):
        path, version = f"{znodes.CONFIG}/{entity_path}", None
        stored: Mapping[str, str] = {}
        try:
            data, stat = await store.get(path)
        except NoNodeError:
            pass
        else:
            stored, version = _decoded(path, data), stat.version
        given = edit(stored)
        try:
            if not given:
                await remove_entity_config(store, entity_path, ANY_VERSION if version is None else version)
                return stored, given
            if version is None:
                await ensure_path(store, parent_of(path))
                await store.create(path, znodes.encode_config(given))
            else:
                await store.set(path, znodes.encode_config(given), version)
        except (BadVersionError, NodeExistsError, NoNodeError):
            continue
        await notify(store, entity_path)
        return stored, given
    raise BadVersionError(f"{znodes.CONFIG}/{entity_path}")


async def remove_entity_config(store: Tree, entity_path: str, version: int = ANY_VERSION) -> None:
    """Remove the node of an entity that has no settings any more, with those above it that hold nothing else, and notify every
    broker. A node that has others below it stays, without settings."""
    path = f"{znodes.CONFIG}/{entity_path}"
    try:
        await store.delete(path, version)
    except NotEmptyError:
        await store.set(path, znodes.encode_config({}), version)
    except NoNodeError:
        pass
    else:
        if entity_path.startswith("users/") and entity_path.count("/") > 1:
            await _remove_if_empty(store, parent_of(parent_of(path)))
    await notify(store, entity_path)


async def _remove_if_empty(store: Tree, user_path: str) -> None:
    """Remove the node of a user without settings, if no client of the user has a node."""
    try:
        await store.delete(f"{user_path}/clients")
        data, stat = await store.get(user_path)
        if not _decoded(user_path, data):
            await store.delete(user_path, stat.version)
    except (NotEmptyError, NoNodeError, BadVersionError):
        return  # another setting needs it, or another client has removed it


async def write_entity_config(store: Tree, entity_type: str, name: str, config: Mapping[str, str]) -> None:
    """Replace an entity's settings without a notification: for entities that no broker has read yet."""
    path, data = znodes.config_path(entity_type, name), znodes.encode_config(config)
    try:
        await store.set(path, data)
    except NoNodeError:
        try:
            await store.create(path, data)
        except NodeExistsError:
            await store.set(path, data)
        except NoNodeError:  # the first client of a user
            await ensure_path(store, path)
            await store.set(path, data)


async def alter_entity_config(store: Tree, entity_type: str, name: str, new_config: Mapping[str, str]) -> None:
    """Replace an entity's settings and notify every broker."""
    await write_entity_config(store, entity_type, name, new_config)
    await notify(store, f"{entity_type}/{name}")


async def notify(store: Tree, entity_path: str) -> None:
    await store.create(znodes.config_change_path(), znodes.encode_config_change(entity_path), sequential=True)


async def changes_after(store: Tree, sequence: int, watch: Watch | None = None) -> list[ConfigChange]:
    """Return the notifications after `sequence` (-1: all), in order. `watch` is set on the list."""
    changes = []
    for node in await change_nodes.nodes_after(store, znodes.CONFIG_CHANGES, CHANGE_PREFIX, sequence, watch):
        try:
            changes.append(ConfigChange(node.sequence, znodes.decode_config_change(node.data)))
        except ValueError as error:
            logger.warning("change of settings ignored: path=%s error=%s", node.name, str(error))
    return changes


async def purge_changes(store: Tree, now_ms: int) -> int:
    """Remove old notifications; returns how many."""
    return await change_nodes.purge(store, znodes.CONFIG_CHANGES, now_ms)
