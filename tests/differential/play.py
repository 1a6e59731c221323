"""Scenarios that are played to any broker, and what it answered.

A case is a function that sends requests through a `Run`. `ask` sends one that counts: its normalised answer is kept.
`do` sends one that only prepares, in the newest version unless told. Every play of a case, one for each version, uses
names of its own, so that cases neither see each other nor care for their order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from protocol.errors import ErrorCode
from protocol.fields import Versions
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.schema import Request
from tests.differential.batches import batch
from tests.differential.normal import Names, normalised
from tests.differential.wire import NoResponse, SaslWire, Wire
from tests.oracle.process import wait_until
from tests.oracle.versions import newest_version

if TYPE_CHECKING:
    from tests.differential.seat import Seat

KINDS = ("normal", "edge", "wrong")

SHARED = "shared"
LEAVING = "leaving"
CONTROLLED = "controlled"
"""Which broker a case is played to: the one that most share; one that is told to leave the cluster, and can create no
topic any more; one whose controller is the case itself, over a ZooKeeper."""
TRANSACTIONS = "transactions"
"""One that takes transactional records without asking a coordinator, so that a case can be the coordinator."""
VERIFIED = "verified"
"""One that asks the coordinator before the first write of a transaction, as brokers do by default."""
OFFLINE = "offline"
"""One that has lost a log directory, and with it the only partition of the topic `LOST`."""
ACLS = "acls"
"""One with an authorizer, to which everybody is a super user."""
SASL = "sasl"
"""One whose clients authenticate (`sasl_settings`): a case begins where a client does."""
SECURED = "secured"
"""One with an authorizer, on whose SASL listener the run itself is a super user (`tests.differential.secured`)."""
NEWER = "newer"
"""One with the newest level of every feature, compared with Apache Kafka 4.3.0."""
NEWER_SECURED = "newer secured"
"""The same with an authorizer, as on the stage `SECURED`."""
WITHOUT_SHARES = "without shares"
"""The same as NEWER without share groups: `share.version` is 0."""
NEWER_STAGES = (NEWER, NEWER_SECURED, WITHOUT_SHARES)
STAGES = (SHARED, LEAVING, CONTROLLED, TRANSACTIONS, VERIFIED, OFFLINE, ACLS, SASL, SECURED, *NEWER_STAGES)
LOST = "lost"

NO_RETENTION = {"log.initial.task.delay.ms": "86400000", "log.retention.check.interval.ms": "86400000"}
"""Records of cases are years old: who looked for such would delete them between two requests."""

SETTINGS = {
    **NO_RETENTION,
    "broker.id": "0",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "300",
    "group.max.size": "4",
    "offsets.topic.num.partitions": "5",
    "offsets.topic.replication.factor": "1",
    "max.incremental.fetch.session.cache.slots": "10000",
    "zookeeper.session.timeout.ms": "300000",
}
"""What both brokers under comparison are started with. A machine that stalls must not give them another life."""
TRANSACTION_SETTINGS = {
    "transaction.partition.verification.enable": "false",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
"""Those of the stage of transactions, on top."""
NEWER_SETTINGS = {
    **NO_RETENTION,
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "300",
    "group.max.size": "4",
    "group.consumer.max.size": "4",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "300",
    "group.share.max.size": "4",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.min.session.timeout.ms": "300",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.max.share.sessions": "100",
    "share.coordinator.state.topic.num.partitions": "5",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "3",
    "offsets.topic.num.partitions": "5",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
"""What our broker and Apache Kafka 4.3.0 are started with. New assignments are computed at once, so that epochs do not
depend on the clock."""
ACL_SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Those of the stage with an authorizer, on top."""

SESSION_MS = 3_600_000
"""For how long a session of PLAIN holds on the stage of SASL; those of SCRAM do not end."""


def sasl_settings(port: int, sasl_port: int) -> dict[str, str]:
    """The settings of the stage of SASL, on top: a listener for its tests to get ready, and one for clients."""
    package = "org.apache.kafka.common.security"
    users = 'username="admin" password="admin-secret" user_admin="admin-secret" user_alice="alice-secret" user_bob="bob-secret"'
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CLIENTS://127.0.0.1:{sasl_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.clients.plain.sasl.jaas.config": f"{package}.plain.PlainLoginModule required {users};",
        "listener.name.clients.scram-sha-256.sasl.jaas.config": f"{package}.scram.ScramLoginModule required;",
        "listener.name.clients.scram-sha-512.sasl.jaas.config": f"{package}.scram.ScramLoginModule required;",
        "listener.name.clients.oauthbearer.sasl.jaas.config": f"{package}.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="broker" unsecuredValidatorRequiredScope="kafka";',
        "listener.name.clients.plain.connections.max.reauth.ms": str(SESSION_MS),
        "sasl.server.max.receive.size": "100000",
        "password.encoder.secret": "encoder-secret",
        "delegation.token.secret.key": "token-secret",
        "delegation.token.expiry.time.ms": "600000",
        "delegation.token.max.lifetime.ms": "1200000",
    }


SUPER_USER = "admin"


def password_of(user: str) -> str:
    return f"{user}-secret"


PATIENCE_S = 60.0
"""How long is waited for what has to come."""
SILENCE_S = 1.0
"""How long for an answer that Apache Kafka never gives."""

NEWEST = {"Produce": 11, "Fetch": 12}
"""The version in which `do` sends, where it is not the newest: Fetch by topic name."""


@dataclass(frozen=True)
class Case:
    api: type[Request]
    name: str
    kind: str
    versions: tuple[int, ...]
    play: Callable[[Run], None]
    stage: str = SHARED

    @property
    def id(self) -> str:
        return f"{self.api.api_name}-{self.name}"


CASES: dict[str, Case] = {}
"""Every case that Apache Kafka 3.9.1 decides, by its id; filled by importing `tests.differential.cases`."""
NEWER_CASES: dict[str, Case] = {}
"""Every case that Apache Kafka 4.3.0 decides; filled by importing `tests.differential.newer`."""


def served_versions(api: type[Request]) -> range:
    return range(api.min_version, newest_version(api) + 1)


def case(
    api: type[Request], kind: str, versions: str = "0+", *, stage: str = SHARED
) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    """Declares a case; the function's name, with spaces for underscores, says what it is about."""
    assert kind in KINDS and stage in STAGES
    covered = Versions.parse(versions)

    def declare(play: Callable[[Run], None]) -> Callable[[Run], None]:
        name = play.__name__.strip("_").replace("_", " ")
        chosen = tuple(version for version in served_versions(api) if covered.covers(version))
        declared = Case(api, name, kind, chosen, play, stage)
        assert declared.id not in CASES, declared.id
        CASES[declared.id] = declared
        return play

    return declare


def newer_case(
    api: type[Request], versions: str = "0+", *, stage: str = NEWER
) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    """As `case`, for what Apache Kafka 4.3.0 decides."""
    assert stage in NEWER_STAGES
    covered = Versions.parse(versions)

    def declare(play: Callable[[Run], None]) -> Callable[[Run], None]:
        name = play.__name__.strip("_").replace("_", " ")
        chosen = tuple(each for each in range(api.min_version, api.max_version + 1) if covered.covers(each))
        declared = Case(api, name, "normal", chosen, play, stage)
        assert declared.id not in NEWER_CASES, declared.id
        NEWER_CASES[declared.id] = declared
        return play

    return declare


TAKES = "vwx"
"""One letter for each time that a case may be played to one broker."""


@dataclass
class Run:
    """One play of one case in one version. A later `take` to the same broker has names of its own, as long as the first's."""

    case: Case
    version: int
    host: str
    port: int
    seat: Seat | None = None
    silence_s: float = PATIENCE_S
    take: int = 0
    sasl_port: int | None = None
    patience_s: float = PATIENCE_S
    answers: list[Any] = field(default_factory=list)
    connections: list[Wire] = field(default_factory=list)

    def __post_init__(self) -> None:
        slug = re.sub(r"[^a-z0-9]+", "-", self.case.id.lower())
        self.prefix = f"{slug}-{TAKES[self.take]}{self.version}-"
        self.names = Names(self.prefix, self.port)
        if self.sasl_port is not None:
            self.names.ports[self.sasl_port] = "<port>"
        self.wire = self.connect()

    def connect(self) -> Wire:
        """One more connection, which ends with the run."""
        wire = self.connect_as(SUPER_USER) if self.sasl_port is not None else Wire(self.host, self.port)
        self.connections.append(wire)
        return wire

    def close(self) -> None:
        for wire in self.connections:
            wire.close()

    def connect_as(self, user: str | None) -> Wire:
        """A connection of a user; None is nobody, who comes in without a name."""
        if user is None:
            return Wire(self.host, self.port)
        assert self.sasl_port is not None
        return SaslWire(self.host, self.sasl_port, user, password_of(user))

    def name(self, short: str) -> str:
        """A topic, group or transactional id of this run's own; answers show it as `short`."""
        return self.prefix + short

    # -- what counts

    def ask(
        self,
        request: Request,
        version: int | None = None,
        *,
        may_be_silent: bool = False,
        pick: Callable[[Any], None] | None = None,
        wire: Wire | None = None,
    ) -> Any:
        """Send and keep the answer. `pick` changes the decoded answer before it is kept, to drop what others made.
        Some requests Apache Kafka never answers: `may_be_silent`."""
        version = self.version if version is None else version
        timeout_s = self.silence_s if may_be_silent else self.patience_s
        answer = (wire or self.wire).ask(request, version, timeout_s)
        return self._keep(answer, version, pick)

    def send(self, request: Request, wire: Wire | None = None) -> None:
        """Send without waiting; `receive` takes the answer."""
        (wire or self.wire).send(request, self.version)

    def receive(self, request: Request, wire: Wire | None = None) -> Any:
        answer = (wire or self.wire).receive(request.response_type, self.version, self.patience_s)
        return self._keep(answer, self.version, None)

    def ask_raw(self, frame: bytes, *, show: Callable[[bytes], Any] | None = None) -> None:
        """Send a frame as it is (its length included); keep what `show` makes of the answer, else its hex."""
        self.wire.send_raw(frame)
        answer = self.wire.receive_raw(self.patience_s)
        if isinstance(answer, NoResponse):
            self.answers.append({"outcome": answer.outcome})
        else:
            self.answers.append(show(answer) if show else {"bytes": answer.hex()})

    def note(self, value: Any) -> None:
        """Keep something that was worked out from answers; error codes turn into their names."""
        if isinstance(value, dict) and isinstance(value.get("error_code"), int):
            value = {**value, "error_code": ErrorCode(value["error_code"]).name}
        self.answers.append(value)

    def _keep(self, answer: Any, version: int, pick: Callable[[Any], None] | None) -> Any:
        if pick is not None and not isinstance(answer, NoResponse):
            pick(answer)
        self.answers.append(normalised(answer, version, self.names))
        return answer

    # -- what prepares

    def do(self, request: Request, version: int | None = None, *, wire: Wire | None = None) -> Any:
        if version is None:
            version = NEWEST.get(request.api_name, newest_version(request))
        answer = (wire or self.wire).ask(request, version, self.patience_s)
        assert not isinstance(answer, NoResponse), f"{request.api_name} v{version}: {answer.outcome}"
        return answer

    def topic(self, short: str = "t", partitions: int = 1, **configs: str) -> str:
        """Create a topic; setting names are written with underscores."""
        name = self.name(short)
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=1,
                    assignments=[],
                    configs=[
                        CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
                    ],
                )
            ],
            timeout_ms=30000,
        )
        (result,) = self.do(request, 7).topics
        assert result.error_code == 0, (name, ErrorCode(result.error_code).name, result.error_message)
        self.names.topic_ids[result.topic_id] = f"<id of {short}>"
        self.last_topic_id: bytes = result.topic_id
        if self.case.stage in NEWER_STAGES:
            self.until(f"{name} has leaders", lambda: self._is_led(name, partitions))
        return name

    def _is_led(self, topic: str, partitions: int) -> bool:
        """In KRaft mode a broker hears of a topic after the client that made it."""
        rows = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=rows)])
        return all(row.error_code == 0 for row in self.do(request).topics[0].partitions)

    def produce(self, topic: str, records: bytes, partition: int = 0, acks: int = -1) -> Any:
        """Append; answers the partition's response."""
        data = PartitionProduceData(index=partition, records=records)
        topic_data = [TopicProduceData(name=topic, partition_data=[data])]
        answer = self.do(ProduceRequest(acks=acks, timeout_ms=30000, topic_data=topic_data))
        (result,) = answer.responses[0].partition_responses
        assert result.error_code == 0, (topic, ErrorCode(result.error_code).name, result.error_message)
        return result

    def group(self, short: str = "g") -> str:
        """A group id whose coordinator is known to be ready."""
        name = self.name(short)

        def is_found() -> bool:
            (found,) = self.do(FindCoordinatorRequest(coordinator_keys=[name], key_type=0), 4).coordinators
            return bool(found.error_code == 0)

        self.until(f"there is a coordinator for {name}", is_found)
        return name

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Ask again until it is so."""
        assert wait_until(holds, self.patience_s), f"not within {self.patience_s:g} s: {what}"


def warm_up(host: str, port: int, sasl_port: int | None = None) -> None:
    """Wait until the parts that a broker starts on first use serve: coordinator and producer ids."""
    from protocol.messages.init_producer_id import InitProducerIdRequest

    declared = Case(FindCoordinatorRequest, "warm up", "normal", (0,), lambda run: None)
    run = Run(declared, 0, host, port, sasl_port=sasl_port)
    run.group()
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    run.until("there are producer ids", lambda: run.do(request).error_code == 0)
    run.wire.close()


def lose_directory(host: str, port: int, directories: tuple[Path, Path]) -> None:
    """Take the second log directory away from a broker that has no topics yet, once it holds `LOST`."""
    from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

    kept, gone = directories
    declared = Case(CreateTopicsRequest, "lose a directory", "normal", (0,), lambda run: None)
    run = Run(declared, 0, host, port)
    run.prefix = ""

    def answers(topic: str, error: ErrorCode) -> bool:
        rows = [PartitionProduceData(index=0, records=batch(b"x" * 100))]
        topics = [TopicProduceData(name=topic, partition_data=rows)]
        answer = run.do(ProduceRequest(acks=1, timeout_ms=30000, topic_data=topics))
        return bool(answer.responses[0].partition_responses[0].error_code == error)

    for topic in ("kept", LOST):
        run.topic(topic, segment_bytes="200")
        run.until(f"{topic} is led", partial(answers, topic, ErrorCode.NONE))
    assert (kept / "kept-0").is_dir() and (gone / f"{LOST}-0").is_dir()
    gone.rename(gone.with_name("taken away"))
    run.until("the directory is offline", partial(answers, LOST, ErrorCode.KAFKA_STORAGE_ERROR))
    asking = MetadataRequest(topics=[MetadataRequestTopic(name=LOST)])
    run.until("nobody leads it", lambda: run.do(asking).topics[0].partitions[0].leader_id == -1)
    run.wire.close()


def play(
    case: Case,
    host: str,
    port: int,
    seat: Seat | None = None,
    *,
    silence_s: float = PATIENCE_S,
    take: int = 0,
    sasl_port: int | None = None,
    patience_s: float = PATIENCE_S,
) -> dict[int, list[Any]]:
    """What a broker answers to `case`, by version. `seat` is its controller's, where the case sits in it; `silence_s` is
    how long to wait for an answer that it may never give, `patience_s` for everything else; `take` counts the plays to one
    broker, from 0."""
    answers = {}
    for version in case.versions:
        run = Run(case, version, host, port, seat, silence_s, take, sasl_port, patience_s)
        try:
            case.play(run)
        finally:
            run.close()
        answers[version] = run.answers
    return answers


def grouped(answers: dict[int, list[Any]]) -> dict[str, list[Any]]:
    """Versions with equal answers joined: {"0-3": [...], "4": [...]}."""
    joined: dict[str, list[Any]] = {}
    versions = sorted(answers)
    while versions:
        first = last = versions.pop(0)
        while versions and versions[0] == last + 1 and answers[versions[0]] == answers[first]:
            last = versions.pop(0)
        joined[str(first) if first == last else f"{first}-{last}"] = answers[first]
    return joined


def ungrouped(joined: dict[str, list[Any]]) -> dict[int, list[Any]]:
    answers = {}
    for key, value in joined.items():
        first, _, last = key.partition("-")
        for version in range(int(first), int(last or first) + 1):
            answers[version] = value
    return answers


def error_names(value: Any) -> Iterable[str]:
    """Every error code that stands in normalised answers."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key.endswith("error_code"):
                yield item
            else:
                yield from error_names(item)
    elif isinstance(value, list):
        for item in value:
            yield from error_names(item)


def error_messages(value: Any) -> Iterable[str | None]:
    """Every error message that stands in normalised answers."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "error_message":
                yield item
            else:
                yield from error_messages(item)
    elif isinstance(value, list):
        for item in value:
            yield from error_messages(item)
