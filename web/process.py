"""The life of a web process: its port, its certificate, signals, and the notice that it serves.

Rules: the port is bound before anything else, so that its number is known. Signals and notices are those of
`runtime.process.process_life`; SIGHUP reads the certificate again. Exit codes: 0 after a stop, 1 when it could not start.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING

import uvicorn
import uvloop

from client.settings.values import SettingsError
from runtime.clock import SystemClock
from runtime.command_line.exit_codes import EXIT_FAILED
from runtime.command_line.output import announce, print_problem
from runtime.error_texts import reason_of
from runtime.log_setup import log_lines
from runtime.process.os_descriptors import fill_standard_descriptors
from runtime.process.os_limits import raise_open_files_limit
from runtime.process.process_life import NO_DESCRIPTOR, ProcessLife, tell
from runtime.tasks import TaskScope
from web.application import create_application
from web.certificates import Certificates
from web.serving import STOP_S, ConnectionLimits, LimitedHttp, WebServer, quiet_libraries
from web.surroundings import Surroundings

if TYPE_CHECKING:
    from client.settings.values import ClientSettings
    from config.web import WebSettings

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
        self._life = ProcessLife(SystemClock(), on_stop=self._stop, on_reload=self._reload, doing=self._doing)
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
        self._life.begin()
        if self._certificates is not None:
            self._tasks.spawn(self._certificates.watch(), name="watch of the certificate")
        try:
            await server.serve([listener])
        finally:
            await self._tasks.close()
            self._life.end()
        logger.info("web process stopped")
        return self._life.exit_code

    def _tell(self, address: str, base_uri: str) -> None:
        logger.info("web process ready: base_uri=%s", base_uri)
        self._life.ready()
        if self._ready_fd == NO_DESCRIPTOR:
            announce(f"The page is at {base_uri}/ui/")
            return
        tell(self._ready_fd, {"address": address, "base_uri": base_uri})

    def _reload(self) -> None:
        if self._certificates is not None:
            self._tasks.spawn(self._certificates.check(), name="new certificate")

    def _on_task_failed(self, name: str, error: BaseException) -> None:
        self._life.fail(f"{name} failed: {reason_of(error)}")

    def _stop(self) -> None:
        self._server.should_exit = True

    def _doing(self) -> str:
        return "serving" if self._server.started else "starting"


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
