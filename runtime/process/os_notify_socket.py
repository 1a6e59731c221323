"""The socket of the service manager: `NOTIFY_SOCKET`, a path or, with a leading `@`, an abstract name of Linux.

Rules: sending never blocks: a manager that does not read gets the notice later. Source: sd_notify(3), sd_watchdog_enabled(3).
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping

logger = logging.getLogger(__name__)

SOCKET_VARIABLE = "NOTIFY_SOCKET"
PERIOD_VARIABLE, PROCESS_VARIABLE = "WATCHDOG_USEC", "WATCHDOG_PID"


class NotifySocket:
    """Sends datagrams to one address."""

    def __init__(self, address: str) -> None:
        """`address` is a path, or an abstract name behind `@`."""
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def send(self, notice: bytes) -> None:
        """Send a notice. Raises OSError."""
        self._socket.sendto(notice, self._address)

    def close(self) -> None:
        self._socket.close()


def notify_socket(environment: Mapping[str, str]) -> NotifySocket | None:
    """Return the socket of the manager that started this process; None without a manager."""
    address = environment.get(SOCKET_VARIABLE, "")
    if not address:
        return None
    if address[0] not in "/@" or len(address) == 1:
        logger.warning("service manager not told, its address is neither a path nor an abstract name: path=%s", address)
        return None
    return NotifySocket(address)


def watchdog_s(environment: Mapping[str, str], process_id: Callable[[], int] = os.getpid) -> float | None:
    """Return the time after which the manager ends a silent process; None if it does not watch this one."""
    period_us = environment.get(PERIOD_VARIABLE, "")
    watched = environment.get(PROCESS_VARIABLE, "")
    if not period_us.isdecimal() or int(period_us) == 0 or (watched and watched != str(process_id())):
        return None
    return int(period_us) / 1_000_000
