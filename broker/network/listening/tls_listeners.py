"""TLS of the broker's listeners: their contexts, which may change while it runs, and what a finished handshake means.

A listener's certificate and trusted authorities change by its settings (`listener.name.NAME.ssl.keystore.*` and others), or
because its files have: they are checked every `WATCH_PERIOD_MS`. New handshakes use the new ones, open connections go on.

Rules: files are read, and contexts made, in a thread (`DiskQueue.run`), except at the start. A change is checked before it is
stored, and again by every broker that applies it; one that cannot be applied is logged, and the former certificate stays.
A key store may not change its owner's name or lose an alternative name, unless the settings allow it; that of the brokers'
listener must suit its trust store, before and after.
Invariants: a connection counts as one of the listener from the moment it is open, not from its handshake. It ends, with one log
line, when its handshake fails, takes too long, or shows a certificate that no mapping rule applies to.
Source: Kafka SslFactory, SslChannelBuilder, SslTransportLayer, DynamicBrokerConfig.DynamicListenerConfig; KIP-226, KIP-371.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from config.broker import SASL_LISTENER_SETTINGS, base_name
from config.errors import ConfigError
from config.layers import CLUSTER_LEVEL_LISTENER_SETTINGS, LISTENER_ONLY_SETTINGS
from config.listener_values import ListenerValues
from runtime.tls.context import TlsMaterial, check_handshake, client_context_of, server_context
from runtime.tls.stream import TlsStream, TlsWork, reason_of_failure
from security.tls.key_store import KeyStore, check_replacement
from security.tls.ssl_principal import SslPrincipalMapper
from security.tls.ssl_settings import ClientAuth, SslSettings
from security.tls.store_settings import StoreSettings, read_certificates, read_keys

if TYPE_CHECKING:
    from broker.network.connections.connection import RequestConnection
    from broker.network.listening.listeners import ListenerPlan
    from config.broker import BrokerSettings
    from runtime.disk.disk_queue import DiskQueue
    from runtime.disk.filesystem import FileStat, FileSystem
    from runtime.network.transport import ConnectionHandler
    from runtime.tasks import TaskScope
    from runtime.timer import Timer, TimerEntry
    from runtime.tls.network import TlsNetwork

logger = logging.getLogger(__name__)

WATCH_PERIOD_MS = 5_000
TLS_PROTOCOLS = ("SSL", "SASL_SSL")
_VERIFY_MODES = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True)
class _Contexts:
    """What was made from the settings and the files as they were. On the brokers' listener, `client` is for connections to
    other brokers, and `any_host` the same without a check of their names."""

    settings: SslSettings
    stats: Mapping[str, FileStat]
    keys: KeyStore
    server: ssl.SSLContext
    client: ssl.SSLContext | None = None
    any_host: ssl.SSLContext | None = None


class _Listener:
    def __init__(self, plan: ListenerPlan, contexts: _Contexts, mapper: SslPrincipalMapper) -> None:
        self.plan = plan
        self.contexts = contexts
        self.mapper = mapper
        self.failed_stats: Mapping[str, FileStat] | None = None  # of files that could not be applied


class _HandshakeDeadline:
    """Closes a connection whose client does not finish its handshake in time. While this broker works on it, because many
    come at once, the client has more time."""

    __slots__ = ("_connection", "_entry", "_period_ms", "_timer")

    def __init__(self, timer: Timer, period_ms: int, connection: RequestConnection) -> None:
        self._timer = timer
        self._period_ms = period_ms
        self._connection = connection
        self._entry: TimerEntry | None = None

    def start(self, stream: TlsStream) -> None:
        self._entry = self._timer.schedule(self._period_ms, lambda: self._end(stream))

    def _end(self, stream: TlsStream) -> None:
        if stream.is_working:
            self.start(stream)
        else:
            self._connection.tls_failed(f"no TLS handshake within {self._period_ms} ms")

    def cancel(self) -> None:
        if self._entry is not None:
            self._entry.cancel()
            self._entry = None


class TlsListeners:
    """The listeners of a broker that use TLS. `filesystem` is read in the thread of a disk queue after the start."""

    def __init__(
        self,
        settings: BrokerSettings,
        plans: Sequence[ListenerPlan],
        filesystem: FileSystem,
        work: TlsWork,
        *,
        timer: Timer,
    ) -> None:
        """Read the stores. Raises ConfigError, which names the setting and the file."""
        self._filesystem = filesystem
        self._work = work
        self._timer = timer
        self._handshake_timeout_ms = settings.barnabas_authentication_timeout_ms
        self._plans = plans
        self._given = settings.given
        self._queue: DiskQueue | None = None
        self._one_at_a_time = asyncio.Lock()  # or an older change could come last
        self._brokers: TlsNetwork | None = None
        self._listeners: dict[str, _Listener] = {}
        for plan in plans:
            if plan.security_protocol in TLS_PROTOCOLS:
                values = ListenerValues(settings, plan.name)
                contexts = self._make(_ssl_settings(settings, plan), is_brokers=plan.is_inter_broker)
                self._listeners[plan.name] = _Listener(plan, contexts, _mapper(values))

    def __bool__(self) -> bool:
        return bool(self._listeners)

    # --- connections ---

    def factory(self, listener: str, plain: Callable[[], RequestConnection]) -> Callable[[], ConnectionHandler]:
        """Return `plain`, with TLS before it if the listener has it. For `Network.listen`."""
        found = self._listeners.get(listener)
        if found is None:
            return plain
        return lambda: self._stream(found, plain())

    def _stream(self, listener: _Listener, connection: RequestConnection) -> TlsStream:
        deadline = _HandshakeDeadline(self._timer, self._handshake_timeout_ms, connection)

        def secured(stream: TlsStream) -> None:
            deadline.cancel()
            self._secured(listener, connection, stream)

        def failed(error: Exception) -> None:
            deadline.cancel()
            connection.tls_failed(f"TLS: {reason_of_failure(error)}")

        stream = TlsStream(
            connection,
            listener.contexts.server,
            self._work,
            is_announced_early=True,
            secured=secured,
            failed=failed,
            ended=deadline.cancel,
        )
        deadline.start(stream)
        return stream

    def _secured(self, listener: _Listener, connection: RequestConnection, stream: TlsStream) -> None:
        principal = None
        if listener.plan.security_protocol == "SSL":
            try:
                principal = listener.mapper.principal(stream.certificate)
            except ValueError as error:
                connection.tls_failed(f"the certificate names no principal: {error}")
                return
        connection.secured(principal, cipher=stream.cipher, version=stream.version)

    # --- connections to brokers ---

    def brokers_context(self) -> ssl.SSLContext:
        """Return the context for connections to the brokers' listener of other brokers."""
        return next(context for each in self._listeners.values() if (context := each.contexts.client) is not None)

    def keep_current(self, network: TlsNetwork) -> None:
        """Give the network the context again whenever it changes."""
        self._brokers = network

    # --- changes ---

    def watch(self, queue: DiskQueue, tasks: TaskScope) -> None:
        """Look at the files from now on. `queue` has a thread for them."""
        self._queue = queue
        if any(each.contexts.settings.files for each in self._listeners.values()):
            self._timer.schedule(WATCH_PERIOD_MS, lambda: self._watch_again(tasks))

    def _watch_again(self, tasks: TaskScope) -> None:
        if not tasks.is_closed and self._queue is not None:
            tasks.spawn(self._check_files(), name="check TLS files")
            self._timer.schedule(WATCH_PERIOD_MS, lambda: self._watch_again(tasks))

    async def _check_files(self) -> None:
        assert self._queue is not None
        async with self._one_at_a_time:
            for listener in self._listeners.values():
                known = listener.contexts
                stats = await self._queue.run(lambda known=known: self._stats(known.settings))  # type: ignore[misc]
                if stats != known.stats and stats != listener.failed_stats:
                    await self._replace(listener, known.settings, stats)

    async def check(self, settings: BrokerSettings) -> None:
        """Check settings that are about to replace the current ones. Raises ConfigError."""
        self._check_fixed(settings.given)
        for listener in self._listeners.values():
            changed = _changed(listener.contexts.settings, _ssl_settings(settings, listener.plan))
            if changed == listener.contexts.settings:
                continue  # a file that is just being written must not refuse the change of something else
            await self._run(lambda listener=listener, changed=changed: self._prepare(listener, changed))  # type: ignore[misc]

    def _check_fixed(self, given: Mapping[str, str]) -> None:
        """Other settings of a listener are fixed once it is open."""
        for plan in self._plans:
            prefix = f"listener.name.{plan.name.lower()}."
            if _fixed_settings(self._given, prefix) != _fixed_settings(given, prefix):
                raise ConfigError(
                    f"Configs cannot be updated dynamically for existing listener ListenerName({plan.name}), "
                    "restart broker or create a new listener for update"
                )

    def follow(self, settings: BrokerSettings, tasks: TaskScope) -> None:
        """Apply changed settings in a task."""
        if self._listeners and not tasks.is_closed:
            tasks.spawn(self.apply(settings), name="apply changed certificates")

    async def apply(self, settings: BrokerSettings) -> None:
        """Apply changed settings. What cannot be applied is logged."""
        async with self._one_at_a_time:
            for listener in self._listeners.values():
                try:
                    changed = _changed(listener.contexts.settings, _ssl_settings(settings, listener.plan))
                except ConfigError as error:
                    logger.warning("certificates not replaced: listener=%s error=%s", listener.plan.name, error)
                    continue
                await self._replace(listener, changed, None)

    async def _replace(self, listener: _Listener, settings: SslSettings, stats: Mapping[str, FileStat] | None) -> None:
        try:
            contexts = await self._run(lambda: self._prepare(listener, settings))
        except ConfigError as error:
            listener.failed_stats = stats
            logger.warning("certificates not replaced: listener=%s error=%s", listener.plan.name, error)
            return
        if contexts is listener.contexts:
            return
        listener.contexts = contexts
        if contexts.client is not None and self._brokers is not None:
            self._brokers.context = contexts.client
        logger.info("certificates replaced: listener=%s", listener.plan.name)

    async def _run(self, job: Callable[[], _Contexts]) -> _Contexts:
        return job() if self._queue is None else await self._queue.run(job)

    def _prepare(self, listener: _Listener, settings: SslSettings) -> _Contexts:
        """Return what replaces the listener's contexts, these if nothing changed. Raises ConfigError."""
        old = listener.contexts
        if settings == old.settings and self._stats(settings) == old.stats:
            return old
        new = self._make(settings, is_brokers=listener.plan.is_inter_broker)
        try:
            check_replacement(
                old.keys,
                new.keys,
                allows_names=settings.allows_names,
                allows_alternatives=settings.allows_alternatives,
            )
            if new.any_host is not None and old.any_host is not None:  # others may not have changed theirs yet
                check_handshake(old.server, new.any_host)
                check_handshake(new.server, old.any_host)
        except (ValueError, ssl.SSLError) as error:
            raise ConfigError(
                f"Validation of dynamic config update of SSLFactory failed: listener {listener.plan.name}: {error}"
            ) from error
        return new

    # --- from files to contexts ---

    def _make(self, settings: SslSettings, *, is_brokers: bool) -> _Contexts:
        """Raises ConfigError."""
        if settings.keys is None:
            raise ConfigError(
                f"listener {settings.listener}: ssl.keystore.location, or ssl.keystore.key with "
                "ssl.keystore.certificate.chain, must be set: a listener with TLS needs a certificate"
            )
        stats = self._stats(settings)
        read_file = self._filesystem.read_bytes
        keys = read_keys(settings.keys, read_file)
        trusted = None if settings.trusted is None else read_certificates(settings.trusted, read_file)
        material = TlsMaterial(keys.as_pem(), trusted, settings.versions, settings.suites.ciphers, keys.other_pems)
        try:
            server = server_context(material, _VERIFY_MODES[settings.client_auth])
            client = client_context_of(material, checks_host=settings.checks_host) if is_brokers else None
            any_host = client_context_of(material, checks_host=False) if is_brokers else None
        except ssl.SSLError as error:
            raise ConfigError(f"{_where(settings.keys)}: {reason_of_failure(error)}") from error
        if any_host is not None:
            try:
                check_handshake(server, any_host)
            except ssl.SSLError as error:
                raise ConfigError(
                    f"listener {settings.listener}: a client with these settings cannot connect to a server with them, "
                    f"{_where(settings.keys)}, {_where(settings.trusted)}: {reason_of_failure(error)}"
                ) from error
        return _Contexts(settings, stats, keys, server, client, any_host)

    def _stats(self, settings: SslSettings) -> Mapping[str, FileStat]:
        """Return the files' sizes and times; those that are not there are left out."""
        stats = {}
        for path in settings.files:
            try:
                stats[path] = self._filesystem.stat(path)
            except OSError:
                continue  # reading it says why
        return stats


def _where(store: StoreSettings | None) -> str:
    return "the authorities of the operating system" if store is None else store.where


def _ssl_settings(settings: BrokerSettings, plan: ListenerPlan) -> SslSettings:
    return SslSettings.of(ListenerValues(settings, plan.name), has_sasl=plan.security_protocol == "SASL_SSL")


def _mapper(values: ListenerValues) -> SslPrincipalMapper:
    name = "ssl.principal.mapping.rules"
    try:
        return SslPrincipalMapper(values.value(name))
    except ValueError as error:
        raise ConfigError(f"{values.shown_name(name)}: {error}") from error


def _changed(current: SslSettings, new: SslSettings) -> SslSettings:
    """Return the settings with the new stores: nothing else may change while the broker runs."""
    return replace(current, keys=new.keys, trusted=new.trusted)


_CHANGEABLE = LISTENER_ONLY_SETTINGS.union(CLUSTER_LEVEL_LISTENER_SETTINGS)


def _fixed_settings(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        name: text
        for name, text in given.items()
        if name.startswith(prefix)
        and name.removeprefix(prefix) not in _CHANGEABLE
        and base_name(name) not in SASL_LISTENER_SETTINGS  # stored, for the next start
    }
