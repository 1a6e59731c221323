"""The brokers that cases are played to, each started when the first case wants it."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.differential.play import (
    ACL_SETTINGS,
    ACLS,
    CONTROLLED,
    NEWER_SECURED,
    NEWER_SETTINGS,
    NEWER_STAGES,
    OFFLINE,
    PATIENCE_S,
    SASL,
    SECURED,
    SETTINGS,
    SILENCE_S,
    TRANSACTION_SETTINGS,
    TRANSACTIONS,
    VERIFIED,
    WITHOUT_SHARES,
    Case,
    lose_directory,
    play,
    sasl_settings,
    warm_up,
)
from tests.differential.seat import ControlledBroker, Seat
from tests.differential.secured import SUPER_LOGIN, access_settings
from tests.oracle.barnabas import Barnabas
from tests.oracle.kafka import ApacheKafka
from tests.oracle.kraft import KraftKafka
from tests.oracle.ports import lasting_port
from tests.oracle.process import StartError

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Stage:
    port: int
    seat: Seat | None = None
    sasl_port: int | None = None


class Stages:
    """Of one kind of broker, "kafka" (of the release that decides the case) or "barnabas"."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._open: dict[str, Stage] = {}
        self._failed: StartError | None = None
        self._end = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.__exit__(kind, error, trace)

    def play(self, case: Case, take: int = 0, patience_s: float = PATIENCE_S) -> dict[int, list[Any]]:
        if self._failed is not None:
            raise self._failed  # one long wait for a broker that does not start is enough
        if case.stage not in self._open:
            try:
                self._open[case.stage] = self._start(case.stage)
            except StartError as error:
                self._failed = error
                raise
        stage = self._open[case.stage]
        silence_s = SILENCE_S if self._kind == "kafka" else patience_s  # ours answers everything
        return play(
            case,
            HOST,
            stage.port,
            stage.seat,
            silence_s=silence_s,
            take=take,
            sasl_port=stage.sasl_port,
            patience_s=patience_s,
        )

    def _start(self, stage: str) -> Stage:
        if stage == CONTROLLED:
            controlled = self._end.enter_context(ControlledBroker(self._kind))
            return Stage(controlled.port, controlled.seat)
        broker: Barnabas | ApacheKafka | KraftKafka
        settings = SETTINGS
        if stage == TRANSACTIONS:
            settings = {**SETTINGS, **TRANSACTION_SETTINGS}
        if stage == VERIFIED:
            settings = {**SETTINGS, **TRANSACTION_SETTINGS, "transaction.partition.verification.enable": "true"}
        if stage == ACLS:
            settings = {**SETTINGS, **ACL_SETTINGS}
        if stage in NEWER_STAGES:
            levels = "newest" if stage != WITHOUT_SHARES else "group.version=1,transaction.version=2"
            settings = {**NEWER_SETTINGS, "barnabas.initial.features": levels}
        port = sasl_port = None
        if stage in (SASL, SECURED, NEWER_SECURED):
            port, sasl_port = lasting_port(), lasting_port()
        if stage == SASL:
            settings = {**SETTINGS, **sasl_settings(port, sasl_port)}
        if stage == SECURED:
            settings = {**SETTINGS, **TRANSACTION_SETTINGS, **access_settings(port, sasl_port)}
        if stage == NEWER_SECURED:
            settings |= access_settings(port, sasl_port)
        directories = (Path(), Path())
        if stage == OFFLINE:
            folder = Path(self._end.enter_context(tempfile.TemporaryDirectory(prefix="offline-")))
            directories = (folder / "a", folder / "b")
            settings = {**SETTINGS, "log.dirs": ",".join(map(str, directories))}
        if stage in NEWER_STAGES and self._kind == "kafka":
            login = SUPER_LOGIN if stage == NEWER_SECURED else None
            kraft = KraftKafka(
                NEWER_SETTINGS, port=port, sasl_port=sasl_port, login=login, receives_telemetry=True,
                features={"share.version": 0} if stage == WITHOUT_SHARES else None,
            )  # fmt: skip
            broker = self._end.enter_context(kraft)
            self._end.callback(broker.kill)
        elif self._kind == "kafka":
            broker = self._end.enter_context(ApacheKafka(settings=settings, port=port))
        else:
            broker = self._end.enter_context(Barnabas(settings=settings, port=port))
            self._end.callback(broker.kill)  # a clean stop would flush a thousand topics that nobody needs
        if stage == OFFLINE:
            self._end.callback(broker.kill)
            lose_directory(HOST, broker.port, directories)
        else:
            warm_up(HOST, broker.port, sasl_port if stage in (SECURED, NEWER_SECURED) else None)
        if stage == SASL:
            return Stage(sasl_port or broker.port)
        return Stage(broker.port, sasl_port=sasl_port)
