"""The certificate of the page: read from its key store, and again when the file has changed.

Rules: files are read in a thread. New handshakes use the new certificate, open connections go on. One that cannot be used is
logged, and the former stays.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from typing import TYPE_CHECKING, Final

from client.settings.files import read_tls
from client.settings.given import Given
from client.settings.tls import parse_tls
from client.settings.values import SettingsError, TlsSettings
from config.web import PREFIX
from runtime.error_texts import reason_of
from runtime.tls.context import TlsMaterial, replace_keys, server_context

if TYPE_CHECKING:
    from config.web import WebSettings

WATCH_PERIOD_S: Final = 5
logger = logging.getLogger(__name__)


class Certificates:
    """`context` is that of the server for as long as it runs."""

    def __init__(self, settings: WebSettings) -> None:
        """Raises SettingsError."""
        self._tls: TlsSettings = parse_tls(Given(settings.given, PREFIX))
        self._stats = self._stats_of_files()
        self.context = self._context(self._read())

    async def watch(self) -> None:
        """Look after the files until it is cancelled."""
        while True:
            await asyncio.sleep(WATCH_PERIOD_S)
            await self.check()

    async def check(self) -> None:
        """Read the files again, if they have changed."""
        stats = await asyncio.to_thread(self._stats_of_files)
        if stats == self._stats:
            return
        self._stats = stats
        try:
            material = await asyncio.to_thread(self._read)
            self._context(material)  # else half of it would be in use where it does not fit
            replace_keys(self.context, material)
        except (SettingsError, OSError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else str(error)
            logger.warning("certificate not replaced, the former stays: reason=%s", reason)
        else:
            logger.info("certificate replaced")

    def _read(self) -> TlsMaterial:
        """Raises SettingsError."""
        return read_tls(self._tls)

    def _context(self, material: TlsMaterial) -> ssl.SSLContext:
        """Raises SettingsError."""
        if material.keys is None:
            raise SettingsError("barnabas.web.ssl.keystore.location is missing")
        try:
            context = server_context(material, ssl.CERT_NONE)
        except ssl.SSLError as error:
            assert self._tls.keys is not None
            raise SettingsError(f"{self._tls.keys.store.setting}: {error.reason or error}") from error
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _stats_of_files(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(map(_stat, self._tls.files))


def _stat(path: str) -> tuple[int, int, int] | None:
    """Return what changes with a file; None while it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
