"""`barnabas settings --check FILE`: everything that is wrong with a properties file, before a broker starts with it.

    server.properties:12: error: unknown setting log.segmnt.bytes: did you mean log.segment.bytes?

Rules: the sources are those of a start (file, environment, --override), and so are the checks: listeners, versions, logins,
keys and certificates are made as a start makes them, and thrown away. No port is opened, no data directory touched, nobody
asked over the network. Exit codes: 0 without errors, 1 with some, 2 when the file cannot be read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from broker.access_control import authorizer
from broker.commands.settings_sources import given_overrides, properties_from, read_text
from broker.composition import inter_broker_version, listener_plans, logins, selector
from broker.network.listening.listeners import ListenerPlan
from broker.network.listening.tls_listeners import TlsListeners
from broker.network.sasl.sources import SaslSources
from broker.settings.stored_passwords import StoredPasswords
from client.settings.files import read_tls
from client.settings.given import Given
from client.settings.tls import parse_tls
from client.settings.values import SettingsError
from config.broker import LISTENER_PREFIX, BrokerSettings
from config.errors import ConfigError
from config.problems import Problem, Sources, find_problems
from config.relay import require_login
from config.sources import Property, properties_of
from config.web import PREFIX, has_login
from runtime.clock import SystemClock
from runtime.command_line.exit_codes import EXIT_FAILED
from runtime.command_line.output import print_result
from runtime.disk.os_filesystem import OsFileSystem
from runtime.documents import NoDocuments
from runtime.randomness import system_randomness
from runtime.tasks import TaskScope
from runtime.texts import count_text
from runtime.timer import Timer
from runtime.tls.stream import TlsWork


def run(path: str, overrides: Sequence[str], environment: Mapping[str, str], *, as_json: bool) -> int:
    """Check a file, print the problems, and return the exit code. Raises ConfigError for a file that cannot be read."""
    text = read_text(path)
    sources = Sources(properties_from(path, text), environment, given_overrides(overrides))
    properties = list(properties_of(text))
    lines = {one.name: one.line for one in properties}
    found = [*asyncio.run(_problems(sources)), *_repeated(properties)]
    problems = sorted(found, key=lambda problem: _line(problem, lines) or 0)
    errors_count = sum(problem.is_error for problem in problems)
    if as_json:
        rows = [
            {
                "level": _level(problem),
                "settings": list(problem.settings),
                "line": _line(problem, lines),
                "reason": problem.reason,
            }
            for problem in problems
        ]
        print_result(json.dumps({"file": path, "is_valid": not errors_count, "problems": rows}, indent=2))
    else:
        for problem in problems:
            line = _line(problem, lines)
            where = path if line is None else f"{path}:{line}"
            print_result(f"{where}: {_level(problem)}: {problem.reason}")
        warnings_count = len(problems) - errors_count
        print_result(
            f"{path}: {len(lines)} settings, {count_text(errors_count, 'error')}, {count_text(warnings_count, 'warning')}"
        )
    return EXIT_FAILED if errors_count else 0


def _level(problem: Problem) -> str:
    return "error" if problem.is_error else "warning"


def _line(problem: Problem, lines: Mapping[str, int]) -> int | None:
    return next((lines[name] for name in problem.settings if name in lines), None)


def _repeated(properties: Sequence[Property]) -> Iterator[Problem]:
    counted: dict[str, list[int]] = {}
    for one in properties:
        counted.setdefault(one.name, []).append(one.line)
    for name, lines in counted.items():
        if len(lines) > 1:
            where = ", ".join(map(str, lines))
            yield Problem((name,), f"{name} is set in lines {where}: the last one counts", is_error=False)


async def _problems(sources: Sources) -> list[Problem]:
    """Return the problems. Runs on an event loop, since what is made for the check may belong to one."""
    misplaced: list[Problem] = []

    def refusals(settings: BrokerSettings) -> Iterator[ConfigError]:
        try:
            plans = listener_plans(settings)
        except ConfigError as error:
            yield error
            plans = []
        misplaced.extend(_settings_of_no_listener(settings, plans) if plans else ())
        for step in _steps(settings, plans):
            try:
                step()
            except ConfigError as error:
                yield error

    return find_problems(sources, OsFileSystem(), refusals) + misplaced


def _steps(settings: BrokerSettings, plans: Sequence[ListenerPlan]) -> Iterator[Callable[[], object]]:
    """Yield what a start does with settings; each may raise ConfigError."""
    clock, randomness, tasks = SystemClock(), system_randomness(), TaskScope("check of settings")
    yield lambda: inter_broker_version(settings)
    yield lambda: StoredPasswords.of(settings, randomness)
    yield lambda: authorizer(settings)
    if settings.zookeeper_connect is not None:
        yield lambda: selector(settings)
        yield lambda: _check_zookeeper(settings)
    if plans and settings.barnabas_web_enable:
        yield lambda: _check_web(settings, plans[0])
    if plans and settings.barnabas_relay_enable:
        yield lambda: require_login(settings.given, plans[0].security_protocol)
    if plans:
        timer = Timer(clock, asyncio.get_running_loop().call_later)
        sources = SaslSources(randomness, NoDocuments(), OsFileSystem(), clock, tasks)
        yield lambda: logins(settings, plans, inter_broker_version(settings), sources)
        yield lambda: TlsListeners(settings, plans, OsFileSystem(), TlsWork(), timer=timer)


def _check_web(settings: BrokerSettings, plan: ListenerPlan) -> None:
    web = settings.web_settings
    web.accepts_proxies_alone(has_login=has_login(settings.given, plan.security_protocol))
    try:
        read_tls(parse_tls(Given(web.given, PREFIX)))
    except SettingsError as error:
        raise ConfigError(str(error)) from None


def _check_zookeeper(settings: BrokerSettings) -> None:
    from broker.cluster.zookeeper_tls import zookeeper_tls  # noqa: PLC0415  as at a start, only with ZooKeeper
    from metadata.store.zookeeper.options import ZooKeeperOptions  # noqa: PLC0415

    ZooKeeperOptions.of(settings, zookeeper_tls(settings, OsFileSystem()))


def _settings_of_no_listener(settings: BrokerSettings, plans: Sequence[ListenerPlan]) -> Iterator[Problem]:
    known = {plan.name.lower() for plan in plans}
    for name in settings.given:
        if LISTENER_PREFIX.fullmatch(name) and name.split(".")[2] not in known:
            names = ", ".join(sorted(known))
            yield Problem((name,), f"{name} is for no listener: there are {names} (in lower case)", is_error=False)
