"""The client of the Python source against secured listeners of this broker and of Apache Kafka 3.9.1: TLS with certificates of
both sides, and each SASL mechanism over TLS; a job with the properties file that a kafka-*.sh tool would take."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import barnabas.spark as _spark  # noqa: F401  installs the private names
from barnabas.spark.client.client_options import parse_client
from protocol.messages.list_offsets import LATEST
from tests.interop.conftest import SETTINGS, need_java
from tests.interop.security.tls_files import TlsFiles
from tests.interop.spark.feed import REPOSITORY
from tests.interop.spark.job_cases import JOB_TIMEOUT_S, Given, need_spark, produce
from tests.oracle import java
from tests.oracle.barnabas import Barnabas
from tests.oracle.kafka import ApacheKafka
from tests.oracle.ports import lasting_port

clients: Any = importlib.import_module("barnabas._private.client.blocking.cluster_client")
login: Any = importlib.import_module("barnabas._private.client.errors")
ranges: Any = importlib.import_module("barnabas.spark.client.ranges")
fetching: Any = importlib.import_module("barnabas.spark.reading.fetching")

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.timeout(600)]

PASSWORD = "alice-secret"
MODULES = "org.apache.kafka.common.security"
BY_PASSWORD = f'required username="alice" password="{PASSWORD}";'
LOGINS = {
    "PLAIN": f"{MODULES}.plain.PlainLoginModule {BY_PASSWORD}",
    "SCRAM-SHA-256": f"{MODULES}.scram.ScramLoginModule {BY_PASSWORD}",
    "SCRAM-SHA-512": f"{MODULES}.scram.ScramLoginModule {BY_PASSWORD}",
    "OAUTHBEARER": f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice";',
}
COUNT = 500
SESSION_MS = 6_000


class Listeners(NamedTuple):
    """Of one broker: without security, with TLS and certificates of clients, with SASL over TLS."""

    plain: str
    tls: str
    sasl: str
    files: TlsFiles

    @property
    def options(self) -> Mapping[str, str]:
        return self.stores("PEM")

    def stores(self, kind: str) -> dict[str, str]:
        """What a client of the two others needs to trust the broker, and to show who it is."""
        return {f"kafka.{name}": value for name, value in self.files.stores("alice", kind).items()}

    def sasl_options(self, mechanism: str, **more: str) -> dict[str, str]:
        trust = {name: value for name, value in self.options.items() if "truststore" in name}
        return trust | {
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": mechanism,
            "kafka.sasl.jaas.config": LOGINS[mechanism],
            **more,
        }


@pytest.fixture(scope="module", params=[pytest.param("barnabas"), pytest.param("kafka", marks=pytest.mark.long)])
def listeners(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners]:
    need_java()
    files = TlsFiles(tmp_path_factory.mktemp("stores"))
    ports = [lasting_port() for _ in range(3)]
    names = ("PLAINTEXT", "TLS", "SASL")
    settings = {
        **SETTINGS,
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,SASL:SASL_SSL",
        **files.server(),
        "listener.name.tls.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(LOGINS),
        "listener.name.sasl.plain.sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required user_alice="{PASSWORD}";',
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        "listener.name.sasl.oauthbearer.sasl.jaas.config": (
            f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
        ),
        "connections.max.reauth.ms": str(SESSION_MS),
    }  # fmt: skip
    made = Barnabas(settings, port=ports[0]) if request.param == "barnabas" else ApacheKafka(settings)
    made.port = ports[0]
    with made:
        plain, tls, sasl = (f"127.0.0.1:{port}" for port in ports)
        create_users_and_topic(plain)
        yield Listeners(plain, tls, sasl, files)
        assert PASSWORD not in made.log_tail(10_000_000)


def create_users_and_topic(servers: str) -> None:
    from confluent_kafka.admin import (
        AdminClient,
        NewTopic,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    admin = AdminClient({"bootstrap.servers": servers})
    mechanisms = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    upsertions = [
        UserScramCredentialUpsertion("alice", ScramCredentialInfo(each, 4096), PASSWORD.encode()) for each in mechanisms
    ]
    for done in admin.alter_user_scram_credentials(upsertions).values():
        done.result(30)
    admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(30)
    produce(servers, "orders", [Given(str(n)) for n in range(COUNT)])


def settings_of(servers: str, options: Mapping[str, str]) -> Any:
    return parse_client({"kafka.default.api.timeout.ms": "60000", **options, "kafka.bootstrap.servers": servers})


def values(servers: str, options: Mapping[str, str]) -> list[str]:
    settings = settings_of(servers, options)
    with clients.ClusterClient(settings.connection) as made:
        end = made.offsets({("orders", 0): LATEST})["orders", 0]
        part = ranges.OffsetRange("orders", 0, 0, end)
        reader = fetching.RangeReader(made, settings, part, pytest.fail, include_headers=False)
        return [value.decode() for rows in reader.rows() for value in rows.column("value").to_pylist()]


EXPECTED = [str(n) for n in range(COUNT)]


@pytest.mark.parametrize("kind", ["PEM", "PKCS12", "JKS"])
def test_tls_with_certificates_of_both_sides(listeners: Listeners, kind: str) -> None:
    assert values(listeners.tls, {**listeners.stores(kind), "kafka.security.protocol": "SSL"}) == EXPECTED


def test_pem_in_line(listeners: Listeners) -> None:
    client_pem = Path(listeners.options["kafka.ssl.keystore.location"]).read_text()
    options = {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": Path(listeners.options["kafka.ssl.truststore.location"]).read_text(),
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.key": client_pem,
        "kafka.ssl.keystore.certificate.chain": client_pem,
    }
    assert values(listeners.tls, options) == EXPECTED


def test_a_broker_that_is_not_trusted_is_refused_at_once(listeners: Listeners) -> None:
    with pytest.raises(login.LoginRefused, match=r"the certificate of 127\.0\.0\.1:\d+ is not accepted"):
        values(listeners.tls, {"kafka.security.protocol": "SSL"})


@pytest.mark.parametrize("mechanism", LOGINS)
def test_each_mechanism(listeners: Listeners, mechanism: str) -> None:
    assert values(listeners.sasl, listeners.sasl_options(mechanism)) == EXPECTED


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_refused_at_once(listeners: Listeners, mechanism: str) -> None:
    wrong = {"kafka.sasl.jaas.config": LOGINS[mechanism].replace(PASSWORD, "wrong-secret")}
    with pytest.raises(login.LoginRefused, match=r"refuses the login: .*Authentication failed") as raised:
        values(listeners.sasl, listeners.sasl_options(mechanism, **wrong))
    assert "wrong-secret" not in str(raised.value)


def test_a_bearer_token_that_has_ended_is_refused(listeners: Listeners) -> None:
    """It ended before it was made: one that lives for a moment may still hold when the broker looks."""
    ended = LOGINS["OAUTHBEARER"].replace(";", ' unsecuredLoginLifetimeSeconds="-1";')
    with pytest.raises(login.LoginRefused, match=r"refuses the login.*invalid_token"):
        values(listeners.sasl, listeners.sasl_options("OAUTHBEARER", **{"kafka.sasl.jaas.config": ended}))


def test_a_session_is_authenticated_again_before_it_ends(listeners: Listeners) -> None:
    """Requests follow each other without a pause; the broker would close the connection at the end of its session."""
    settings = settings_of(listeners.sasl, listeners.sasl_options("SCRAM-SHA-256"))
    with clients.ClusterClient(settings.connection) as made:
        made.topics(["orders"])
        leader = made.leader_of(("orders", 0))
        first_end = leader._login_ends_s
        while leader._login_ends_s == first_end:
            assert made.offsets({("orders", 0): LATEST})["orders", 0] == COUNT
            if made.leader_of(("orders", 0)) is not leader:  # the machine stood still for a second
                leader = made.leader_of(("orders", 0))
                first_end = leader._login_ends_s
        assert made.offsets({("orders", 0): LATEST})["orders", 0] == COUNT


@pytest.mark.long
def test_a_job_takes_the_properties_file_of_a_tool(listeners: Listeners, tmp_path: Path) -> None:
    need_spark()
    file = tmp_path / "client.properties"
    lines = [
        f"{name.removeprefix('kafka.')}={value}" for name, value in listeners.sasl_options("SCRAM-SHA-512").items()
    ]
    file.write_text("\n".join(lines))
    job = [sys.executable, "-m", "barnabas", "pipeline", "archive", "--bootstrap-servers", listeners.sasl]
    job += ["--command-config", str(file), "--checkpoint", str(tmp_path / "checkpoint")]
    job += ["--trigger", "available-now", "--output", str(tmp_path / "archive")]

    def run(topics: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*job, "--topics", topics],
            cwd=REPOSITORY, env=java.spark_environment(), capture_output=True, text=True, timeout=JOB_TIMEOUT_S,
        )  # fmt: skip

    missing = run("nothing")
    assert missing.returncode == 1
    assert missing.stderr.strip().splitlines()[-1].startswith("archive: topic nothing does not exist")
    done = run("orders")
    assert done.stderr.strip().splitlines()[-1] == f"archive: done; read {COUNT}, dropped 0, wrote {COUNT}"
    assert done.returncode == 0
    assert PASSWORD not in missing.stderr + missing.stdout + done.stderr + done.stdout
