"""Settings that change while the broker runs: read from the store, updated by its notifications, and written to it.

The owner of the nodes under /config, as far as this broker uses them. `log_config` returns the configuration of a topic's logs;
`layers` has the source of each broker setting; `settings` are the current settings; `entities` are the settings of users,
clients and addresses.
Rules: everything is read at the start and with each new session, then the notifications of /config/changes are processed in
order; each broker removes those that are old enough to have been seen by all. An invalid stored value (written by another
release) is logged and ignored: it must not stop a broker. In a cluster one that names Java code which guards something stops
the start, since Apache Kafka applies it.
Invariants: listeners are notified when the new values can be read here, each of them even if another one fails; a write of
this broker can be read here when it returns. Passwords are stored encrypted (`broker.settings.stored_passwords`).
Source: Kafka DynamicBrokerConfig, DynamicConfigManager, ZkAdminManager, AdminZkClient; KIP-226.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from broker.settings.stored_passwords import StoredPasswords
from config.errors import ConfigError
from config.layers import Layers, check_dynamic_update, stored_java_classes
from config.topic import LogConfig
from metadata.admin.topic_rules import check_settings
from metadata.store import configs, znodes
from metadata.store.any_session import in_any_session
from metadata.store.change_nodes import PURGE_PAUSE_MS
from metadata.store.port import SessionEvent, StoreError, WatchEvent, ensure_path

if TYPE_CHECKING:
    from config.broker import BrokerSettings
    from metadata.store.port import Store
    from runtime.clock import Clock
    from runtime.tasks import TaskScope

logger = logging.getLogger(__name__)

TOPICS = "topics"
BROKERS = "brokers"
CLUSTER_DEFAULT = configs.DEFAULT_ENTITY
NO_SESSION = 0

TopicListener = Callable[[str, LogConfig], None]
BrokerListener = Callable[["BrokerSettings"], None]
EntityListener = Callable[[str, Mapping[str, str]], None]
# Raises ConfigError for settings that this broker could not apply.
BrokerCheck = Callable[["BrokerSettings"], "Awaitable[None] | None"]
Edit = configs.Edit


class DynamicSettings:
    """The current settings. `start` before the first log is opened; until then only the static settings apply."""

    def __init__(
        self,
        static: BrokerSettings,
        broker_id: int,
        store: Store,
        tasks: TaskScope,
        clock: Clock,
        passwords: StoredPasswords | None = None,
    ) -> None:
        self._broker_id = broker_id
        self._store = store
        self._tasks = tasks
        self._clock = clock
        self._passwords = passwords or StoredPasswords()
        self._session_id = NO_SESSION
        self._purged_ms = clock.monotonic_ms()
        self._entities: dict[str, Mapping[str, str]] = {}
        self._layers = Layers(static)
        self._topics: dict[str, dict[str, str]] = {}
        self._log_configs: dict[str, LogConfig] = {}
        self._common_log_config: LogConfig | None = None
        self._topic_listeners: list[TopicListener] = []
        self._broker_listeners: list[BrokerListener] = []
        self._entity_listeners: list[EntityListener] = []
        self._broker_checks: list[BrokerCheck] = []
        self._last_change = -1
        self._one_at_a_time = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._is_closed = False

    # --- the current settings ---

    @property
    def layers(self) -> Layers:
        return self._layers

    @property
    def settings(self) -> BrokerSettings:
        """The broker's settings, with dynamic values in place of static ones."""
        return self._layers.settings

    @property
    def entities(self) -> Mapping[str, Mapping[str, str]]:
        """Settings by entity path: "users/alice", "users/alice/clients/app", "clients/<default>", "ips/10.0.0.1"."""
        return self._entities

    @property
    def configured_topics(self) -> list[str]:
        """The topics with settings of their own, in order."""
        return sorted(self._topics)

    def log_config(self, topic: str) -> LogConfig:
        own = self._topics.get(topic)
        if own is None:  # topics without settings of their own share one value
            if self._common_log_config is None:
                self._common_log_config = LogConfig.from_settings(self.settings, {})
            return self._common_log_config
        config = self._log_configs.get(topic)
        if config is None:
            config = LogConfig.from_settings(self.settings, own)
            self._log_configs[topic] = config
        return config

    def on_topic_changed(self, listener: TopicListener) -> None:
        """Call `listener` with each topic whose own settings change. Changes of broker settings reach it through
        `on_broker_changed`: every topic may be concerned."""
        self._topic_listeners.append(listener)

    def on_broker_changed(self, listener: BrokerListener) -> None:
        self._broker_listeners.append(listener)

    def check_broker_changes(self, check: BrokerCheck) -> None:
        """Call `check` with the settings that the broker would have after a change which a client asks for: what it raises
        refuses the change. It changes nothing, and may be a coroutine function."""
        self._broker_checks.append(check)

    def on_entity_changed(self, listener: EntityListener) -> None:
        """Call `listener` with the path and the settings of each user, client or address whose settings change; those that it
        has now are in `entities`. An entity without settings has an empty mapping."""
        self._entity_listeners.append(listener)

    # --- reading, and processing notifications ---

    async def start(self) -> None:
        """Read everything, and process changes from then on. Raises ConfigError, StoreError; retries when the session ends."""
        if self._layers.static.zookeeper_connect is not None:
            await in_any_session(self._refuse_java_classes)
        self._store.subscribe(self._on_session)
        await in_any_session(lambda: ensure_path(self._store, znodes.CONFIG_CHANGES))
        await in_any_session(self._renew_passwords)
        await in_any_session(self._read_all)

    def close(self) -> None:
        """Stop processing changes."""
        self._is_closed = True

    async def catch_up(self) -> None:
        """Return when every change that was written before this call can be read here. Raises StoreError."""
        async with self._one_at_a_time:
            await self._follow()

    async def _refuse_java_classes(self) -> None:
        """Raises ConfigError."""
        for error in stored_java_classes(await configs.entity_config(self._store, BROKERS, str(self._broker_id))):
            raise ConfigError(
                f"{error} (stored in ZooKeeper for broker {self._broker_id}; kafka-configs.sh removes it)"
            )

    async def _renew_passwords(self) -> None:
        """Encrypt passwords again that a former secret encrypted."""
        name = str(self._broker_id)
        renewed = self._passwords.renewed(await configs.entity_config(self._store, BROKERS, name))
        if renewed is not None:
            await configs.alter_entity_config(self._store, BROKERS, name, renewed)
            logger.info("passwords encrypted by the current secret: broker=%s", name)

    async def _read_all(self) -> None:
        async with self._one_at_a_time:
            session_id = self._store.session().session_id
            if session_id == self._session_id:
                return  # it was only disconnected: its watches remain
            # The position first, then the values: a change in between is read twice, never missed.
            self._last_change = -1
            changes = await configs.changes_after(self._store, -1, self._on_watch)
            self._last_change = changes[-1].sequence if changes else -1
            topics = await configs.entity_configs(self._store, TOPICS)
            brokers = await configs.entity_configs(self._store, BROKERS)
            self._set_brokers(brokers.get(CLUSTER_DEFAULT, {}), brokers.get(str(self._broker_id), {}))
            entities = await configs.quota_entities(self._store)
            for path in sorted(self._entities.keys() | entities.keys()):
                self._set_entity(path, entities.get(path, {}))
            for topic in sorted(self._topics.keys() | topics.keys()):
                self._set_topic(topic, topics.get(topic, {}))
            self._session_id = session_id

    async def _follow(self, watch: Callable[[WatchEvent], None] | None = None) -> None:
        for change in await configs.changes_after(self._store, self._last_change, watch):
            entity_type, _, name = change.entity_path.partition("/")
            if entity_type == TOPICS:
                self._set_topic(name, await configs.entity_config(self._store, TOPICS, name))
            elif entity_type == BROKERS and name in (CLUSTER_DEFAULT, str(self._broker_id)):
                self._set_brokers(
                    await configs.entity_config(self._store, BROKERS, CLUSTER_DEFAULT),
                    await configs.entity_config(self._store, BROKERS, str(self._broker_id)),
                )
            elif entity_type in configs.QUOTA_TYPES:
                self._set_entity(change.entity_path, await configs.entity_config(self._store, entity_type, name))
            self._last_change = change.sequence

    async def _purge(self) -> None:
        """Remove old notifications. After a failure the next call, or another broker, removes them."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._purged_ms >= PURGE_PAUSE_MS:
            self._purged_ms = now_ms
            try:
                await configs.purge_changes(self._store, self._clock.wall_ms())
            except StoreError as error:
                logger.info("old notifications of changed settings not removed: error=%s", type(error).__name__)

    async def _on_changes(self) -> None:
        try:
            async with self._one_at_a_time:
                await self._follow(self._on_watch)
        except StoreError as error:
            self._session_id = NO_SESSION  # the watch may be lost: everything is read with the next session
            logger.warning("changes of settings not watched: error=%s", type(error).__name__)
        else:
            await self._purge()

    async def _on_new_session(self) -> None:
        try:
            await self._read_all()
        except StoreError as error:
            logger.warning("settings not read: error=%s", type(error).__name__)

    def _on_watch(self, _event: WatchEvent) -> None:
        if not self._is_closed and not self._tasks.is_closed:
            self._tasks.spawn(self._on_changes(), name="process changed settings")

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.CONNECTED and not self._is_closed and not self._tasks.is_closed:
            self._tasks.spawn(self._on_new_session(), name="read settings")

    async def learn_topics(self, topics: Iterable[str]) -> None:
        """Read the settings of topics whose logs are about to be created: the creation of a topic writes no notification.
        Raises StoreError."""
        async with self._one_at_a_time:
            names = list(topics)
            try:
                stored = await configs.named_configs(self._store, TOPICS, names)
            except StoreError:
                self._session_id = NO_SESSION  # the logs are opened anyway: everything is read with the next session
                raise
            for topic in names:
                self._set_topic(topic, stored.get(topic, {}))

    def forget_topic(self, topic: str) -> None:
        """Remove the settings of a deleted topic: another topic of its name starts without them."""
        self._set_topic(topic, {})

    # --- applying what was read ---

    def _set_topic(self, topic: str, stored: Mapping[str, str]) -> None:
        own = {}
        for name, text in stored.items():
            problem = _problem(name, text)
            if problem is None:
                own[name] = text
            elif name in LogConfig.definitions:
                logger.warning("stored setting ignored: topic=%s setting=%s error=%s", topic, name, problem)
        if own == self._topics.get(topic, {}):
            return
        self._log_configs.pop(topic, None)
        if own:
            self._topics[topic] = own
        else:
            self._topics.pop(topic, None)
        config = self.log_config(topic)
        for listener in self._topic_listeners:
            _notify(f"topic {topic}", partial(listener, topic, config))

    def _set_brokers(self, default: Mapping[str, str], own: Mapping[str, str]) -> None:
        self._passwords.keep_only(default, own)
        clear = (self._passwords.in_clear(_without_fixed(layer)) for layer in (default, own))
        known = _valid_layers(self._layers.static, *clear)
        if (known.dynamic_default, known.dynamic_broker) == (self._layers.dynamic_default, self._layers.dynamic_broker):
            return
        self._layers = known
        self._log_configs.clear()
        self._common_log_config = None
        for listener in self._broker_listeners:
            _notify("broker", partial(listener, known.settings))

    def _set_entity(self, path: str, stored: Mapping[str, str]) -> None:
        if stored == self._entities.get(path, {}):
            return
        if stored:
            self._entities[path] = stored
        else:
            self._entities.pop(path, None)
        for listener in self._entity_listeners:
            _notify(f"entity {path}", partial(listener, path, stored))

    # --- writing ---

    async def topic_settings(self, topic: str) -> Mapping[str, str]:
        """Return a topic's own settings as stored, without invalid ones. Raises StoreError."""
        return _valid_settings(await configs.entity_config(self._store, TOPICS, topic))

    async def settings_of_topics(self, topics: Sequence[str]) -> dict[str, Mapping[str, str]]:
        """Return the same of many topics, without those that have no settings of their own. Raises StoreError."""
        stored = await configs.named_configs(self._store, TOPICS, topics)
        return {topic: _valid_settings(settings) for topic, settings in stored.items()}

    async def alter_topic(self, topic: str, edit: Edit, *, validate_only: bool) -> None:
        """Replace a topic's own settings by the result of `edit`. Raises ConfigError, StoreError."""
        async with self._writing:
            given = edit(await configs.entity_config(self._store, TOPICS, topic))
            check_settings(topic, given, self.settings)
            if validate_only:
                return
            await configs.alter_entity_config(self._store, TOPICS, topic, given)
        await self.catch_up()
        logger.info("settings changed: topic=%s settings=%s", topic, ",".join(sorted(given)) or "-")

    async def alter_entity(self, path: str, edit: Edit, *, validate_only: bool) -> None:
        """Replace the settings of a user, client or address (its path as in `entities`) by the result of `edit`, whose errors
        it raises. Raises StoreError."""
        async with self._writing:
            if validate_only:
                entity_type, _, name = path.rpartition("/")
                edit(await configs.entity_config(self._store, entity_type, name))
                return
            stored, given = await configs.edit_entity_config(self._store, path, edit)
        await self.catch_up()
        changed = sorted(name for name in stored.keys() | given.keys() if stored.get(name) != given.get(name))
        logger.info("settings changed: path=%s settings=%s", path, ",".join(changed) or "-")

    async def alter_broker(self, edit: Edit, *, per_broker: bool, validate_only: bool) -> None:
        """Replace the dynamic settings of this broker, or the cluster's defaults. Raises ConfigError, PasswordsRefused,
        StoreError."""
        name = str(self._broker_id) if per_broker else CLUSTER_DEFAULT
        async with self._writing:
            stored = await configs.entity_config(self._store, BROKERS, name)
            given = edit(stored)
            clear = self._passwords.changed_in_clear(given, stored)
            changed = check_dynamic_update(self._layers, clear, per_broker=per_broker)
            fixed = sorted(each for each in _FIXED & given.keys() if given[each] != stored.get(each))
            if fixed:
                raise ConfigError(f"Cannot update these configs dynamically: {', '.join(fixed)}")
            for check in self._broker_checks:
                if (pending := check(changed.settings)) is not None:
                    await pending
            if validate_only:
                return
            given = self._passwords.to_store(given, stored, per_broker=per_broker)
            await configs.alter_entity_config(self._store, BROKERS, name, given)
        await self.catch_up()
        logger.info("settings changed: broker=%s settings=%s", name, ",".join(sorted(given)) or "-")


# Settings of network listeners apply only at the start.
_FIXED = frozenset(("listeners", "advertised.listeners", "listener.security.protocol.map"))


def _notify(resource: str, listener: Callable[[], None]) -> None:
    """Call a listener. A failure is a bug: it is logged, and the other listeners are called."""
    try:
        listener()
    except Exception:
        logger.exception("changed settings not applied: resource=%s", resource)


def _valid_settings(stored: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in stored.items() if _problem(name, text) is None}


def _problem(name: str, text: str) -> str | None:
    """Return why a stored setting of a topic is invalid; None if it is valid."""
    row = LogConfig.definitions.get(name)
    if row is None:
        return "not known"
    try:
        row.parse(text)
    except ConfigError as error:
        return str(error)
    return None


def _valid_layers(static: BrokerSettings, default: Mapping[str, str], own: Mapping[str, str]) -> Layers:
    """Return the valid ones of the brokers' stored settings: all of them, or those that are valid together."""
    try:
        known = check_dynamic_update(Layers(static, {}, own), default, per_broker=False)
        return check_dynamic_update(known, own, per_broker=True)
    except ConfigError:
        known = Layers(static)
    waiting = [(name, text, False) for name, text in default.items()] + [
        (name, text, True) for name, text in own.items()
    ]
    problems: dict[tuple[str, bool], ConfigError] = {}
    count = -1
    # One by one, so that an invalid setting affects no other; and repeatedly, since some are valid only together with others.
    while len(waiting) != count:
        count, trying, waiting = len(waiting), waiting, []
        for name, text, per_broker in trying:
            given = {**(known.dynamic_broker if per_broker else known.dynamic_default), name: text}
            try:
                known = check_dynamic_update(known, given, per_broker=per_broker)
            except ConfigError as error:
                waiting.append((name, text, per_broker))
                problems[name, per_broker] = error
    for name, _, per_broker in waiting:
        logger.warning("stored setting ignored: setting=%s error=%s", name, str(problems[name, per_broker]))
    return known


def _without_fixed(stored: Mapping[str, str]) -> dict[str, str]:
    """Remove settings that Apache Kafka may have stored and this broker cannot apply: they must not be shown as in use."""
    for name in _FIXED & stored.keys():
        logger.warning("stored setting ignored, it changes only with a restart: setting=%s", name)
    return {name: text for name, text in stored.items() if name not in _FIXED}
