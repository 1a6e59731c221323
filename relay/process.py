"""The life of a relay's process: signals, the port of its figures, and the notice that it relays.

Rules: signals and notices are those of `runtime.process.process_life`. A stop lets the transaction that is under way end, and
leaves the group; it takes STOP_S at most. Before the relay is a member there is nothing to end. Exit codes: 0 after a stop, 1
when the relay could not begin or go on, 2 for settings that cannot be used.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import uvloop

from client.event_loop.settings import cluster_client_of, connector_of
from client.settings.values import SettingsError
from protocol.errors import KafkaError
from protocol.records.invalid import InvalidBatch
from relay.metrics import RelayState, samples
from relay.relaying.relay import Relay
from relay.surroundings import RelaySurroundings
from runtime.command_line.exit_codes import EXIT_FAILED, EXIT_USAGE
from runtime.command_line.output import announce, print_problem
from runtime.disk.os_filesystem import OsFileSystem
from runtime.error_texts import reason_of
from runtime.log_setup import log_lines
from runtime.monitoring.exposition import page_text
from runtime.monitoring.http_port import METRICS_TYPE, OK, UNAVAILABLE, HttpPort
from runtime.monitoring.process_text import process_text
from runtime.network.os_transport import OsNetwork
from runtime.process.os_descriptors import fill_standard_descriptors
from runtime.process.os_limits import raise_open_files_limit
from runtime.process.os_threads import OsThreads
from runtime.process.process_life import NO_DESCRIPTOR, ProcessLife, tell
from runtime.tasks import TaskScope

if TYPE_CHECKING:
    from client.event_loop.cluster_client import AsyncClusterClient
    from client.settings.values import ClientSettings
    from config.relay import RelaySettings
    from runtime.network.transport import Address

STOP_S: Final = 12.0
"""More than a session of the relay takes."""
THREADS: Final = 2
TYPES: Final = {b"/metrics": METRICS_TYPE}
METRICS_SETTING: Final = "barnabas.relay.metrics"
logger = logging.getLogger(__name__)


def run(settings: RelaySettings, client: ClientSettings, ready_fd: int = NO_DESCRIPTOR) -> int:
    """Relay until a signal, and return the exit code. `ready_fd` is told in JSON that the relay relays, and where its figures
    are, in place of standard output."""
    fill_standard_descriptors()
    log_lines(settings.barnabas_log_level, settings.barnabas_log_format)
    raise_open_files_limit()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(RelayProcess(settings, client, ready_fd).serve())


class RelayProcess:
    """Runs one relay once."""

    def __init__(self, settings: RelaySettings, client: ClientSettings, ready_fd: int) -> None:
        self._settings = settings
        self._client = client
        self._ready_fd = ready_fd
        self._surroundings = RelaySurroundings()
        self._stopped = asyncio.Event()
        self._life = ProcessLife(
            self._surroundings.clock,
            on_stop=self._stopped.set,
            on_reload=lambda: logger.info("signal ignored, there is no log file to open anew: signal=%s", "SIGHUP"),
            doing=self._doing,
        )
        self._relay: Relay | None = None
        self._http = HttpPort(self._page, TYPES, METRICS_SETTING)
        self._began_ms = self._surroundings.clock.monotonic_ms()

    async def serve(self) -> int:
        """Relay until the process is stopped, and return the exit code."""
        settings = self._settings
        network, threads = OsNetwork(), OsThreads(asyncio.get_running_loop(), THREADS, "logins")
        self._life.begin()
        logger.info("relay starts: group=%s", settings.barnabas_relay_name)
        try:
            if settings.barnabas_relay_metrics_port is not None:
                await self._http.start(
                    network, settings.barnabas_relay_metrics_host, settings.barnabas_relay_metrics_port
                )
            connector = connector_of(self._client, network, self._surroundings.randomness, threads)

            def open_cluster(client_id: str) -> AsyncClusterClient:
                return cluster_client_of(self._client, connector, self._surroundings.randomness, client_id)

            self._relay = Relay(settings, self._surroundings, open_cluster)
            async with TaskScope("relay process", on_failure=self._on_task_failed) as tasks:
                tasks.spawn(self._tell_ready(self._relay), name="notice")
                await self._relay_until_stopped(self._relay, tasks)
        except SettingsError as error:
            print_problem(f"barnabas: {error}")
            return EXIT_USAGE
        except OSError as error:
            print_problem(f"barnabas: {reason_of(error)}")
            return EXIT_FAILED
        finally:
            await self._http.stop()
            self._life.end()
            network.close()
            threads.close()
        logger.info("relay stopped: group=%s", settings.barnabas_relay_name)
        return self._life.exit_code

    async def _relay_until_stopped(self, relay: Relay, tasks: TaskScope) -> None:
        relaying = tasks.spawn(self._relay_on(relay), name="relay")
        stopped = tasks.spawn(self._stopped.wait(), name="stop")
        await asyncio.wait((relaying, stopped), return_when=asyncio.FIRST_COMPLETED)
        relay.stop()
        _, unfinished = await asyncio.wait((relaying,), timeout=STOP_S if relay.session is not None else 0)
        if unfinished:
            relaying.cancel()
            await asyncio.wait((relaying,))

    async def _relay_on(self, relay: Relay) -> None:
        try:
            await relay.run()
        except (KafkaError, OSError, InvalidBatch) as error:
            self._life.fail(reason_of(error) if isinstance(error, OSError) else str(error))

    async def _tell_ready(self, relay: Relay) -> None:
        await relay.began.wait()
        name, address = relay.names.name, self._metrics_address
        took_ms = self._surroundings.clock.monotonic_ms() - self._began_ms
        logger.info("relay ready: group=%s rules=%d duration_ms=%d", name, relay.rules_count, took_ms)
        self._life.ready()
        if self._ready_fd != NO_DESCRIPTOR:
            tell(self._ready_fd, {"name": name, "metrics": None if address is None else str(address)})
            return
        figures = "" if address is None else f"; its figures are at http://{address}/metrics"
        announce(f"The relay {name} has begun{figures}")

    @property
    def _metrics_address(self) -> Address | None:
        return None if self._settings.barnabas_relay_metrics_port is None else self._http.address

    # --- pages ---

    async def _page(self, path: bytes) -> tuple[str, bytes]:
        match path:
            case b"/live":
                return OK, b"live\n"
            case b"/ready":
                is_ready = self._state().is_ready
                return OK if is_ready else UNAVAILABLE, b"ready\n" if is_ready else f"{self._doing()}\n".encode()
            case b"/metrics":
                return OK, self._metrics().encode()
            case _:
                return "404 Not Found", b"there are /metrics, /ready and /live\n"

    def _metrics(self) -> str:
        text = process_text(OsFileSystem())
        if self._relay is not None:
            text += page_text(samples(self._relay.figures, self._state(), self._life.times))
        return text

    def _state(self) -> RelayState:
        relay = self._relay
        if relay is None:
            return RelayState()
        state, session = RelayState(relay.is_ready, relay.rules_count, len(relay.suspended)), relay.session
        if session is None:
            return state
        now_ms = self._surroundings.clock.wall_ms()
        due_ms = session.next_due_ms
        return state._replace(
            partitions=len(session.sources),
            waiting=session.waiting_count,
            troubled=session.troubled_count,
            overdue_s=0 if due_ms is None else max(now_ms - due_ms, 0) / 1000,
        )

    # --- the end ---

    def _doing(self) -> str:
        return "relaying" if self._relay is not None and self._relay.is_ready else "starting"

    def _on_task_failed(self, name: str, error: BaseException) -> None:
        self._life.fail(f"{name} failed: {reason_of(error)}")
