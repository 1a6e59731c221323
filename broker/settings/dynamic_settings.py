"""Settings that change while the broker runs: read from the store, followed through its notifications, written to it.

The owner of what lies under /config as far as this broker is concerned. `log_config` is what a log of a topic obeys;
`layers` says where each broker setting comes from; `settings` is what holds now; `entities` are the settings of users,
clients and addresses.
Rules: everything is read at the start and again with each new session, then the notifications of /config/changes are
followed in order; those that every broker has had the time to see are purged by whoever follows. A stored value that
cannot be (another release wrote it) is logged and left out: it must not stop a broker.
Invariants: listeners are told after the new values can be read here, each of them whatever becomes of another; a write of
this broker can be read here when it returns. Passwords are stored encrypted or not at all: without an encoder
(password.encoder.secret) they are refused.
Source: Kafka DynamicBrokerConfig, DynamicConfigManager, ZkAdminManager, AdminZkClient; KIP-226.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from config.errors import ConfigError
from config.layers import Layers, broker_definition, check_dynamic_update
from config.topic import LogConfig, check_topic_settings
from metadata.store import configs, znodes
from metadata.store.any_session import in_any_session
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
PURGE_PAUSE_MS = 60_000
NO_SESSION = 0

TopicListener = Callable[[str, LogConfig], None]
BrokerListener = Callable[["BrokerSettings"], None]
# What a change makes of the settings that are stored now.
Edit = Callable[[Mapping[str, str]], Mapping[str, str]]


class DynamicSettings:
    """`start` before the first log is opened; until then only the static settings hold."""

    def __init__(self, static: BrokerSettings, broker_id: int, store: Store, tasks: TaskScope, clock: Clock) -> None:
        self._broker_id = broker_id
        self._store = store
        self._tasks = tasks
        self._clock = clock
        self._session_id = NO_SESSION
        self._purged_ms = clock.monotonic_ms()
        self._entities: dict[str, Mapping[str, str]] = {}
        self._layers = Layers(static)
        self._topics: dict[str, dict[str, str]] = {}
        self._log_configs: dict[str, LogConfig] = {}
        self._common_log_config: LogConfig | None = None
        self._topic_listeners: list[TopicListener] = []
        self._broker_listeners: list[BrokerListener] = []
        self._last_change = -1
        self._one_at_a_time = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._is_closed = False

    # --- what holds now ---

    @property
    def layers(self) -> Layers:
        return self._layers

    @property
    def settings(self) -> BrokerSettings:
        """The broker's settings with the dynamic ones laid over them."""
        return self._layers.settings

    @property
    def entities(self) -> Mapping[str, Mapping[str, str]]:
        """By path: "users/alice", "users/alice/clients/app", "clients/<default>", "ips/10.0.0.1"."""
        return self._entities

    @property
    def configured_topics(self) -> list[str]:
        """Those with settings of their own."""
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

    # --- reading and following ---

    async def start(self) -> None:
        """Read everything and follow the changes from then on. Raises StoreError, but not for a session's end."""
        self._store.subscribe(self._on_session)
        await in_any_session(lambda: ensure_path(self._store, znodes.CONFIG_CHANGES))
        await in_any_session(self._read_all)

    def close(self) -> None:
        """Follow no more changes."""
        self._is_closed = True

    async def catch_up(self) -> None:
        """Return when every change that was written before this call can be read here. Raises StoreError."""
        async with self._one_at_a_time:
            await self._follow()

    async def _read_all(self) -> None:
        async with self._one_at_a_time:
            session_id = self._store.session().session_id
            if session_id == self._session_id:
                return  # it was only suspended: its watches are there still
            # The position first, then the values: what changes in between is read twice, never missed.
            self._last_change = -1
            changes = await configs.changes_after(self._store, -1, self._on_watch)
            self._last_change = changes[-1].sequence if changes else -1
            topics = await configs.entity_configs(self._store, TOPICS)
            brokers = await configs.entity_configs(self._store, BROKERS)
            self._set_brokers(brokers.get(CLUSTER_DEFAULT, {}), brokers.get(str(self._broker_id), {}))
            self._entities = await configs.quota_entities(self._store)
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
                self._entities[change.entity_path] = await configs.entity_config(self._store, entity_type, name)
            self._last_change = change.sequence

    async def _purge(self) -> None:
        """What fails here is done by the next one, or by another broker."""
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
            self._session_id = NO_SESSION  # the watch may be lost: everything is read when the store is back
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
            self._tasks.spawn(self._on_changes(), name="follow settings")

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.CONNECTED and not self._is_closed and not self._tasks.is_closed:
            self._tasks.spawn(self._on_new_session(), name="read settings")

    async def learn_topics(self, topics: Iterable[str]) -> None:
        """Read the settings of topics that are about to get their logs: a creation writes no notification. Raises
        StoreError."""
        async with self._one_at_a_time:
            names = list(topics)
            try:
                stored = await configs.named_configs(self._store, TOPICS, names)
            except StoreError:
                self._session_id = NO_SESSION  # the logs open all the same: everything is read when the store is back
                raise
            for topic in names:
                self._set_topic(topic, stored.get(topic, {}))

    def forget_topic(self, topic: str) -> None:
        """The topic is gone; another of its name begins anew."""
        self._set_topic(topic, {})

    # --- what was read ---

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
            _tell(f"topic {topic}", partial(listener, topic, config))

    def _set_brokers(self, default: Mapping[str, str], own: Mapping[str, str]) -> None:
        known = _readable(self._layers.static, _without_useless(default), _without_useless(own))
        if (known.dynamic_default, known.dynamic_broker) == (self._layers.dynamic_default, self._layers.dynamic_broker):
            return
        self._layers = known
        self._log_configs.clear()
        self._common_log_config = None
        for listener in self._broker_listeners:
            _tell("broker", partial(listener, known.settings))

    # --- writing ---

    async def topic_settings(self, topic: str) -> Mapping[str, str]:
        """A topic's own settings as they are stored now, without those that cannot be. Raises StoreError."""
        return _possible(await configs.entity_config(self._store, TOPICS, topic))

    async def settings_of_topics(self, topics: Sequence[str]) -> dict[str, Mapping[str, str]]:
        """The same of many topics, read in one go; those without settings of their own are left out. Raises StoreError."""
        stored = await configs.named_configs(self._store, TOPICS, topics)
        return {topic: _possible(settings) for topic, settings in stored.items()}

    async def alter_topic(self, topic: str, edit: Edit, *, validate_only: bool) -> None:
        """Replace a topic's own settings by what `edit` makes of them. Raises ConfigError, StoreError."""
        async with self._writing:
            given = edit(await configs.entity_config(self._store, TOPICS, topic))
            check_topic_settings(given, self.settings)
            if validate_only:
                return
            await configs.alter_entity_config(self._store, TOPICS, topic, given)
        await self.catch_up()
        logger.info("settings changed: topic=%s settings=%s", topic, ",".join(sorted(given)) or "-")

    async def alter_broker(self, edit: Edit, *, per_broker: bool, validate_only: bool) -> None:
        """The same for this broker, or for the cluster's defaults. Raises ConfigError, PasswordsRefused, StoreError."""
        name = str(self._broker_id) if per_broker else CLUSTER_DEFAULT
        async with self._writing:
            stored = await configs.entity_config(self._store, BROKERS, name)
            given = edit(stored)
            check_dynamic_update(self._layers, given, per_broker=per_broker)
            fixed = sorted(each for each in _FIXED & given.keys() if given[each] != stored.get(each))
            if fixed:
                raise ConfigError(f"Cannot update these configs dynamically: {', '.join(fixed)}")
            if validate_only:
                return
            # What Apache Kafka has encrypted stays as it is, for when it is back.
            if any(_is_password(setting) and text != stored.get(setting) for setting, text in given.items()):
                raise PasswordsRefused("Password encoder secret not configured")
            await configs.alter_entity_config(self._store, BROKERS, name, given)
        await self.catch_up()
        logger.info("settings changed: broker=%s settings=%s", name, ",".join(sorted(given)) or "-")


# Listeners are opened at the start, and told then.
_FIXED = frozenset(("listeners", "advertised.listeners", "listener.security.protocol.map"))


class PasswordsRefused(ConfigError):
    """A dynamic password, and nothing to encrypt it with."""


def _tell(whose: str, listener: Callable[[], None]) -> None:
    """One that fails is a bug, told once: the others hear of the change, and of the next."""
    try:
        listener()
    except Exception:
        logger.exception("changed settings not applied: resource=%s", whose)


def _possible(stored: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in stored.items() if _problem(name, text) is None}


def _problem(name: str, text: str) -> str | None:
    """Why a topic cannot have a setting that is stored; None for one that it can have."""
    row = LogConfig.definitions.get(name)
    if row is None:
        return "not known"
    try:
        row.parse(text)
    except ConfigError as error:
        return str(error)
    return None


def _readable(static: BrokerSettings, default: Mapping[str, str], own: Mapping[str, str]) -> Layers:
    """The stored settings of brokers that can be: all of them, or those that can be beside the ones that can."""
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
    # One by one, so that a setting that cannot be takes no other with it; and again, since some only can be beside others.
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


def _without_useless(stored: Mapping[str, str]) -> dict[str, str]:
    """What Apache Kafka may have stored, and this broker cannot follow: nobody is to be told that it holds."""
    for name in stored:
        if _is_password(name):
            logger.warning("stored password ignored, there is no password.encoder.secret: setting=%s", name)
        elif name in _FIXED:
            logger.warning("stored setting ignored, it changes only with a restart: setting=%s", name)
    return {name: text for name, text in stored.items() if not _is_password(name) and name not in _FIXED}


def _is_password(name: str) -> bool:
    row = broker_definition(name)
    return row is not None and row.is_sensitive
