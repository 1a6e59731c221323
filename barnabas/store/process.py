"""The life of a store server's process: event loop, file, listeners, signals, and the notice that it serves.

Rules: signals as for a broker (`runtime.process.stop_signals`). A stop in order leaves sessions in the file, for clients that
come back within their timeouts. SIGUSR1 makes a copy of the file, beside it, for a backup. A server whose file
cannot be written any more stops with exit code 1; on a full disk it refuses writes and goes on. One process, no replicas: it
says so when it starts.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import ssl
from typing import NoReturn

import uvloop

from barnabas.store.options import StoreServerOptions, TlsOptions
from config.errors import ConfigError
from metadata.store.committed_tree import CommittedTree
from metadata.store.port import StoreError
from metadata.store.server.authentication import StoreUsers
from metadata.store.server.server import ServedAddress, StoreServer, Tls
from metadata.store.server.service import ServiceOptions
from metadata.store.server.sessions import SessionLimits
from metadata.store.store_file import FILE_NAME, StoreFile, StoreFileError
from runtime.clock import SystemClock
from runtime.command_line.output import print_problem
from runtime.disk.os_disk_queue import OsDiskQueue
from runtime.disk.os_filesystem import OsFileSystem
from runtime.error_texts import reason_of
from runtime.network.os_transport import OsNetwork, SocketOptions
from runtime.network.transport import Address
from runtime.process.os_descriptors import fill_standard_descriptors
from runtime.process.os_limits import last_descriptor_to_connect, raise_open_files_limit
from runtime.process.os_threads import OsThreads
from runtime.process.stop_signals import StopSignals
from runtime.randomness import system_randomness
from runtime.tasks import TaskScope
from runtime.tls.context import TlsMaterial, server_context
from runtime.tls.stream import TlsWork, reason_of_failure
from security.tls.distinguished_name import subject_name
from security.tls.store_settings import StoreSettings, read_certificates, read_keys

COPY_NAME = "barnabas-store.backup.sqlite"
NO_DESCRIPTOR = -1
EXIT_FAILED = 1
BACKLOG = 1024
TLS_THREADS = 2
_VERIFY_MODES = {"need": ssl.CERT_REQUIRED, "want": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}
_VERSIONS = ("TLSv1.2", "TLSv1.3")

logger = logging.getLogger(__name__)


def run(options: StoreServerOptions, ready_fd: int = NO_DESCRIPTOR, *, release: str = "0") -> int:
    """Run a store server until a signal, and return the exit code. When it serves, one line of JSON goes to `ready_fd`, with
    its `address` and, if it has one, its `secure_address`. Raises ConfigError."""
    fill_standard_descriptors()
    last_descriptor = last_descriptor_to_connect(raise_open_files_limit())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(StoreProcess(options, ready_fd, release).serve(last_descriptor))


class StoreProcess:
    """Runs one server once."""

    def __init__(self, options: StoreServerOptions, ready_fd: int, release: str) -> None:
        self._options = options
        self._ready_fd = ready_fd
        self._release = release
        self._clock = SystemClock()
        self._stop = asyncio.Event()
        self._signals = StopSignals(
            self._clock,
            on_stop=self._on_stop_signal,
            on_reload=lambda: logger.info("signal ignored, there is no log file to open anew: signal=%s", "SIGHUP"),
            on_second=_end_at_once,
            is_stopping=self._stop.is_set,
        )
        self._failure: str | None = None
        self._tls_threads: OsThreads | None = None

    async def serve(self, last_descriptor: int) -> int:
        """Raises ConfigError."""
        options, loop = self._options, asyncio.get_running_loop()
        endpoints = self._endpoints(loop)
        self._signals.watch(loop)
        # Before there is a file, there is nothing to copy.
        loop.add_signal_handler(signal.SIGUSR1, lambda: None)
        network = OsNetwork(SocketOptions(backlog=BACKLOG, last_descriptor=last_descriptor))
        path = os.path.join(options.folder, FILE_NAME)
        queue = OsDiskQueue(options.folder, loop)
        clock = self._clock
        try:
            os.makedirs(options.folder, exist_ok=True)
            async with TaskScope("store", self._on_task_failed) as tasks:
                files: list[StoreFile] = []

                def open_file() -> StoreFile:
                    files.append(StoreFile(path))
                    return files[-1]

                tree = await CommittedTree.open(open_file, queue, clock, tasks, self._on_file_failed)
                loop.add_signal_handler(
                    signal.SIGUSR1, lambda: tasks.spawn(self._copy(files[-1], queue), name="copy the store")
                )
                try:
                    server = await StoreServer.open(
                        tree, endpoints, network, clock, system_randomness(), tasks, self._service_options()
                    )
                    self._report_ready(server, tree)
                    await self._stop.wait()
                    await server.close()
                finally:
                    await tree.close()
        except (StoreFileError, StoreError, OSError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else str(error)
            print_problem(f"barnabas: {reason or type(error).__name__}")
            return EXIT_FAILED
        finally:
            await queue.close()
            network.close()
            if self._tls_threads is not None:
                self._tls_threads.close()
        if self._failure is not None:
            logger.critical("store server stopped, it could not continue: reason=%s", self._failure)
            return EXIT_FAILED
        logger.info("store server stopped")
        return 0

    def _service_options(self) -> ServiceOptions:
        options = self._options
        limits = SessionLimits(
            options.tick_ms, options.session_timeout_min_ms, options.session_timeout_max_ms, options.connections_max
        )
        authentication = StoreUsers(
            options.super_digest, options.sasl_passwords, options.sasl_super_user, options.x509_super_user
        )
        shown = (
            ("clientPort", -1 if options.port is None else options.port),
            ("secureClientPort", -1 if options.tls is None else options.tls.port),
            ("dataDir", options.folder),
            ("tickTime", options.tick_ms),
            ("maxClientCnxns", options.connections_max),
            ("minSessionTimeout", limits.negotiated(0)),
            ("maxSessionTimeout", limits.negotiated(2**31 - 1)),
        )
        return ServiceOptions(limits, authentication, options.frame_bytes_max, shown, self._release)

    def _endpoints(self, loop: asyncio.AbstractEventLoop) -> list[ServedAddress]:
        """Raises ConfigError."""
        options = self._options
        endpoints = [] if options.port is None else [ServedAddress(Address(options.host, options.port))]
        if options.tls is not None:
            context = _context(options.tls)
            self._tls_threads = OsThreads(loop, TLS_THREADS, "TLS handshake")
            tls = Tls(context, subject_name, TlsWork(self._tls_threads))
            endpoints.append(ServedAddress(Address(options.tls.host, options.tls.port), tls))
        return endpoints

    def _report_ready(self, server: StoreServer, tree: CommittedTree) -> None:
        addresses = server.addresses
        plain = None if self._options.port is None else str(addresses[0])
        secure = None if self._options.tls is None else str(addresses[-1])
        nodes = len(tree.tree.nodes)
        logger.info("store server ready, one process without replicas: address=%s nodes=%d", plain or secure, nodes)
        if plain is not None and secure is not None:
            logger.info("store server has a port with TLS: address=%s", secure)
        if self._ready_fd >= 0:
            os.write(self._ready_fd, json.dumps({"address": plain, "secure_address": secure}).encode() + b"\n")
            os.close(self._ready_fd)

    async def _copy(self, file: StoreFile, queue: OsDiskQueue) -> None:
        path = os.path.join(self._options.folder, COPY_NAME)
        try:
            await queue.run(lambda: file.copy_to(path))
        except OSError as error:
            logger.error("store not copied: error=%s", reason_of(error))  # noqa: TRY400 (the text says it all)
        else:
            logger.info("store copied: path=%r", path)

    def _on_stop_signal(self, number: signal.Signals) -> None:
        logger.info("store server stops: signal=%s", number.name)
        self._stop.set()

    def _on_file_failed(self, error: OSError) -> None:
        self._fail(f"the store cannot be written: {reason_of(error)}")

    def _on_task_failed(self, name: str, error: BaseException) -> None:
        self._fail(f"{name}: {error!r}")

    def _fail(self, reason: str) -> None:
        self._failure = self._failure or reason
        self._stop.set()


def _end_at_once(number: signal.Signals) -> NoReturn:
    logger.warning("store server stops without shutdown: signal=%s", number.name)
    os._exit(128 + number)


def _context(options: TlsOptions) -> ssl.SSLContext:
    """Raises ConfigError."""
    unknown = [name for name in options.versions if name not in _VERSIONS]
    if unknown:
        raise ConfigError(f"ssl.enabledProtocols={','.join(options.versions)}: {unknown[0]} is not supported")
    read_file = OsFileSystem().read_bytes
    secret, setting = options.key_password, "ssl.keyStore.password"
    keys = read_keys(
        StoreSettings(
            "ssl.keyStore.location",
            options.key_store,
            secret,
            secret,
            password_setting=setting,
            key_password_setting=setting,
        ),
        read_file,
    )
    trusted = None
    if options.trust_store is not None:
        location, setting = "ssl.trustStore.location", "ssl.trustStore.password"
        store = StoreSettings(location, options.trust_store, options.trust_password, password_setting=setting)
        trusted = read_certificates(store, read_file)
    versions = tuple(version for version in _VERSIONS if version in options.versions)
    material = TlsMaterial(keys.as_pem(), trusted, versions, other_keys=keys.other_pems)
    try:
        return server_context(material, _VERIFY_MODES[options.client_auth])
    except ssl.SSLError as error:
        raise ConfigError(f"ssl.keyStore.location={options.key_store}: {reason_of_failure(error)}") from error
