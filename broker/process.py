"""The life of a broker process: event loop, dependencies, signals, the banner, and the notice that it is ready.

Rules: signals stop the broker as `runtime.process.stop_signals` says, SIGHUP opens the audit log anew. A broker that cannot
continue stops, too, with exit code 1. A service manager that listens on NOTIFY_SOCKET is informed when clients are served,
and when the stop begins.
Source: Kafka Kafka.main, KafkaServerStartable; signals: a JVM with shutdown hooks.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import uvloop

from broker.banner import BannerFacts, banner, bootstrap_server
from broker.dependencies import Dependencies
from broker.network.listening.host_name import own_host_name
from broker.observability.http import HttpServer
from broker.observability.logging_setup import report_refusal
from broker.server import Broker
from broker.start_options import VERSION, StartOptions
from config.errors import ConfigError
from config.unknown_settings import unknown_settings
from metadata.features import UnsupportedFeaturesError
from metadata.store.embedded import EmbeddedStore
from metadata.store.port import StoreError
from metadata.store.registration import BrokerIdTakenError
from metadata.store.store_file import FILE_NAME, StoreFileError
from protocol.errors import KafkaError
from runtime.clock import Clock, SystemClock
from runtime.command_line.output import discard_output
from runtime.disk.os_disk_queue import OsDisk
from runtime.disk.os_filesystem import OsFileSystem
from runtime.error_texts import reason_of
from runtime.network.os_transport import OsNetwork, SocketOptions
from runtime.os_documents import OsDocuments
from runtime.process.os_descriptors import fill_standard_descriptors
from runtime.process.os_limits import last_descriptor_to_connect, raise_open_files_limit
from runtime.process.os_memory import allocating_permanent_objects, keep_freed_buffers
from runtime.process.os_notify_socket import NotifySocket, notify_socket, watchdog_s
from runtime.process.os_threads import OsThreads
from runtime.process.process_life import HANG_MS, end_hung_process
from runtime.process.service_notices import ServiceNotices
from runtime.process.stop_signals import StopSignals
from runtime.randomness import system_randomness
from runtime.tls.stream import TlsWork
from runtime.watchdog import Watchdog
from storage.directories.log_directory import DirectoryRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.network.faults.fault_table import FaultTable
    from broker.owner_socket import OwnerSocket
    from config.broker import BrokerSettings
    from metadata.store.port import Store
    from runtime.disk.disk_queue import DiskQueue
    from runtime.tasks import TaskScope

logger = logging.getLogger(__name__)

EXIT_FAILED = 1
# Kafka's 50 is too few for one event loop that also serves: of many clients that reconnect after a restart, some would lose
# their first packet and retry after a second. A configured value is used as it is.
DEFAULT_BACKLOG = 1024
# A handshake waits for nothing but a core; two of them take no more than the loop leaves.
TLS_HANDSHAKE_THREADS = 2
TLS_WRITE_THREADS = 4
_START_REFUSALS = (
    DirectoryRefused, StoreFileError, StoreError, BrokerIdTakenError, UnsupportedFeaturesError, KafkaError, OSError,
)  # fmt: skip


def run(settings: BrokerSettings, options: StartOptions, started_ms: int) -> int:
    """Run a broker until a signal, and return the exit code. `started_ms` is on the monotonic clock. Raises ConfigError."""
    fill_standard_descriptors()
    keep_freed_buffers()
    last_descriptor = last_descriptor_to_connect(raise_open_files_limit())
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(BrokerProcess(settings, options, started_ms).serve(last_descriptor))
    except ConfigError as error:
        raise ConfigError(settings.provided.hide(str(error)), valid=error.valid) from None


def _tls_threads() -> tuple[OsThreads, OsThreads]:
    """Return the threads for handshakes, and those for large writes. None has started yet."""
    loop = asyncio.get_running_loop()
    return OsThreads(loop, TLS_HANDSHAKE_THREADS, "TLS handshake"), OsThreads(loop, TLS_WRITE_THREADS, "TLS write")


class BrokerProcess:
    """Runs one broker once."""

    def __init__(
        self, settings: BrokerSettings, options: StartOptions, started_ms: int, clock: Clock | None = None
    ) -> None:
        self._settings = settings
        self._options = options
        self._started_ms = started_ms
        self._clock = clock or SystemClock()
        self._stop = asyncio.Event()
        self._failure: str | None = None
        self._broker: Broker | None = None
        self._signals = StopSignals(
            self._clock,
            on_stop=self._on_stop_signal,
            on_reload=self._reopen_log_files,
            on_second=_end_at_once,
            is_stopping=self._stop.is_set,
        )
        self._refusal: str | None = None
        self._stop_began_ms = started_ms
        self._was_clean = False
        self._notices: ServiceNotices | None = None

    async def serve(self, last_descriptor: int) -> int:
        """Run the broker until a signal, and return the exit code. Connections of clients get file descriptors up to
        `last_descriptor`. Raises ConfigError."""
        self._watch_signals()
        for warning in (*unknown_settings(self._settings), *self._settings.provided.unresolved):
            logger.warning("setting ignored or not resolved: reason=%s", warning)
        if self._settings.without_effect:
            logger.warning(
                "settings without effect, this broker lacks what they configure: settings=%s",
                ", ".join(self._settings.without_effect),
            )
        disk = OsDisk()
        network = OsNetwork(
            SocketOptions(
                backlog=self._backlog(),
                send_buffer_bytes=self._settings.socket_send_buffer_bytes,
                receive_buffer_bytes=self._settings.socket_receive_buffer_bytes,
                last_descriptor=last_descriptor,
            )
        )
        http_network = OsNetwork()  # monitoring may connect even when clients are refused
        tls_threads = _tls_threads()
        documents = OsDocuments(self._clock)
        dependencies = replace(self._dependencies(disk, network), tls_work=TlsWork(*tls_threads), documents=documents)
        faults = self._faults()
        broker = self._broker = Broker(
            self._settings, dependencies, topics=self._options.topics, on_fatal=self._fail, faults=faults
        )
        owner = None if faults is None else self._owner_socket(faults, broker)
        watchdog = Watchdog(hang_ms=self._hang_ms, on_hang=end_hung_process)
        watchdog.start()
        http = self._http_server(broker, dependencies, watchdog)
        manager = notify_socket(os.environ)
        if manager is not None:
            later = asyncio.get_running_loop().call_later
            self._notices = ServiceNotices(manager.send, lambda: broker.phase, later, watchdog_s(os.environ))
            self._notices.start()
        try:
            await self._run(broker, http, http_network)
        finally:
            self._close_notices(manager)
            if owner is not None:
                await owner.close()
            watchdog.close()
            http_network.close()
            await network.drain()  # the files that they send from are closed by the disk's threads
            network.close()
            for threads in tls_threads:
                threads.close()
            documents.close()
            await disk.close()
        return self._report_stopped()

    def _faults(self) -> FaultTable | None:
        """Return the faults that a test may inject; None without `owner_fd`."""
        if self._options.owner_fd < 0:
            return None
        from broker.handlers import ALL  # noqa: PLC0415  for tests alone
        from broker.network.faults.fault_table import FaultTable  # noqa: PLC0415

        return FaultTable(ALL)

    def _owner_socket(self, faults: FaultTable, broker: Broker) -> OwnerSocket:
        from broker.owner_socket import OwnerSocket  # noqa: PLC0415  for tests alone

        return OwnerSocket(self._options.owner_fd, faults, broker, asyncio.get_running_loop())

    def _http_server(self, broker: Broker, dependencies: Dependencies, watchdog: Watchdog) -> HttpServer | None:
        if self._settings.barnabas_http_port is None:
            return None
        return HttpServer(broker, dependencies.filesystem, dependencies.clock, watchdog.times)

    def _dependencies(self, disk: OsDisk, network: OsNetwork) -> Dependencies:
        """Make the dependencies of a broker. Raises ConfigError."""
        randomness, filesystem = system_randomness(), OsFileSystem()
        if self._settings.zookeeper_connect is None:
            open_store = partial(open_embedded_store, on_failed=self._on_store_failed)
            host_name = own_host_name(self._settings)
            return Dependencies(self._clock, randomness, filesystem, disk, network, open_store, host_name)
        from broker.cluster.zookeeper_setup import zookeeper_dependencies  # noqa: PLC0415  see there

        return zookeeper_dependencies(self._settings, self._clock, randomness, filesystem, disk, network)

    @property
    def _hang_ms(self) -> int:
        """How long the event loop may be blocked. In a cluster at most the session timeout: then the broker counts as dead."""
        if self._settings.zookeeper_connect is None:
            return HANG_MS
        return min(self._settings.zookeeper_session_timeout_ms, HANG_MS)

    def _backlog(self) -> int:
        if "socket.listen.backlog.size" in self._settings.given:
            return self._settings.socket_listen_backlog_size
        return DEFAULT_BACKLOG

    async def _run(self, broker: Broker, http: HttpServer | None, http_network: OsNetwork) -> None:
        try:
            if http is not None:
                port = self._settings.barnabas_http_port
                assert port is not None
                await http.start(http_network, self._settings.barnabas_http_host, port)
            starting = asyncio.ensure_future(broker.start())  # noqa: TID251  the process's own, awaited below
            stopped = asyncio.ensure_future(self._stop.wait())  # noqa: TID251  likewise
            with allocating_permanent_objects():
                await asyncio.wait((starting, stopped), return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                starting.cancel()
                await asyncio.wait((starting,))
            else:
                starting.result()
                self._report_ready(broker, http)
            await stopped
        except _START_REFUSALS as error:
            self._refusal = reason_of(error) if isinstance(error, OSError) else str(error)
        finally:
            self._stop_began_ms = self._clock.monotonic_ms()
            if self._notices is not None:
                self._notices.stopping()
            if http is not None:
                await http.stop()
            self._was_clean = await broker.stop()

    def _close_notices(self, manager: NotifySocket | None) -> None:
        if self._notices is not None and manager is not None:
            self._notices.close()
            manager.close()

    # --- ready ---

    def _report_ready(self, broker: Broker, http: HttpServer | None) -> None:
        took_ms = self._clock.monotonic_ms() - self._started_ms
        logger.info("broker ready: broker=%d cluster=%s duration_ms=%d", broker.broker_id, broker.cluster_id, took_ms)
        if self._options.show_banner:
            facts = BannerFacts(
                version=VERSION,
                cluster_id=broker.cluster_id,
                broker_id=broker.broker_id,
                plans=broker.plans,
                bound=broker.bound,
                log_directories=[os.path.abspath(path) for path in broker.logs.online_directories],
                http=None if http is None else http.address,
                took_ms=took_ms,
            )
            _show(banner(facts))
        if self._options.ready_fd >= 0:
            facts_by_name = {
                "bootstrap_servers": bootstrap_server(broker.plans[0], broker.bound),
                "cluster_id": broker.cluster_id,
                "broker_id": broker.broker_id,
                "http": None if http is None else f"{http.address.host}:{http.address.port}",
            }
            os.write(self._options.ready_fd, json.dumps(facts_by_name).encode() + b"\n")
            os.close(self._options.ready_fd)
        if self._notices is not None:
            self._notices.ready()

    # --- the end ---

    def _report_stopped(self) -> int:
        """Say how the broker has stopped, or why it has not started, and return the exit code."""
        if self._refusal is not None:
            report_refusal(self._refusal)
            return EXIT_FAILED
        took_ms = self._clock.monotonic_ms() - self._stop_began_ms
        if self._failure is None:
            logger.info("broker stopped: clean_shutdown=%s duration_ms=%d", self._was_clean, took_ms)
            return 0
        logger.critical(
            "broker stopped, it could not continue: clean_shutdown=%s duration_ms=%d reason=%s",
            self._was_clean, took_ms, self._failure,
        )  # fmt: skip
        return EXIT_FAILED

    def _watch_signals(self) -> None:
        self._signals.watch(asyncio.get_running_loop())

    def _on_stop_signal(self, number: signal.Signals) -> None:
        logger.info("broker stops: signal=%s", number.name)
        self._stop.set()

    def _reopen_log_files(self) -> None:
        if self._broker is None or not self._broker.reopen_log_files():
            logger.info("signal ignored, there is no log file to open anew: signal=%s", "SIGHUP")

    def _on_store_failed(self, error: OSError) -> None:
        """Stop the broker: without the store no topic can be created and no leader elected."""
        self._fail(f"the store cannot be written: {reason_of(error)}")

    def _fail(self, reason: str) -> None:
        if self._failure is not None:
            return  # a consequence of the first failure
        logger.critical("broker stops, it cannot continue: reason=%s", reason)
        self._failure = reason
        self._stop.set()


def _end_at_once(number: signal.Signals) -> NoReturn:
    logger.warning("broker stops without shutdown: signal=%s", number.name)
    os._exit(128 + number)


def _show(text: str) -> None:
    """Print `text`. If standard output fails (its disk is full, its reader has ended), log it and continue."""
    try:
        print(text, flush=True)  # noqa: T201  a command's result
    except (OSError, UnicodeError) as error:
        logger.warning("banner not printed: error=%s", reason_of(error))
        discard_output()


async def open_embedded_store(
    directory: str,
    queue: DiskQueue,
    clock: Clock,
    tasks: TaskScope,
    on_failed: Callable[[OSError], None] = lambda error: None,
) -> Store:
    return await EmbeddedStore.open(os.path.join(directory, FILE_NAME), queue, clock, tasks, on_failed)
