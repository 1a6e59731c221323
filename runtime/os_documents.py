"""The real adapter of `runtime.documents`: files, and HTTP by the standard library, in a thread.

Rules: no proxies, and redirections only of reads, to http or https. Whatever a server sends ends in an OSError, and nothing
of its body is in the error.
"""

from __future__ import annotations

import asyncio

from runtime.clock import Clock
from runtime.documents import DocumentRequest
from runtime.process.os_threads import OsThreads

THREADS = 2


class OsDocuments:
    """`runtime.documents.Documents`. Its threads start when they are needed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._threads: OsThreads | None = None

    async def read(self, request: DocumentRequest) -> bytes:
        loop = asyncio.get_running_loop()
        if self._threads is None:
            self._threads = OsThreads(loop, THREADS, "document")
        future: asyncio.Future[bytes] = loop.create_future()

        def done(content: bytes | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(content or b"")

        def job() -> bytes:
            from runtime.document_reading import read_document  # noqa: PLC0415  many modules, for few brokers

            return read_document(request, self._clock.monotonic_ms)

        self._threads.start(job, done)
        return await future

    def close(self) -> None:
        """Drop requests that have not begun; those that have are not waited for."""
        if self._threads is not None:
            self._threads.close()
            self._threads = None
