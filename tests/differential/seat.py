"""One broker over a ZooKeeper in which a test holds the controller's seat, and speaks to the broker as its controller.

The broker finds a controller when it starts, so that it does not stand for election: whatever it knows of brokers and
partitions it was told by the test, in the version that the test chose.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from protocol.messages.api_versions import ApiVersionsRequest
from tests.differential.play import SETTINGS
from tests.differential.wire import NoResponse, Wire
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.kafka import KafkaServer
from tests.oracle.process import wait_until
from tests.oracle.zookeeper import ZooKeeper

CONTROLLER_ID = 9
START_TIMEOUT_S = 60


class Seat:
    """`/controller` and `/controller_epoch`, as an elected controller writes them."""

    def __init__(self, zookeeper: str) -> None:
        self._kazoo = KazooClient(hosts=zookeeper, timeout=300)
        self.controller_id = CONTROLLER_ID
        self.epoch = 1
        self.broker_epoch = -1

    def take(self) -> None:
        self._kazoo.start(timeout=30)
        node = {"version": 2, "brokerid": self.controller_id, "timestamp": "0", "kraftControllerEpoch": -1}
        self._kazoo.create("/controller", json.dumps(node).encode(), ephemeral=True)
        self._kazoo.create("/controller_epoch", b"%d" % self.epoch)

    def elect_again(self, epoch: int | None = None) -> None:
        """The same controller in its next term, or in that of `epoch`."""
        self.epoch = self.epoch + 1 if epoch is None else epoch
        self._kazoo.set("/controller_epoch", b"%d" % self.epoch)

    def make_topics(self, names: Iterable[str]) -> None:
        """As an elected controller, which tells brokers of topics that are there: in another term, or another life of its own,
        this broker looks which ones are."""
        for name in names:
            self._kazoo.ensure_path(f"/brokers/topics/{name}")

    def learn_broker_epoch(self, broker_id: int) -> bool:
        try:
            self.broker_epoch = self._kazoo.get(f"/brokers/ids/{broker_id}")[1].czxid
        except NoNodeError:
            return False
        return True

    def leave(self) -> None:
        self._kazoo.stop()
        self._kazoo.close()


class _UnlistedKafka(KafkaServer):
    """Apache Kafka that is ready before anybody has told it of brokers."""

    def is_ready(self) -> bool:
        return _answers(self.port)


class _UnlistedBarnabas(Barnabas):
    def is_ready(self) -> bool:
        return _answers(self.port)


class ControlledBroker:
    """A broker, its ZooKeeper, and the seat above it."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._zookeeper = ZooKeeper()
        self.seat: Seat
        self.broker: Broker

    def __enter__(self) -> Self:
        self._zookeeper.start()
        try:
            self.seat = Seat(self._zookeeper.connect)
            self.seat.take()
            if self._kind == "kafka":
                self.broker = _UnlistedKafka(self._zookeeper.connect, settings=SETTINGS)
            else:
                self.broker = _UnlistedBarnabas(SETTINGS, zookeeper=self._zookeeper.connect)
            self.broker.start()
            assert wait_until(lambda: self.seat.learn_broker_epoch(self.broker.broker_id), START_TIMEOUT_S)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        if kind is None:
            self.broker.remove()
            self._zookeeper.remove()

    def _end(self) -> None:
        """Kill everybody: a broker in a cluster without a real controller cannot leave it in order."""
        if hasattr(self, "broker"):
            self.broker.kill()
        self.seat.leave()
        self._zookeeper.kill()

    @property
    def port(self) -> int:
        return self.broker.port


def _answers(port: int) -> bool:
    wire = Wire("127.0.0.1", port)
    try:
        return not isinstance(wire.ask(ApiVersionsRequest(), 0, 2), NoResponse)
    except OSError:
        return False
    finally:
        wire.close()
