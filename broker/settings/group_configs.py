"""Settings of single groups: read from `/config/groups`, written there, and given to the coordinator of groups.

Each group with settings of its own has a node, called by its id in percent escapes. These nodes are watched themselves: a
notification under `/config/changes` would be an error in the log of each broker of Apache Kafka 3.9, which knows no groups.

Rules: everything is read at the start and with each new session, then what a watch says has changed. A stored setting that
is not valid is logged and ignored. `/config/groups` is made by the first setting: a cluster without any has the nodes of 3.9.
Invariants: a write of this broker can be read here when it returns; the broker's own settings of groups are the current ones.
Source: Kafka 4.3 GroupConfigManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from config.errors import ConfigError
from config.group import OwnGroupSettings, check_group_settings
from coordinator.group.consumer.settings import GroupConfigs, GroupOverrides
from metadata.store import configs, znodes
from metadata.store.any_session import in_any_session
from metadata.store.port import NoNodeError, SessionEvent, StoreError, WatchEvent
from metadata.store.sanitized_names import desanitized, sanitized

if TYPE_CHECKING:
    from broker.settings.dynamic_settings import DynamicSettings
    from config.broker import BrokerSettings
    from coordinator.group.consumer.settings import ConsumerSettings
    from metadata.store.port import Store
    from runtime.tasks import TaskScope

logger = logging.getLogger(__name__)

GROUPS = "groups"
_ROOT = f"{znodes.CONFIG}/{GROUPS}"
_NO_SESSION = 0


class StoredGroupConfigs:
    """`start` before a group is loaded. `current` is what the coordinator reads."""

    def __init__(
        self,
        store: Store,
        dynamic: DynamicSettings,
        tasks: TaskScope,
        consumer_settings: Callable[[BrokerSettings], ConsumerSettings],
    ) -> None:
        """`consumer_settings` returns the broker's own settings of consumer groups; it raises ConfigError."""
        self._store = store
        self._dynamic = dynamic
        self._tasks = tasks
        self._stored: dict[str, Mapping[str, str]] = {}
        self._watched: set[str] = set()  # names of nodes
        self._session_id = _NO_SESSION
        self._one_at_a_time = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._consumer_settings = consumer_settings
        self.current = GroupConfigs(consumer_settings(dynamic.settings))

    @property
    def stored(self) -> Mapping[str, Mapping[str, str]]:
        """The settings of each group that has some of its own, by group id."""
        return self._stored

    async def start(self) -> None:
        self._dynamic.check_broker_changes(self._check)
        self._dynamic.on_broker_changed(self._on_broker)
        self._store.subscribe(self._on_session)
        await in_any_session(self._read_all)

    async def alter(self, group_id: str, edit: configs.Edit, *, validate_only: bool) -> None:
        """Replace the settings of a group by the result of `edit`, whose errors it raises. Raises ConfigError, StoreError."""
        name = _node_name(group_id)
        async with self._writing:
            given = edit(await configs.entity_config(self._store, GROUPS, name))
            check_group_settings(given, self._dynamic.settings)
            if validate_only:
                return
            if given:
                await configs.write_entity_config(self._store, GROUPS, name, given)
            else:
                await self._remove(name)
        async with self._one_at_a_time:
            await self._read([name])
        logger.info("settings changed: group=%s settings=%s", group_id, ",".join(sorted(given)) or "-")

    async def _remove(self, name: str) -> None:
        try:
            await self._store.delete(znodes.config_path(GROUPS, name))
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
        """Read which groups have settings, and those of the groups that are new."""
        names = await self._names()
        for gone in {_node_name(group_id) for group_id in self._stored} - names:
            self._set(gone, None)
        new = names if everything else names - self._watched
        await self._read(sorted(new))

    async def _names(self) -> set[str]:
        while True:
            try:
                return set(await self._store.children(_ROOT, self._on_list))
            except NoNodeError:
                if await self._store.exists(_ROOT, self._on_list) is None:
                    return set()

    async def _read(self, names: Iterable[str]) -> None:
        names = list(names)
        nodes = await self._store.read_many([znodes.config_path(GROUPS, name) for name in names], self._on_node)
        for name, node in zip(names, nodes, strict=True):
            if node is not None:
                self._watched.add(name)
            self._set(name, None if node is None else node[0])
        self._publish()

    def _set(self, name: str, data: bytes | None) -> None:
        if data is None:
            self._watched.discard(name)
            self._stored.pop(desanitized(name), None)
            return
        try:
            given = znodes.decode_config(data)
        except ValueError as error:
            logger.warning("settings node ignored: path=%s error=%s", znodes.config_path(GROUPS, name), str(error))
            given = {}
        valid = _valid(desanitized(name), given)
        if valid:
            self._stored[desanitized(name)] = valid
        else:
            self._stored.pop(desanitized(name), None)

    def _publish(self) -> None:
        rows = {group_id: OwnGroupSettings(given) for group_id, given in self._stored.items()}
        self.current.replace(
            {
                group_id: GroupOverrides(
                    own.consumer_session_timeout_ms if "consumer.session.timeout.ms" in own.given else None,
                    own.consumer_heartbeat_interval_ms if "consumer.heartbeat.interval.ms" in own.given else None,
                    own.consumer_assignment_interval_ms if "consumer.assignment.interval.ms" in own.given else None,
                )
                for group_id, own in rows.items()
            }
        )

    # --- changes ---

    def _check(self, settings: BrokerSettings) -> None:
        """Raises ConfigError for broker settings that contradict each other."""
        self._consumer_settings(settings)

    def _on_broker(self, settings: BrokerSettings) -> None:
        try:
            self.current.settings = self._consumer_settings(settings)
        except ConfigError as error:  # another release has stored it: what was valid stays
            logger.warning("stored setting ignored: error=%s", error)
        self._publish()

    def _on_list(self, _event: WatchEvent) -> None:
        self._spawn(self._read_names)

    def _on_node(self, event: WatchEvent) -> None:
        name = event.path.removeprefix(f"{_ROOT}/")
        self._watched.discard(name)
        self._spawn(lambda: self._read([name]))

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.CONNECTED and not self._tasks.is_closed:
            self._tasks.spawn(self._on_new_session(), name="read settings of groups")

    async def _on_new_session(self) -> None:
        try:
            await self._read_all()
        except StoreError as error:
            logger.warning("settings of groups not read: error=%s", type(error).__name__)

    def _spawn(self, read: Callable[[], Awaitable[None]]) -> None:
        if not self._tasks.is_closed:
            self._tasks.spawn(self._follow(read), name="read changed settings of groups")

    async def _follow(self, read: Callable[[], Awaitable[None]]) -> None:
        try:
            async with self._one_at_a_time:
                await read()
        except StoreError as error:
            self._session_id = _NO_SESSION  # the watch may be lost: everything is read with the next session
            logger.warning("changes of settings not watched: error=%s", type(error).__name__)


def _node_name(group_id: str) -> str:
    """Return the id in percent escapes; no node may be called `.` or `..`."""
    return sanitized(group_id) if group_id.strip(".") else group_id.replace(".", "%2E")


def _valid(group_id: str, given: Mapping[str, str]) -> dict[str, str]:
    valid = {}
    for name, text in given.items():
        row = OwnGroupSettings.definitions.get(name)
        if row is None:
            continue  # of a kind of group that this release does not serve
        try:
            row.parse(text)
        except ConfigError as error:
            logger.warning("stored setting ignored: group=%s setting=%s error=%s", group_id, name, str(error))
        else:
            valid[name] = text
    return valid
