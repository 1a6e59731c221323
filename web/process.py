"""The life of a web process: its port, its certificate, signals, and the notice that it serves.

Rules: the port is bound before anything else, so that its number is known. Signals stop it in order, as
`runtime.process.stop_signals` says; SIGHUP reads the certificate again. A service manager that listens on NOTIFY_SOCKET is told
when it serves, and when the stop begins. Exit codes: 0 after a stop, 1 when it could not start.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
from typing import TYPE_CHECKING, Final, NoReturn

import uvicorn
import uvloop

from client.settings.values import SettingsError
from runtime.clock import SystemClock
from runtime.command_line.exit_codes import EXIT_FAILED
from runtime.command_line.output import print_problem, print_result
from runtime.error_texts import reason_of
from runtime.log_setup import log_lines
from runtime.process.os_descriptors import fill_standard_descriptors
from runtime.process.os_limits import raise_open_files_limit
from runtime.process.os_notify_socket import notify_socket, watchdog_s
from runtime.process.service_notices import ServiceNotices
from runtime.process.stop_signals import StopSignals
from runtime.tasks import TaskScope
from runtime.watchdog import Watchdog
from web.application import create_application
from web.certificates import Certificates
from web.serving import STOP_S, ConnectionLimits, LimitedHttp, WebServer, quiet_libraries
from web.surroundings import Surroundings

if TYPE_CHECKING:
    from client.settings.values import ClientSettings
    from config.web import WebSettings

NO_DESCRIPTOR: Final = -1
# An event loop that is blocked this long is considered hung, and the process ends so that it can be restarted.
HANG_MS: Final = 60_000
logger = logging.getLogger(__name__)


def run(settings: WebSettings, client: ClientSettings, ready_fd: int = NO_DESCRIPTOR) -> int:
    """Serve until a signal, and return the exit code. `ready_fd` is told in JSON where the page is, in place of standard
    output."""
    fill_standard_descriptors()
    log_lines(settings.barnabas_log_level, settings.barnabas_log_format)
    quiet_libraries()
    raise_open_files_limit()
    try:
        listener = _listen(settings.barnabas_web_host, settings.barnabas_web_port)
    except OSError as error:
        print_problem(
            f"barnabas: cannot listen on barnabas.web.host={settings.barnabas_web_host}, "
            f"barnabas.web.port={settings.barnabas_web_port}: {reason_of(error)}"
        )
        return EXIT_FAILED
    with listener:
        try:
            certificates = Certificates(settings) if settings.has_tls else None
        except SettingsError as error:
            print_problem(f"barnabas: {error}")
            return EXIT_FAILED
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_Process(settings, client, certificates, ready_fd).serve(listener))


class _Process:
    def __init__(
        self, settings: WebSettings, client: ClientSettings, certificates: Certificates | None, ready_fd: int
    ) -> None:
        self._settings = settings
        self._client = client
        self._certificates = certificates
        self._ready_fd = ready_fd
        self._exit_code = 0
        self._notices: ServiceNotices | None = None
        self._tasks = TaskScope("web process", on_failure=self._on_task_failed)

    async def serve(self, listener: socket.socket) -> int:
        address = _address_of(listener, self._settings)
        base_uri = self._settings.base_uri(listener.getsockname()[1])
        application = create_application(self._settings, self._client, Surroundings(), base_uri)
        config = uvicorn.Config(
            application,
            http=LimitedHttp,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=self._settings.barnabas_web_connections_max_idle_ms // 1000,
            timeout_graceful_shutdown=STOP_S,
        )
        self._server = server = WebServer(
            config,
            lambda: self._tell(address, base_uri),
            limits=ConnectionLimits.of(self._settings),
            context=None if self._certificates is None else self._certificates.context,
            tasks=self._tasks,
        )
        StopSignals(
            SystemClock(),
            on_stop=self._on_stop_signal,
            on_reload=self._reload,
            on_second=_end_at_once,
            is_stopping=lambda: server.should_exit,
        ).watch(asyncio.get_running_loop())
        if self._certificates is not None:
            self._tasks.spawn(self._certificates.watch(), name="watch of the certificate")
        watchdog = Watchdog(hang_ms=HANG_MS, on_hang=_end_hung_process)
        watchdog.start()
        manager = notify_socket(os.environ)
        if manager is not None:
            later = asyncio.get_running_loop().call_later
            self._notices = ServiceNotices(manager.send, self._doing, later, watchdog_s(os.environ))
            self._notices.start()
        try:
            await server.serve([listener])
        finally:
            watchdog.close()
            await self._tasks.close()
            if self._notices is not None and manager is not None:
                self._notices.close()
                manager.close()
        logger.info("web process stopped")
        return self._exit_code

    def _tell(self, address: str, base_uri: str) -> None:
        logger.info("web process ready: base_uri=%s", base_uri)
        if self._notices is not None:
            self._notices.ready()
        if self._ready_fd == NO_DESCRIPTOR:
            print_result(f"The page is at {base_uri}/ui/")
            return
        with os.fdopen(self._ready_fd, "w", encoding="utf-8") as ready:
            ready.write(json.dumps({"address": address, "base_uri": base_uri}) + "\n")

    def _on_stop_signal(self, number: signal.Signals) -> None:
        logger.info("web process stops: signal=%s", number.name)
        self._stop()

    def _reload(self) -> None:
        if self._certificates is not None:
            self._tasks.spawn(self._certificates.check(), name="new certificate")

    def _on_task_failed(self, name: str, error: BaseException) -> None:
        logger.critical("web process stops, it cannot continue: reason=%s", f"{name} failed: {reason_of(error)}")
        self._exit_code = EXIT_FAILED
        self._stop()

    def _stop(self) -> None:
        self._server.should_exit = True
        if self._notices is not None:
            self._notices.stopping()

    def _doing(self) -> str:
        if self._server.should_exit:
            return "stopping"
        return "serving" if self._server.started else "starting"


def _end_at_once(number: signal.Signals) -> NoReturn:
    logger.warning("web process stops without answering: signal=%s", number.name)
    os._exit(128 + number)


def _end_hung_process(blocked_ms: int) -> NoReturn:
    """End the process. Called in the watchdog's thread, because the event loop is blocked."""
    logger.critical("event loop hangs, the process ends: duration_ms=%d", blocked_ms)
    os._exit(EXIT_FAILED)


def _address_of(listener: socket.socket, settings: WebSettings) -> str:
    host, port = listener.getsockname()[:2]
    return f"{'https' if settings.has_tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def _listen(host: str, port: int) -> socket.socket:
    """Raises OSError."""
    [family, kind, protocol, _, address], *_ = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # accepted connections have it, too
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener
