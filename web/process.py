"""Runs the web process: binds its port, serves until a signal, says where it is.

Rules: the port is bound before anything else, so that its number is known. Exit code 0 after a stop, 1 when it could not start.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from typing import TYPE_CHECKING, Final

import uvicorn

from runtime.command_line.output import print_problem
from web.application import create_application
from web.surroundings import Surroundings

if TYPE_CHECKING:
    from client.settings.values import ClientSettings
    from config.web import WebSettings

NO_DESCRIPTOR: Final = -1
STOP_S: Final = 5


def run(settings: WebSettings, client: ClientSettings, ready_fd: int = NO_DESCRIPTOR) -> int:
    """Serve until SIGINT or SIGTERM, and return the exit code. `ready_fd` is told in JSON where the page is."""
    try:
        listener = _listen(settings.barnabas_web_host, settings.barnabas_web_port)
    except OSError as error:
        print_problem(
            f"barnabas: cannot listen on barnabas.web.host={settings.barnabas_web_host}, "
            f"barnabas.web.port={settings.barnabas_web_port}: {error.strerror}"
        )
        return 1
    host, port = listener.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    base_uri = settings.barnabas_web_base_uri or address
    config = uvicorn.Config(
        create_application(settings, client, Surroundings(), base_uri),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=STOP_S,
    )
    _tell(ready_fd, {"address": address, "base_uri": base_uri})
    print_problem(f"The page is at {base_uri}/ui/")
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(
            each, lambda *_: None
        )  # uvicorn raises the signal again once it has stopped: a stop is no failure
    uvicorn.Server(config).run(sockets=[listener])
    return 0


def _listen(host: str, port: int) -> socket.socket:
    """Raises OSError."""
    [family, kind, protocol, _, address], *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


def _tell(descriptor: int, what: dict[str, str]) -> None:
    if descriptor == NO_DESCRIPTOR:
        return
    with os.fdopen(descriptor, "w", encoding="utf-8") as ready:
        ready.write(json.dumps(what) + "\n")
