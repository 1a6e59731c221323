"""The life of the command that starts several brokers: forks them, and looks after them until a signal.

    store serves -> all brokers start at once -> all serve: web process and relay start; banner, notice to the service
    manager -> ... -> SIGTERM: the relay stops -> brokers and web process stop in order, side by side -> the store stops -> the
    command ends

Rules: a process that ends is started again, after a pause if it keeps ending (`restarts`); a broker that could not start at
all (exit code 1 or 2 before it ever served), and a store that could not, end the command with their lines. Nobody waits for
what is beside the brokers (web process, relay), and its end is nobody else's: it is started again, but for settings that it has
refused. With a control
channel brokers are not started again by themselves: its owner decides. Signals as for one broker
(`runtime.process.stop_signals`), which the children do not get from a terminal; SIGHUP is passed on. Children end with this
process, however it ends. One thread, asyncio's own loop; forks are made between two turns of it (`child`).
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from barnabas.supervisor.banner import Row, banner, bootstrap_servers
from barnabas.supervisor.broker_requests import BrokerRequests
from barnabas.supervisor.child import fork
from barnabas.supervisor.control import ControlChannel, ControlError
from barnabas.supervisor.http_pages import TYPES, HttpPages, numeric_address
from barnabas.supervisor.merged_log import LogOutput
from barnabas.supervisor.restarts import FIRST_PAUSE_MS
from barnabas.supervisor.supervised_process import SupervisedProcess
from broker.start_options import VERSION
from runtime.clock import Clock
from runtime.command_line.output import discard_output
from runtime.disk.os_filesystem import OsFileSystem
from runtime.error_texts import reason_of
from runtime.monitoring.http_port import HttpPort
from runtime.network.os_transport import OsNetwork
from runtime.network.transport import Address
from runtime.process.os_notify_socket import NotifySocket, notify_socket, watchdog_s
from runtime.process.service_notices import ServiceNotices
from runtime.process.stop_signals import StopSignals
from runtime.tasks import TaskScope

logger = logging.getLogger(__name__)

EXIT_FAILED = 1
_STARTING_REFUSED = (1, 2)
_SETTINGS_REFUSED = 2
CREATE_TOPIC = "create_topic"
PASSED_ON = frozenset({"inject", "clear_faults", "faults_left", "await_metadata", "create_acls", CREATE_TOPIC})
"""Requests that the brokers carry out (`broker.owner_socket`)."""
NO_DESCRIPTOR = -1


@dataclass(frozen=True, slots=True)
class Plan:
    """What the command does. `pages` are the HTTP ports of the brokers, `http` is its own, `directories` are those of the data.
    `hints` are lines of the banner about data that has moved, `has_login` says that clients need more than an address. `beside`
    are the rows of the processes beside the brokers, without process ids, `page` is where the web process is reached."""

    http: Address | None = None
    pages: Sequence[Address] = ()
    directories: Sequence[str] = ()
    hints: Sequence[str] = ()
    show_banner: bool = True
    has_login: bool = False
    beside: Sequence[Row] = ()
    page: str | None = None
    control_fd: int = NO_DESCRIPTOR
    ready_fd: int = NO_DESCRIPTOR
    discard: str | None = None
    began_ms: int = 0


class Supervisor:
    """Runs the brokers once. `run` blocks until the end and returns the exit code."""

    def __init__(self, plan: Plan, clock: Clock) -> None:
        self._plan = plan
        self._clock = clock
        self._loop = asyncio.SelectorEventLoop()
        self.log = LogOutput(sys.stderr.fileno(), self._loop)
        self._to_fork: list[tuple[SupervisedProcess, asyncio.Future[None]]] = []
        self._store: SupervisedProcess | None = None
        self._brokers: list[SupervisedProcess] = []
        self._companions: list[SupervisedProcess] = []
        self._stop = asyncio.Event()
        self._exit_code = 0
        self._phase = "starting"
        self._tasks = TaskScope("supervisor", on_failure=self._on_task_failed)
        self._control: ControlChannel | None = None
        self._requests: dict[SupervisedProcess, BrokerRequests] = {}

    def begin_store(self, store: SupervisedProcess) -> None:
        """Fork the store server before `run`. Raises OSError."""
        self._store = store
        store.began(fork(store.name, store.run, with_owner=False), self._clock.monotonic_ms(), self._loop)

    def run(self, brokers: Sequence[SupervisedProcess], companions: Sequence[SupervisedProcess] = ()) -> int:
        """Raises OSError if the HTTP port cannot be opened."""
        self._brokers = list(brokers)
        self._companions = list(companions)
        gc.freeze()  # what children inherit is never visited, and its memory stays shared
        gc.enable()
        life = self._loop.create_task(self._live())
        life.add_done_callback(lambda _: self._loop.stop())
        while not life.done():
            self._loop.run_forever()
            self._fork_what_waits()
        self.log.close()
        self._loop.close()
        return life.result()

    def _fork_what_waits(self) -> None:
        """Fork, while the loop stands still."""
        waiting, self._to_fork = self._to_fork, []
        for member, forked in waiting:
            if forked.cancelled() or self._stop.is_set():
                forked.cancel()
                continue
            try:
                has_owner = self._control is not None and member not in self._companions
                child = fork(member.name, member.run, with_owner=has_owner)
            except OSError as error:
                forked.set_exception(error)
                continue
            member.began(child, self._clock.monotonic_ms(), self._loop)
            if child.owner is not None:
                self._requests[member] = BrokerRequests(child.owner)
            forked.set_result(None)

    async def _live(self) -> int:
        self._watch_signals()
        http = await self._open_http()
        manager = notify_socket(os.environ)
        notices = self._notices(manager)
        if self._plan.control_fd >= 0:
            self._control = ControlChannel(self._plan.control_fd, self._carry_out, self._on_owner_gone, self._tasks)
            self._control.start()
        try:
            self._tasks.spawn(self._start_all(notices), name="start")
            await self._stop.wait()
        finally:
            self._phase = "stopping"
            if notices is not None:
                notices.stopping()
            await self._end_all()
            if http is not None:
                await http.stop()
            await self._tasks.close()
            if notices is not None and manager is not None:
                notices.close()
                manager.close()
        return self._exit_code

    # --- start ---

    async def _start_all(self, notices: ServiceNotices | None) -> None:
        if self._store is not None:
            await self._store.ready.wait()
        for member in self._brokers:
            await self._start(member)
        for member in self._brokers:
            await member.ready.wait()
        for member in self._companions:  # from now on they take no time from brokers that start
            await self._start_companion(member)
        self._phase = "serving"
        self._report_ready()
        if notices is not None:
            notices.ready()

    async def _start_companion(self, member: SupervisedProcess) -> None:
        try:
            await self._start(member)
        except OSError as error:  # which is nobody else's
            pause_ms = FIRST_PAUSE_MS
            logger.warning(
                "process not started, it is tried again: name=%s pause_ms=%d error=%s",
                member.name, pause_ms, reason_of(error),
            )  # fmt: skip
            self._tasks.spawn(self._start_again(member, pause_ms), name=f"start of {member.name}")

    async def _start(self, member: SupervisedProcess) -> None:
        """Fork the member's process. Raises OSError."""
        forked: asyncio.Future[None] = self._loop.create_future()
        self._to_fork.append((member, forked))
        self._loop.stop()
        await forked

    def _report_ready(self) -> None:
        rows = self._rows()
        facts = self._brokers[0].facts or {}
        took_ms = self._clock.monotonic_ms() - self._plan.began_ms
        own = None if self._plan.http is None else str(self._plan.http)
        is_lone = self._store is None and len(rows) == 1
        logger.info("brokers ready: brokers=%d cluster=%s duration_ms=%d", len(rows), facts.get("cluster_id"), took_ms)
        told = {
            "bootstrap_servers": bootstrap_servers(rows),
            "cluster_id": facts.get("cluster_id"),
            "http": facts.get("http") if is_lone else own,
            "page": self._plan.page,
            "brokers": [self._row_for_owner(member) for member in self._brokers],
        }
        if self._control is not None:
            self._control.tell("ready", **told)
        if self._plan.ready_fd >= 0:
            with os.fdopen(self._plan.ready_fd, "w") as ready:
                ready.write(json.dumps(told) + "\n")
        if self._plan.show_banner:
            if self._store is not None and self._store.facts is not None:
                rows.append(Row("store", self._store.facts["address"], None, self._store.process_id))
            rows += [
                replace(row, process_id=member.process_id)
                for row, member in zip(self._plan.beside, self._companions, strict=True)
                if member.child is not None
            ]
            cluster_id = str(facts.get("cluster_id"))
            _show(
                banner(
                    VERSION,
                    cluster_id,
                    rows,
                    own,
                    self._plan.directories,
                    took_ms,
                    self._plan.hints,
                    has_login=self._plan.has_login,
                    page=self._plan.page,
                )
            )

    def _rows(self) -> list[Row]:
        return [
            Row(
                f"broker {member.broker_id}", member.facts["bootstrap_servers"], member.facts["http"], member.process_id
            )
            for member in self._brokers
            if member.facts is not None
        ]

    def _row_for_owner(self, member: SupervisedProcess) -> dict[str, Any]:
        facts = member.facts or {}
        return {
            "broker": member.broker_id,
            "bootstrap_server": facts.get("bootstrap_servers"),
            "http": facts.get("http"),
            "process_id": member.process_id if member.child is not None else None,
            "log": None,
        }

    async def _open_http(self) -> HttpPort | None:
        """Raises OSError."""
        if self._plan.http is None:
            return None
        pages = HttpPages(self._brokers, [numeric_address(address) for address in self._plan.pages])
        http = HttpPort(pages.page, TYPES)
        await http.start(OsNetwork(sending_threads=0), self._plan.http.host, self._plan.http.port)
        await self._loop.shutdown_default_executor()  # which may have looked the name up
        return http

    def _notices(self, manager: NotifySocket | None) -> ServiceNotices | None:
        if manager is None:
            return None
        notices = ServiceNotices(manager.send, self._doing, self._loop.call_later, watchdog_s(os.environ))
        notices.start()
        return notices

    def _doing(self) -> str:
        serving = sum(member.facts is not None for member in self._brokers)
        return f"{self._phase}, {serving} of {len(self._brokers)} brokers"

    # --- the end of a process ---

    def _members(self) -> list[SupervisedProcess]:
        return [*self._brokers, *self._companions, *([] if self._store is None else [self._store])]

    def _reap(self) -> None:
        """Take in what has become of the processes."""
        for member in self._members():
            while member.child is not None:
                process_id, status = os.waitpid(member.child.process_id, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
                if not process_id:
                    break
                if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
                    (member.paused.set if os.WIFSTOPPED(status) else member.paused.clear)()
                    continue
                self._on_ended(member, os.waitstatus_to_exitcode(status))

    def _on_ended(self, member: SupervisedProcess, exit_code: int) -> None:
        lived_ms = self._clock.monotonic_ms() - member.started_ms
        was_wanted = member.is_stopping
        self._requests.pop(member, None)
        member.ended(exit_code)
        if self._stop.is_set() or was_wanted:
            return
        is_beside = member in self._companions
        if is_beside and exit_code == _SETTINGS_REFUSED:
            logger.error("process not started, its own lines say why: name=%s exit_code=%d", member.name, exit_code)
        elif not is_beside and not member.has_served and exit_code in _STARTING_REFUSED:
            logger.critical("process not started, its own lines say why: name=%s exit_code=%d", member.name, exit_code)
            self._end(exit_code)
        elif self._control is not None and member.broker_id is not None:
            if not member.has_served:
                self._end(EXIT_FAILED)
            self._control.tell("ended", broker=member.broker_id, exit_code=exit_code)
        else:
            pause_ms = member.pauses.after(lived_ms)
            logger.warning(
                "process ended and is started again: name=%s exit_code=%d pause_ms=%d", member.name, exit_code, pause_ms
            )
            member.restarts += 1
            self._tasks.spawn(self._start_again(member, pause_ms), name=f"restart of {member.name}")

    async def _start_again(self, member: SupervisedProcess, pause_ms: int) -> None:
        while True:
            await asyncio.sleep(pause_ms / 1000)
            try:
                await self._start(member)
                break
            except OSError as error:  # no memory, or no process, is left for now
                pause_ms = member.pauses.after(0)
                logger.warning(
                    "process not started, it is tried again: name=%s pause_ms=%d error=%s",
                    member.name, pause_ms, reason_of(error),
                )  # fmt: skip
        logger.info("process started again: name=%s process_id=%d", member.name, member.process_id)

    # --- stop ---

    def _end(self, exit_code: int) -> None:
        self._exit_code = self._exit_code or exit_code
        self._stop.set()

    async def _end_all(self) -> None:
        """End what needs the brokers for its stop, then them in order, with what else is beside them side by side, then the
        store, which brokers need for it."""
        ahead = [member for member in self._companions if member.stop_ahead_s]
        self._signal_stop(ahead)
        for member in ahead:
            with suppress(TimeoutError):
                async with asyncio.timeout(member.stop_ahead_s):
                    await member.gone.wait()
        for group in ([*self._brokers, *self._companions], [] if self._store is None else [self._store]):
            self._signal_stop(group)
            for member in group:
                await member.gone.wait()

    @staticmethod
    def _signal_stop(members: Iterable[SupervisedProcess]) -> None:
        for member in members:
            member.signal(signal.SIGTERM)
            member.signal(signal.SIGCONT)

    def _watch_signals(self) -> None:
        StopSignals(
            self._clock,
            on_stop=self._on_stop_signal,
            on_reload=lambda: self._signal_brokers(signal.SIGHUP),
            on_second=self._end_at_once,
            is_stopping=self._stop.is_set,
        ).watch(self._loop)
        self._loop.add_signal_handler(signal.SIGCHLD, self._reap)
        self._loop.call_soon(self._reap)  # the store may have ended meanwhile

    def _on_stop_signal(self, number: signal.Signals) -> None:
        logger.info("brokers stop: signal=%s", number.name)
        self._end(0)

    def _signal_brokers(self, number: signal.Signals) -> None:
        for member in self._brokers:
            member.signal(number)

    def _end_at_once(self, number: signal.Signals) -> NoReturn:
        logger.warning("brokers stop without shutdown: signal=%s", number.name)
        self._kill_all()
        self.log.close()
        os._exit(128 + number)

    def _kill_all(self) -> None:
        for member in self._members():
            member.signal(signal.SIGKILL)

    def _on_owner_gone(self) -> None:
        """End everything: the program that has started the command has ended."""
        self._kill_all()
        for member in self._members():
            if member.child is not None:
                os.waitpid(member.child.process_id, 0)
        if self._plan.discard is not None:
            OsFileSystem().remove_tree(self._plan.discard)
        os._exit(0)

    def _on_task_failed(self, name: str, error: BaseException) -> None:
        logger.critical("brokers stop, the command cannot continue: reason=%s", f"{name} failed: {reason_of(error)}")
        self._end(EXIT_FAILED)

    # --- requests of the owner ---

    async def _carry_out(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Raises ControlError."""
        actions: dict[str, Callable[[SupervisedProcess], Any]] = {
            "kill": self._kill,
            "stop": self._stop_one,
            "restart": self._restart,
            "pause": self._pause,
            "resume": self._resume,
        }
        action = request["do"]
        if action in PASSED_ON:
            return await self._pass_on(request)
        if action not in actions:
            raise ControlError(f"unknown request {action!r}")
        answer: Mapping[str, Any] | None = await actions[action](self._asked_for(request["broker"]))
        return answer or {}

    def _asked_for(self, broker_id: Any) -> SupervisedProcess:
        for member in self._brokers:
            if member.broker_id == broker_id:
                return member
        there = ", ".join(str(member.broker_id) for member in self._brokers)
        raise ControlError(f"there is no broker {broker_id}; there are {there}")

    async def _kill(self, member: SupervisedProcess) -> None:
        member.is_stopping = True
        member.signal(signal.SIGKILL)
        await member.gone.wait()

    async def _stop_one(self, member: SupervisedProcess) -> None:
        member.is_stopping = True
        member.signal(signal.SIGTERM)
        member.signal(signal.SIGCONT)
        await member.gone.wait()

    async def _restart(self, member: SupervisedProcess) -> Mapping[str, Any]:
        await self._stop_one(member)
        member.is_stopping = False
        await self._start(member)
        member.restarts += 1
        told = [self._tasks.spawn(event.wait(), name="a restart") for event in (member.ready, member.gone)]
        await asyncio.wait(told, return_when=asyncio.FIRST_COMPLETED)
        for each in told:
            each.cancel()
        if member.facts is None:
            raise ControlError(f"{member.name} ended with {member.exit_code} before it served")
        return self._row_for_owner(member)

    async def _pause(self, member: SupervisedProcess) -> None:
        self._require_running(member)
        member.signal(signal.SIGSTOP)
        await member.paused.wait()

    async def _resume(self, member: SupervisedProcess) -> None:
        self._require_running(member)
        member.signal(signal.SIGCONT)

    async def _pass_on(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask the broker, or all that run, or one of them for what concerns the whole cluster. Raises ControlError."""
        asked = request.get("broker")
        running = [member for member in self._brokers if member.child is not None and not member.paused.is_set()]
        members = running if asked is None else [self._asked_for(asked)]
        if asked is None and request["do"] == CREATE_TOPIC:
            members = running[:1]
        if not members:
            raise ControlError("no broker runs")
        passed_on = {name: value for name, value in request.items() if name != "broker"}
        answers = []
        for member in members:
            self._require_running(member)
            answers.append(await self._requests[member].ask(passed_on))
        return {"brokers": answers}

    @staticmethod
    def _require_running(member: SupervisedProcess) -> None:
        if member.child is None:
            raise ControlError(f"{member.name} does not run")


def _show(text: str) -> None:
    """Print `text`. If standard output fails, log it and continue."""
    try:
        print(text, flush=True)  # noqa: T201  a command's result
    except (OSError, UnicodeError) as error:
        logger.warning("banner not printed: error=%s", reason_of(error))
        discard_output()
