"""TLS of listeners: what their stores must have, principals of certificates, time limits, certificates that change."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from broker.composition import listener_plans
from broker.network.listening.tls_listeners import WATCH_PERIOD_MS, TlsListeners
from config.broker import BrokerSettings
from config.errors import ConfigError
from runtime.disk.filesystem import FileStat
from runtime.tasks import TaskScope
from runtime.timer import Timer
from runtime.tls.context import client_context_of
from runtime.tls.network import TlsNetwork
from runtime.tls.stream import TlsStream, TlsWork
from security.principal import ANONYMOUS, Principal
from security.tls.key_store import read_pem_certificates, read_pem_keys
from tests.doubles.clock import ManualClock, Turns
from tests.jks_writer import Entry, jks
from tests.runtime.tls.test_stream import Later, Line, User
from tests.tls_certificates import authority, issued, material

BASE = {"listeners": "SSL://localhost:0", "security.inter.broker.protocol": "SSL"}


class Files:
    """Files in memory, each with a time that a test changes."""

    def __init__(self, **files: str | bytes) -> None:
        self.contents = {f"/{name}.pem": text for name, text in files.items()}
        self.times: dict[str, int] = {}

    def write(self, name: str, text: str | bytes) -> None:
        self.contents[f"/{name}.pem"] = text
        self.times[f"/{name}.pem"] = self.times.get(f"/{name}.pem", 0) + 1_000

    def read_bytes(self, path: str) -> bytes:
        self._check(path)
        content = self.contents[path]
        return content.encode() if isinstance(content, str) else content

    def stat(self, path: str) -> FileStat:
        self._check(path)
        return FileStat(len(self.contents[path]), self.times.get(path, 0))

    def _check(self, path: str) -> None:
        if path not in self.contents:
            raise FileNotFoundError(2, "No such file or directory", path)


class Queue:
    async def run(self, job: Callable[[], Any]) -> Any:
        return job()


class Connection:
    """What TLS tells a client's connection."""

    def __init__(self) -> None:
        self.user = User()
        self.principal: Principal | None = None
        self.is_secured = False
        self.reasons: list[str] = []
        for name in ("receive_buffer", "received", "writing_paused", "writing_resumed", "disconnected"):
            setattr(self, name, getattr(self.user, name))

    def connected(self, stream: TlsStream) -> None:
        self.stream = stream

    def secured(self, principal: Principal | None, *, cipher: str, version: str) -> None:
        assert (cipher, version) == ("TLS_AES_256_GCM_SHA384", "TLSv1.3")
        self.is_secured, self.principal = True, principal

    def tls_failed(self, reason: str) -> None:
        self.close(reason)

    def close(self, reason: str) -> None:
        self.reasons.append(reason)
        self.stream.close()


class World:
    def __init__(self, files: Files, given: Mapping[str, str], work: TlsWork | None = None) -> None:
        self.clock = ManualClock()
        self.turns = Turns(self.clock)
        self.given = {**BASE, **given}
        settings = BrokerSettings(self.given)
        self.listeners = TlsListeners(
            settings, listener_plans(settings), files, work or TlsWork(), timer=Timer(self.clock, self.turns.call_later)  # type: ignore[arg-type]
        )  # fmt: skip

    def accept(self, listener: str = "SSL") -> tuple[Connection, Line]:
        connection, line = Connection(), Line()
        stream = self.listeners.factory(listener, lambda: connection)()  # type: ignore[arg-type,return-value]
        line.stream = stream  # type: ignore[assignment]
        stream.connected(line)
        return connection, line

    def connect(self, client: ssl.SSLContext | None = None, listener: str = "SSL") -> Connection:
        """Let a client do its handshake, and return the server's side."""
        connection, line = self.accept(listener)
        other = Line()
        other.stream = TlsStream(
            User(), client or client_context_of(material(None), checks_host=True), TlsWork(), host="localhost",
            secured=lambda _stream: None,
        )  # fmt: skip
        other.stream.connected(other)
        ends = (line, other)
        while any(end.written for end in ends):
            for end, peer in (ends, ends[::-1]):
                data = bytes(end.written)
                end.written.clear()
                if data and not peer.is_closed:
                    peer.give(data)
        return connection

    def issuer_seen(self) -> str:
        """Return the name of the certificate that a new client is shown."""
        user, seen = User(), list[str]()
        connection, line = self.accept()
        other = Line()
        context = client_context_of(material(None), checks_host=False)
        other.stream = TlsStream(user, context, TlsWork(), host="x", secured=lambda stream: seen.append(_name(stream)))
        other.stream.connected(other)
        while line.written or other.written:
            for end, peer in ((line, other), (other, line)):
                data = bytes(end.written)
                end.written.clear()
                if data:
                    peer.give(data)
        assert connection.is_secured
        return seen[0]


def _name(stream: TlsStream) -> str:
    from security.tls.distinguished_name import subject_name

    assert stream.certificate is not None
    return subject_name(stream.certificate)


def pem_files(name: str = "broker", *hosts: str) -> Files:
    return Files(keys=issued(name, *(hosts or ("localhost",))).both, trust=authority().certificate)


STORES = {
    "ssl.keystore.type": "PEM", "ssl.keystore.location": "/keys.pem",
    "ssl.truststore.type": "PEM", "ssl.truststore.location": "/trust.pem",
}  # fmt: skip


JKS_STORES = {  # of the type JKS, the default
    "ssl.keystore.location": "/keys.pem", "ssl.keystore.password": "of the store", "ssl.key.password": "of the key",
    "ssl.truststore.location": "/trust.pem",
}  # fmt: skip


def key_jks(name: str, *hosts: str) -> bytes:
    both = issued(name, *(hosts or ("localhost",))).both
    keys = read_pem_keys(both, both, None)
    private = load_pem_private_key(keys.key, None).private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return jks([Entry("own", keys.chain, private, "of the key")], "of the store")


def trust_jks() -> bytes:
    return jks([Entry("ca", read_pem_certificates(authority().certificate))], "of the trust store")


def test_a_client_without_a_certificate_is_anonymous() -> None:
    connection = World(pem_files(), STORES).connect()
    assert connection.is_secured
    assert connection.principal == ANONYMOUS


def test_the_principal_is_the_certificates_name_by_the_rules() -> None:
    client = client_context_of(material("alice"), checks_host=True)
    required = {**STORES, "ssl.client.auth": "required"}
    assert World(pem_files(), required).connect(client).principal == Principal("User", "CN=alice")
    rules = {**required, "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/U"}
    assert World(pem_files(), rules).connect(client).principal == Principal("User", "ALICE")
    own = {**required, "listener.name.ssl.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/x-$1/"}
    assert World(pem_files(), own).connect(client).principal == Principal("User", "x-alice")


def test_a_certificate_that_no_rule_applies_to_ends_the_connection() -> None:
    given = {**STORES, "ssl.client.auth": "required", "ssl.principal.mapping.rules": "RULE:^CN=bob$/bob/"}
    connection = World(pem_files(), given).connect(client_context_of(material("alice"), checks_host=True))
    assert not connection.is_secured
    assert connection.reasons == [
        "the certificate names no principal: no rule of ssl.principal.mapping.rules applies to CN=alice"
    ]


def test_with_sasl_tls_names_nobody() -> None:
    given = {**STORES, "listeners": "SSL://localhost:0,SASL_SSL://localhost:0", "ssl.client.auth": "required"}
    connection = World(pem_files(), given).connect(listener="SASL_SSL")  # nor is a certificate asked for
    assert connection.is_secured
    assert connection.principal is None


def test_a_listener_without_tls_stays_as_it_is() -> None:
    world = World(pem_files(), {"listeners": "PLAINTEXT://localhost:0", "security.inter.broker.protocol": "PLAINTEXT"})
    assert not world.listeners

    def plain() -> Any:
        raise AssertionError

    assert world.listeners.factory("PLAINTEXT", plain) is plain


def test_a_failed_handshake_is_the_reason_of_the_close() -> None:
    stranger = client_context_of(material("alice", by="another authority"), checks_host=False)
    world = World(pem_files(), {**STORES, "ssl.client.auth": "required"})
    assert world.connect(stranger).reasons == ["TLS: tlsv1 alert unknown ca"]
    connection, line = world.accept()
    line.give(b"GET / HTTP/1.1\r\n\r\n")
    assert connection.reasons == ["TLS: http request"]
    assert line.is_closed


def test_half_a_handshake_ends_after_a_time() -> None:
    world = World(pem_files(), {**STORES, "barnabas.authentication.timeout.ms": "5000"})
    connection, line = world.accept()
    line.give(b"\x16\x03\x01\x02")
    finished = world.connect()
    world.turns.advance(4_999)
    assert connection.reasons == []
    world.turns.advance(1)
    assert connection.reasons == ["no TLS handshake within 5000 ms"]
    assert line.is_closed
    assert finished.reasons == []


def test_a_client_that_waits_for_this_broker_has_more_time() -> None:
    later = Later()
    given = {**STORES, "barnabas.authentication.timeout.ms": "5000"}
    world = World(pem_files(), given, TlsWork(handshakes=later))
    connection, line = world.accept()
    line.give(client_hello())
    world.turns.advance(30_000)
    assert connection.reasons == []
    assert later.do_one()
    world.turns.advance(4_999)
    assert connection.reasons == []
    world.turns.advance(1)  # now it is the client who takes too long
    assert connection.reasons == ["no TLS handshake within 5000 ms"]


def client_hello() -> bytes:
    line = Line()
    client = TlsStream(
        User(), client_context_of(material(None), checks_host=True), TlsWork(), host="localhost",
        secured=lambda _stream: None,
    )  # fmt: skip
    client.connected(line)
    return bytes(line.written)


@pytest.mark.parametrize(
    ("given", "files", "message"),
    [
        ({}, {}, r"listener SSL: ssl.keystore.location, or ssl.keystore.key .* must be set"),
        (STORES, {}, r"ssl.keystore.location=/keys.pem: No such file or directory"),
        (
            STORES,
            {"keys": authority().certificate, "trust": ""},
            r"ssl.keystore.location=/keys.pem: no private key in it",
        ),
        (
            {**STORES, "listener.name.ssl.ssl.truststore.location": "/none.pem"},
            {"keys": issued("broker", "localhost").both},
            r"listener.name.ssl.ssl.truststore.location=/none.pem: No such file",
        ),
        (
            STORES,
            {"keys": issued("a").key + issued("b").certificate, "trust": authority().certificate},
            r"ssl.keystore.location=/keys.pem: key values mismatch",
        ),
        (
            STORES,
            {"keys": issued("broker", "localhost").both, "trust": authority("another authority").certificate},
            r"a client with these settings cannot connect to a server with them, ssl.keystore.location=/keys.pem, "
            r"ssl.truststore.location=/trust.pem: certificate not accepted",
        ),
        (
            {**STORES, "ssl.keystore.type": "PKCS12", "ssl.keystore.password": "hunter2"},
            {"keys": "x", "trust": authority().certificate},
            r"ssl.keystore.location=/keys.pem: it is neither PEM nor PKCS12 nor a Java key store",
        ),
        (
            {**JKS_STORES, "listener.name.ssl.ssl.keystore.password": "hunter2"},
            {"keys": key_jks("broker"), "trust": trust_jks()},
            r"ssl.keystore.location=/keys.pem: the password of the store is wrong, or its bytes were changed "
            r"\(see listener.name.ssl.ssl.keystore.password\)",
        ),
        (
            {name: text for name, text in JKS_STORES.items() if name != "ssl.key.password"},
            {"keys": key_jks("broker"), "trust": trust_jks()},
            r"ssl.keystore.location=/keys.pem: the private key has another password than the store \(alias 'own'\) "
            r"\(see ssl.key.password\)",
        ),
        (
            {**JKS_STORES, "ssl.truststore.password": "hunter2"},
            {"keys": key_jks("broker"), "trust": trust_jks()},
            r"ssl.truststore.location=/trust.pem: the password of the store is wrong.* \(see ssl.truststore.password\)",
        ),
        (
            JKS_STORES,
            {"keys": key_jks("broker")[:-40], "trust": trust_jks()},
            r"ssl.keystore.location=/keys.pem: the Java key store is damaged",
        ),
        (
            JKS_STORES,
            {"keys": key_jks("broker"), "trust": b"\xce\xce\xce\xce"},
            r"ssl.truststore.location=/trust.pem: it is a JCEKS store, which is not read; .*keytool -importkeystore",
        ),
        ({**STORES, "ssl.principal.mapping.rules": "FOO"}, None, r"ssl.principal.mapping.rules: Invalid rule: `FOO`"),
        (
            {**STORES, "ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"},  # the key is on a curve
            None,
            r"cannot connect to a server with them",
        ),
    ],
)
def test_what_cannot_be_served_stops_the_start(
    given: dict[str, str], files: dict[str, str | bytes] | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        World(pem_files() if files is None else Files(**files), given)
    assert "hunter2" not in str(refused.value)


async def test_the_network_to_brokers_has_the_current_context() -> None:
    files = pem_files()
    world = World(files, STORES)
    network = TlsNetwork(None, world.listeners.brokers_context())  # type: ignore[arg-type]
    world.listeners.keep_current(network)
    before = network.context
    assert before.check_hostname
    files.write("keys", authority().issue("broker", hosts=("localhost",)).both)
    await world.listeners.apply(BrokerSettings(world.given))
    assert network.context is not before


async def test_a_changed_file_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    files = pem_files()
    world = World(files, {**STORES, "ssl.allow.dn.changes": "true"})
    async with TaskScope("test") as tasks:
        world.listeners.watch(Queue(), tasks)  # type: ignore[arg-type]

        async def look() -> None:
            world.turns.advance(WATCH_PERIOD_MS)
            for _ in range(5):
                await asyncio.sleep(0)

        await look()
        files.write("keys", issued("renamed", "localhost").both)
        assert world.issuer_seen() == "CN=broker"
        await look()
        assert world.issuer_seen() == "CN=renamed"
        files.write("keys", "half a file")
        with caplog.at_level(logging.WARNING):
            await look()
            await look()
        assert [record.getMessage() for record in caplog.records] == [
            "certificates not replaced: listener=SSL error=ssl.keystore.location=/keys.pem: "
            "it is neither PEM nor PKCS12 nor a Java key store (JKS)"
        ]
        assert world.issuer_seen() == "CN=renamed"
        files.write("keys", issued("broker", "localhost").both)
        await look()
        assert world.issuer_seen() == "CN=broker"


@pytest.mark.parametrize("kind", ["JKS", "PKCS12", "PEM"])
async def test_java_stores_are_served_under_every_type_and_replaced(kind: str) -> None:
    """The type is the default one, JKS, or one that the file is not."""
    files = Files(keys=key_jks("broker"), trust=trust_jks())
    given = {**JKS_STORES, "ssl.keystore.type": kind}
    if kind == "PEM":
        del given["ssl.keystore.password"]
    world = World(files, given)
    assert world.issuer_seen() == "CN=broker"
    async with TaskScope("test") as tasks:
        world.listeners.watch(Queue(), tasks)  # type: ignore[arg-type]
        files.write("keys", key_jks("broker", "localhost", "more"))
        before = world.listeners.brokers_context()
        world.turns.advance(WATCH_PERIOD_MS)
        for _ in range(5):
            await asyncio.sleep(0)
        assert world.listeners.brokers_context() is not before


async def test_changes_are_checked_before_they_apply() -> None:
    files = pem_files()
    files.write("other", issued("other", "localhost").both)
    files.write("fewer", issued("broker").both)
    files.write("stranger", issued("broker", "localhost", by="another authority").both)
    files.write("next", authority().issue("broker", hosts=("localhost", "more")).both)
    world = World(files, STORES)

    def changed(**given: str) -> BrokerSettings:
        own = {f"listener.name.ssl.ssl.{name.replace('_', '.')}": text for name, text in given.items()}
        return BrokerSettings({**world.given, **own})

    for path, message in (
        ("/none.pem", "ssl.keystore.location=/none.pem: No such file"),
        ("/other.pem", "SSLFactory failed: listener SSL: Keystore DistinguishedName does not match"),
        ("/fewer.pem", "Keystore SubjectAltNames do not match"),
        ("/stranger.pem", "a client with these settings cannot connect"),
    ):
        with pytest.raises(ConfigError, match=message):
            await world.listeners.check(changed(keystore_location=path))
        await world.listeners.apply(changed(keystore_location=path))  # stored by a broker that could
        assert world.issuer_seen() == "CN=broker"
    files.write("keys", "half a file")
    await world.listeners.check(BrokerSettings({**world.given, "log.cleaner.threads": "3"}))  # is not about it
    files.write("keys", issued("broker", "localhost").both)
    with pytest.raises(ConfigError, match=r"for existing listener ListenerName\(SSL\), restart broker"):
        await world.listeners.check(changed(client_auth="required"))
    good = changed(keystore_location="/next.pem")
    before = world.listeners.brokers_context()
    await world.listeners.check(good)
    assert world.listeners.brokers_context() is before
    await world.listeners.apply(good)
    assert world.listeners.brokers_context() is not before
