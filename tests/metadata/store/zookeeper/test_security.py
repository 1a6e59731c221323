"""Who we are to ZooKeeper and who it is to us: SASL, TLS, and what the settings ask for."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from broker.cluster.zookeeper_tls import zookeeper_tls
from config.broker import BrokerSettings
from config.errors import ConfigError
from metadata.store.port import AccessDeniedError, Acl
from metadata.store.zookeeper import wire
from metadata.store.zookeeper.options import ZooKeeperOptions
from metadata.store.zookeeper.sasl import DigestMd5, DigestMd5Server, SaslCredentials
from metadata.store.zookeeper.session import ZooKeeperRequest
from metadata.store.zookeeper.wire import OpCode, Reader
from protocol.primitives import DecodeError
from runtime.disk.os_filesystem import OsFileSystem
from tests.metadata.store.conformance import raises
from tests.metadata.store.zookeeper_world import Client, client_of, open_client
from tests.oracle import java
from tests.oracle.ports import lasting_port
from tests.oracle.store_server import StoreServerProcess
from tests.oracle.zookeeper import ZooKeeper

# --- DIGEST-MD5 ---

CHALLENGE = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'


def rfc_exchange() -> DigestMd5:
    return DigestMd5(SaslCredentials("chris", "secret"), "OA6MHXh6VqTrRk", "imap/elwood.innosoft.com")


def test_the_example_of_the_rfc() -> None:
    exchange = rfc_exchange()
    assert exchange.first() == b""
    response = exchange.answer(CHALLENGE)
    assert response is not None
    assert b",response=d388dad90d4bbd760a152321f2143af7," in response
    assert exchange.answer(b"rspauth=ea40f60335c427b5527b84dbabcdfffd") is None


def test_a_server_that_does_not_know_the_password_is_left() -> None:
    exchange = rfc_exchange()
    exchange.answer(CHALLENGE)
    with pytest.raises(DecodeError):
        exchange.answer(b"rspauth=ea40f60335c427b5527b84dbabcdfffe")


def test_both_sides_prove_that_they_know_the_password() -> None:
    for username, password, is_known in (("u", "secret", True), ("u", "wrong", False), ("nobody", "", False)):
        client, server = DigestMd5(SaslCredentials(username, password), "cn"), DigestMd5Server({"u": "secret"}, "sn")
        response = client.answer(server.answer(client.first()))
        assert response is not None
        if is_known:
            assert client.answer(server.answer(response)) is None
            assert server.username == "u"
        with pytest.raises(DecodeError):
            server.answer(response)
        assert (server.username == "u") is is_known


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"username=\"u\"", b"username=\"v\""), (b"nonce=\"sn\"", b"nonce=\"other\""), (b"nc=00000001", b"nc=00000002"),
        (b"zookeeper/", b"imap/"), (b"qop=auth", b"qop=auth-int"), (b"qop=auth", b"authzid=\"boss\",qop=auth"),
        (b"realm=\"zk", b"realm=\"sk"), (b"response=", b"response=0"), (b"cnonce=\"cn\"", b"cnonce=\"\""),
    ],
)  # fmt: skip
def test_a_response_that_is_not_to_the_challenge_proves_nothing(old: bytes, new: bytes) -> None:
    client, server = DigestMd5(SaslCredentials("u", "secret"), "cn"), DigestMd5Server({"u": "secret", "v": "x"}, "sn")
    response = client.answer(server.answer(b""))
    assert response is not None and old in response
    with pytest.raises(DecodeError):
        server.answer(response.replace(old, new))
    assert server.username is None


@pytest.mark.parametrize("challenge", [b"", b"nonce=", b'nonce="a",qop="auth-conf"', b"\xff", b"=", b'nonce="a'])
def test_a_challenge_that_is_none_is_a_decode_error(challenge: bytes) -> None:
    with pytest.raises(DecodeError):
        rfc_exchange().answer(challenge)


def test_names_and_passwords_may_hold_anything() -> None:
    response = DigestMd5(SaslCredentials('a"b\\c', "p"), "n").answer(b'nonce="x\\"y"')
    assert response is not None
    assert b'username="a\\"b\\\\c"' in response
    assert b'nonce="x\\"y"' in response
    assert "p" not in repr(SaslCredentials("a", "p")).replace("SaslCredentials", "").replace("username", "")


# --- settings ---


def options(**given: str) -> ZooKeeperOptions:
    texts = {name.replace("__", "."): text for name, text in given.items()}
    settings = BrokerSettings.from_sources({"zookeeper.connect": "a:1,b/c", **texts}, {}, {})
    return ZooKeeperOptions.of(settings, zookeeper_tls(settings, OsFileSystem()))


def test_defaults_are_kafkas() -> None:
    known = options()
    assert (known.session_timeout_ms, known.connection_timeout_ms, known.is_secure) == (18_000, 18_000, False)
    assert known.in_flight_requests_max > 1_000
    assert options(zookeeper__max__in__flight__requests="7").in_flight_requests_max == 7
    assert options(zookeeper__connection__timeout__ms="5").connection_timeout_ms == 5


def test_access_lists_need_an_identity() -> None:
    with pytest.raises(ConfigError, match=r"zookeeper.set.acl"):
        options(zookeeper__set__acl="true")
    sasl = {"barnabas__zookeeper__sasl__username": "u", "barnabas__zookeeper__sasl__password": "p"}
    assert options(zookeeper__set__acl="true", **sasl).sasl == SaslCredentials("u", "p")
    with pytest.raises(ConfigError, match="go together"):
        options(barnabas__zookeeper__sasl__username="u")


# --- the real one, and the store server ---


@pytest.fixture
def needs_java() -> None:
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)


BOTH = [pytest.param("zookeeper", marks=pytest.mark.oracle), "store server"]


@pytest.fixture(params=BOTH)
def sasl_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ZooKeeper | StoreServerProcess]:
    if request.param == "store server":
        users = {"barnabas.sasl.user.broker": "secret", "barnabas.sasl.user.other": "word"}
        with StoreServerProcess(tmp_path, users) as store:
            yield store
        return
    request.getfixturevalue("needs_java")
    jaas = tmp_path / "jaas.conf"
    module = "org.apache.zookeeper.server.auth.DigestLoginModule"
    jaas.write_text(f'Server {{ {module} required user_broker="secret" user_other="word"; }};')
    provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
    server = ZooKeeper(properties={"authProvider.1": provider})
    server.environment = {"JAVA_TOOL_OPTIONS": f"-Djava.security.auth.login.config={jaas}"}
    with server:
        yield server


async def test_sasl_lets_us_own_our_nodes(sasl_server: ZooKeeper | StoreServerProcess) -> None:
    connect = sasl_server.connect
    broker = {"is_secure": True, "sasl": SaslCredentials("broker", "secret")}
    async with client_of(connect, **broker) as client:
        await client.store.create("/config")
        await client.store.create("/config/users", b"secret")
        assert (await client.store.get("/config/users"))[0] == b"secret"
    async with client_of(connect, **broker) as later:
        assert (await later.store.get("/config/users"))[0] == b"secret"
    for stranger in ({}, {"sasl": SaslCredentials("other", "word")}):
        async with client_of(connect, **stranger) as client:
            await raises(AccessDeniedError, client.store.get("/config/users"))
    with pytest.raises(ConnectionError, match="no session within"):
        await open_client(connect, sasl=SaslCredentials("broker", "wrong"), connection_timeout_ms=1_500)


def certificates(folder: Path) -> None:
    """ca.pem, and server.pem and client.pem that it vouches for, each with its key."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "rsa:2048", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=ca")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
    for name in ("server", "client"):
        openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                "-extfile", "names", "-out", f"{name}.crt")  # fmt: skip
        both = (folder / f"{name}.key").read_text() + (folder / f"{name}.crt").read_text()
        (folder / f"{name}.pem").write_text(both)


def java_stores(folder: Path) -> tuple[Path, Path]:
    """A trust store and a key store that keytool makes of the same."""

    def run(*command: str) -> None:
        subprocess.run(command, cwd=folder, check=True, capture_output=True)

    store, secret = ("-storetype", "JKS", "-storepass", "secret-word"), ("-passout", "pass:secret-word")
    run("keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", "ca.pem", "-keystore", "trust.jks", *store)
    run("openssl", "pkcs12", "-export", "-in", "client.pem", "-name", "own", "-out", "client.p12", *secret)
    source = ("-srckeystore", "client.p12", "-srcstoretype", "PKCS12", "-srcstorepass", "secret-word")
    target = ("-destkeystore", "client.jks", "-deststoretype", "JKS", "-deststorepass", "secret-word")
    run("keytool", "-importkeystore", "-noprompt", *source, *target)
    return folder / "trust.jks", folder / "client.jks"


async def acl_of(client: Client, path: str) -> list[Acl]:
    request = ZooKeeperRequest(OpCode.GET_ACL, wire.path_body(path), path, Reader.acls, is_repeatable=True)
    return cast(list[Acl], await client.store.session().client.call(request))


@pytest.fixture(params=BOTH)
def tls_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    certificates(tmp_path)
    port = lasting_port()
    properties = {
        "secureClientPort": str(port),
        "secureClientPortAddress": "127.0.0.1",
        "ssl.keyStore.location": str(tmp_path / "server.pem"),
        "ssl.trustStore.location": str(tmp_path / "ca.pem"),
    }
    server: ZooKeeper | StoreServerProcess
    if request.param == "store server":
        server = StoreServerProcess(properties={**properties, "X509AuthenticationProvider.superUser": "CN=boss"})
    else:
        request.getfixturevalue("needs_java")
        netty = "org.apache.zookeeper.server.NettyServerCnxnFactory"
        server = ZooKeeper(properties={**properties, "serverCnxnFactory": netty})
    with server:
        yield f"127.0.0.1:{port}", tmp_path


@pytest.mark.parametrize("kind", ["PEM", pytest.param("JKS", marks=pytest.mark.oracle)])  # keytool makes it
def test_tls_proves_both_ends(tls_server: tuple[str, Path], kind: str) -> None:
    connect, folder = tls_server
    trust, own = (folder / "ca.pem", folder / "client.pem") if kind == "PEM" else java_stores(folder)
    tls = {"zookeeper__ssl__client__enable": "true", "zookeeper__ssl__truststore__location": str(trust)}
    known = options(
        zookeeper__ssl__keystore__location=str(own),
        zookeeper__set__acl="true",
        **(tls if kind == "PEM" else {**tls, "zookeeper__ssl__keystore__password": "secret-word"}),
    )

    async def run() -> None:
        async with client_of(connect, tls=known.tls, is_secure=known.is_secure) as client:
            await client.store.create("/a", bytes(300_000))
            assert len((await client.store.get("/a"))[0]) == 300_000
            client.store.session().client._link.abort()  # type: ignore[union-attr]
            assert await client.store.exists("/a") is not None
            await client.store.create("/a/b")
            owner = [("x509", "CN=client"), ("world", "anyone")]
            assert [(row.scheme, row.identity) for row in await acl_of(client, "/a")] == owner
        unknown = options(**tls)
        with pytest.raises(ConnectionError, match="no session within"):
            await open_client(connect, tls=unknown.tls, connection_timeout_ms=1_500)
        distrustful = options(
            zookeeper__ssl__client__enable="true", zookeeper__ssl__truststore__location=str(folder / "client.crt.pem")
        )
        with pytest.raises(ConnectionError, match="certificate verify failed"):
            await open_client(connect, tls=distrustful.tls, connection_timeout_ms=6_000)

    (folder / "client.crt.pem").write_text((folder / "client.crt").read_text())
    asyncio.run(run())
