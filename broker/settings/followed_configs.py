"""Settings of entities of one kind, such as groups: read from `/config/<kind>`, written there, and followed by watches.

Each entity with settings of its own has a node, called by its name in percent escapes. These nodes are watched themselves: a
notification under `/config/changes` would be an error in the log of each broker of Apache Kafka 3.9, which knows no such kind.

Rules: everything is read at the start and with each new session, then what a watch says has changed. A node that is not valid
is logged and ignored. `/config/<kind>` is made by the first setting: a cluster without any has the nodes of 3.9.
Invariant: a write of this broker can be read here when it returns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from metadata.store import configs, znodes
from metadata.store.any_session import in_any_session
from metadata.store.port import NoNodeError, SessionEvent, StoreError, WatchEvent
from metadata.store.sanitized_names import desanitized, sanitized

if TYPE_CHECKING:
    from metadata.store.port import Store
    from runtime.tasks import TaskScope

logger = logging.getLogger(__name__)

_NO_SESSION = 0
Valid = Callable[[str, Mapping[str, str]], Mapping[str, str]]
"""Returns of the stored settings of an entity, which has this name, those that are valid, and logs the others."""
Check = Callable[[Mapping[str, str]], None]
"""Raises for settings that an entity may not be given."""


class FollowedConfigs:
    """`start` before `stored` is read."""

    def __init__(self, store: Store, tasks: TaskScope, kind: str, valid: Valid, on_changed: Callable[[], None]) -> None:
        """`kind` is the name of the node, such as "groups"; `on_changed` is called when `stored` may have changed."""
        self.stored: dict[str, Mapping[str, str]] = {}
        """The valid settings of each entity that has some of its own, by name."""
        self._store = store
        self._tasks = tasks
        self._kind = kind
        self._root = f"{znodes.CONFIG}/{kind}"
        self._valid = valid
        self._on_changed = on_changed
        self._watched: set[str] = set()  # names of nodes
        self._session_id = _NO_SESSION
        self._one_at_a_time = asyncio.Lock()
        self._writing = asyncio.Lock()

    async def start(self) -> None:
        self._store.subscribe(self._on_session)
        await in_any_session(self._read_all)

    async def alter(self, name: str, edit: configs.Edit, check: Check, *, validate_only: bool) -> Mapping[str, str]:
        """Replace the settings of an entity by the result of `edit`, and return them. Raises what `edit` and `check` raise,
        StoreError."""
        node = _node_name(name)
        async with self._writing:
            given = edit(await configs.entity_config(self._store, self._kind, node))
            check(given)
            if validate_only:
                return given
            if given:
                await configs.write_entity_config(self._store, self._kind, node, given)
            else:
                await self._remove(node)
        async with self._one_at_a_time:
            await self._read([node])
        return given

    async def _remove(self, node: str) -> None:
        try:
            await self._store.delete(znodes.config_path(self._kind, node))
        except NoNodeError:
            return  # it had none

    # --- reading ---

    async def _read_all(self) -> None:
        async with self._one_at_a_time:
            session_id = self._store.session().session_id
            if session_id == self._session_id:
                return  # it was only disconnected: its watches remain
            self._watched.clear()
            await self._read_names(everything=True)
            self._session_id = session_id

    async def _read_names(self, *, everything: bool = False) -> None:
        """Read which entities have settings, and those of the entities that are new."""
        nodes = await self._nodes()
        for gone in {_node_name(name) for name in self.stored} - nodes:
            self._set(gone, None)
        new = nodes if everything else nodes - self._watched
        await self._read(sorted(new))

    async def _nodes(self) -> set[str]:
        while True:
            try:
                return set(await self._store.children(self._root, self._on_list))
            except NoNodeError:
                if await self._store.exists(self._root, self._on_list) is None:
                    return set()

    async def _read(self, nodes: Iterable[str]) -> None:
        nodes = list(nodes)
        found = await self._store.read_many([znodes.config_path(self._kind, node) for node in nodes], self._on_node)
        for node, content in zip(nodes, found, strict=True):
            if content is not None:
                self._watched.add(node)
            self._set(node, None if content is None else content[0])
        self._on_changed()

    def _set(self, node: str, data: bytes | None) -> None:
        name = desanitized(node)
        if data is None:
            self._watched.discard(node)
            self.stored.pop(name, None)
            return
        try:
            given = znodes.decode_config(data)
        except ValueError as error:
            logger.warning("settings node ignored: path=%s error=%s", znodes.config_path(self._kind, node), str(error))
            given = {}
        valid = self._valid(name, given)
        if valid:
            self.stored[name] = valid
        else:
            self.stored.pop(name, None)

    # --- changes ---

    def _on_list(self, _event: WatchEvent) -> None:
        self._spawn(self._read_names)

    def _on_node(self, event: WatchEvent) -> None:
        node = event.path.removeprefix(f"{self._root}/")
        self._watched.discard(node)
        self._spawn(lambda: self._read([node]))

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.CONNECTED and not self._tasks.is_closed:
            self._tasks.spawn(self._on_new_session(), name=f"read settings of {self._kind}")

    async def _on_new_session(self) -> None:
        try:
            await self._read_all()
        except StoreError as error:
            logger.warning("settings not read: path=%s error=%s", self._root, type(error).__name__)

    def _spawn(self, read: Callable[[], Awaitable[None]]) -> None:
        if not self._tasks.is_closed:
            self._tasks.spawn(self._follow(read), name=f"read changed settings of {self._kind}")

    async def _follow(self, read: Callable[[], Awaitable[None]]) -> None:
        try:
            async with self._one_at_a_time:
                await read()
        except StoreError as error:
            self._session_id = _NO_SESSION  # the watch may be lost: everything is read with the next session
            logger.warning("changes of settings not watched: path=%s error=%s", self._root, type(error).__name__)


def _node_name(name: str) -> str:
    """Return the name in percent escapes; no node may be called `.` or `..`."""
    return sanitized(name) if name.strip(".") else name.replace(".", "%2E")
