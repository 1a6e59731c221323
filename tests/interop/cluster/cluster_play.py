"""Scenarios for a cluster of three brokers, played to any of them.

A case is a function of a `Run`. `ask` sends one request that counts to the broker it names: 1 controls, 2 and 3 do not.
Every play of a case has a topic of its own, `run.topic`: partition 0 on [1, 2], 1 on [2, 3], 2 on [3, 1]. A case that
names versions is played in each of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from protocol.fields import Versions
from protocol.schema import Request
from tests.differential.normal import Names, normalised
from tests.differential.play import served_versions
from tests.differential.wire import NoResponse, Wire
from tests.oracle.admin import Admin
from tests.oracle.cluster import Cluster
from tests.oracle.versions import newest_version

ASSIGNMENT = {0: [1, 2], 1: [2, 3], 2: [3, 1]}


@dataclass(frozen=True)
class Case:
    name: str
    versions: tuple[int, ...]
    play: Callable[[Run], None]


CASES: dict[str, Case] = {}


def case(api: type[Request], versions: str | None = None) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    """Played in the newest version of `api` unless `versions` says in which."""
    covered = Versions.parse(versions or str(newest_version(api)))

    def declare(play: Callable[[Run], None]) -> Callable[[Run], None]:
        name = f"{api.api_name}-{play.__name__.strip('_').replace('_', ' ')}"
        assert name not in CASES, name
        CASES[name] = Case(name, tuple(one for one in served_versions(api) if covered.covers(one)), play)
        return play

    return declare


@dataclass
class Run:
    """One play of one case in one version on one cluster."""

    case: Case
    version: int
    cluster: Cluster
    answers: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.prefix = re.sub(r"[^a-z0-9]+", "-", self.case.name.lower()) + f"-v{self.version}-"
        self.topic = f"{self.prefix}t"
        self.admin = Admin(self.cluster)
        self.names = Names(self.prefix, -1)

    def create(self) -> bytes:
        """The topic; answers its id."""
        self.admin.create(self.topic, ASSIGNMENT)
        topic_id = bytes(self.admin.metadata(self.topic).topic_id)
        self.names.topic_ids[topic_id] = "<id of t>"
        return topic_id

    def ask(
        self, request: Request, to: int = 1, *, version: int | None = None, pick: Callable[[Any], None] | None = None
    ) -> Any:
        """Send and keep the answer; `pick` changes it before it is kept."""
        chosen = self.version if version is None else version
        wire = Wire("127.0.0.1", self.cluster.brokers[to].port)
        try:
            answer = wire.ask(request, chosen, 20)
        finally:
            wire.close()
        if pick is not None and not isinstance(answer, NoResponse):
            pick(answer)
        ports = {broker.port: f"<port {number}>" for number, broker in self.cluster.brokers.items()}
        self.answers.append({"to": to, "answer": _with_ports(normalised(answer, chosen, self.names), ports)})
        return answer


def _with_ports(value: Any, ports: dict[int, str]) -> Any:
    if isinstance(value, dict):
        return {
            key: ports.get(item, item) if key == "port" else _with_ports(item, ports) for key, item in value.items()
        }
    return [_with_ports(item, ports) for item in value] if isinstance(value, list) else value


def play(case_: Case, cluster: Cluster) -> dict[int, list[Any]]:
    """What a cluster answers, by version."""
    answers = {}
    for version in case_.versions:
        run = Run(case_, version, cluster)
        case_.play(run)
        answers[version] = run.answers
    return answers
