"""`barnabas users`: in the data directory before the first start, and at a broker; the password is shown nowhere."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from barnabas.commands import main
from barnabas.embedded import EmbeddedBroker
from broker.commands import users
from metadata.store.store_file import FILE_NAME
from tests.broker.test_sasl_start import logged_in, running, scram

SECRET = "bob-secret"


@pytest.fixture
def password_file(tmp_path: Path) -> str:
    path = tmp_path / "password"
    path.write_text(f"{SECRET}\n")
    return str(path)


@pytest.fixture
def barnabas(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command in a thread of its own, which has no event loop yet; returns code, output and problems."""

    def run(*arguments: str) -> tuple[int, str, str]:
        codes: list[int] = []
        thread = threading.Thread(target=lambda: codes.append(main(["users", *arguments])))
        thread.start()
        thread.join()
        output = capsys.readouterr()
        assert SECRET not in output.out + output.err
        return codes[0], output.out, output.err

    return run


Run = Callable[..., tuple[int, str, str]]
CREATE = ("create", "bob", "--mechanism", "SCRAM-SHA-256", "--password-file")


def test_the_store_of_several_brokers_is_found(tmp_path: Path, password_file: str, barnabas: Run) -> None:
    (tmp_path / "barnabas_store").mkdir()
    assert barnabas(*CREATE, password_file, "--data-dir", str(tmp_path))[0] == 0
    assert (tmp_path / "barnabas_store" / FILE_NAME).exists()
    assert not (tmp_path / FILE_NAME).exists()


def test_users_are_there_before_the_first_start(tmp_path: Path, password_file: str, barnabas: Run) -> None:
    folder = tmp_path / "data"
    at = ("--data-dir", str(folder))
    assert barnabas("list", *at) == (0, "", "")
    assert barnabas(*CREATE, password_file, *at) == (0, "SCRAM-SHA-256 password of bob is set\n", "")
    second = ("create", "bob", "--mechanism", "SCRAM-SHA-512", "--iterations", "8192", "--password-file", password_file)
    assert barnabas(*second, *at)[0] == 0
    shown = barnabas("list", *at)[1]
    assert shown.startswith("bob  ") and "SCRAM-SHA-256 (4096 iterations)" in shown
    assert "SCRAM-SHA-512 (8192 iterations)" in shown

    async def login() -> None:
        async with running(folder) as broker:
            assert await logged_in(broker, "SCRAM-SHA-256", scram(SECRET)) == 0

    uvloop.run(login())
    assert barnabas("delete", "bob", "--mechanism", "SCRAM-SHA-512", *at, "--execute")[0] == 0
    assert barnabas("list", *at)[1] == "bob  SCRAM-SHA-256 (4096 iterations)\n"
    dry = "nothing was deleted: --execute deletes the SCRAM-SHA-256 password of bob\n"
    assert barnabas("delete", "bob", *at) == (0, "", dry)
    assert barnabas("delete", "bob", *at, "--execute") == (0, "SCRAM-SHA-256 password of bob is deleted\n", "")
    assert barnabas("list", *at) == (0, "", "")
    assert barnabas("delete", "bob", *at)[2].startswith("barnabas: bob has no password (`barnabas users list`")


def test_users_as_json(tmp_path: Path, password_file: str, barnabas: Run) -> None:
    at = ("--data-dir", str(tmp_path / "data"), "--json")
    assert json.loads(barnabas("list", *at)[1]) == []
    made = barnabas("alter", "bob", "--mechanism", "SCRAM-SHA-512", "--password-file", password_file, *at)
    assert json.loads(made[1]) == {
        "user": "bob", "result": "set", "mechanisms": ["SCRAM-SHA-512"], "iterations": 4096
    }  # fmt: skip
    bob = {"user": "bob", "credentials": [{"mechanism": "SCRAM-SHA-512", "iterations": 4096}]}
    assert json.loads(barnabas("list", *at)[1]) == [bob]
    assert json.loads(barnabas("describe", "bob", *at)[1]) == bob
    code, shown, problem = barnabas("describe", "carol", *at)
    assert (code, shown) == (1, "") and "`barnabas users list`" in problem
    assert json.loads(barnabas("delete", "bob", *at)[1]) == {"user": "bob", "mechanisms": ["SCRAM-SHA-512"]}
    assert json.loads(barnabas("delete", "bob", *at, "--execute")[1])["result"] == "deleted"


def test_at_a_running_broker(
    tmp_path: Path, password_file: str, barnabas: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, config = tmp_path / "data", tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        'sasl.jaas.config=x.PlainLoginModule required username="alice" password="alice-secret";\n'
    )

    async def in_thread(*arguments: str) -> tuple[int, str, str]:
        import asyncio

        return await asyncio.to_thread(barnabas, *arguments)

    async def run() -> None:
        async with running(folder) as broker:
            plain, guarded = broker.bound["BROKERS"], broker.bound["CLIENTS"]
            assert (await in_thread(*CREATE, password_file, "--bootstrap-server", str(plain)))[0] == 0
            assert await logged_in(broker, "SCRAM-SHA-256", scram(SECRET)) == 0
            secured = ("--bootstrap-server", str(guarded), "--config", str(config))
            assert "bob  SCRAM-SHA-256" in (await in_thread("list", *secured))[1]
            assert (await in_thread("delete", "bob", *secured, "--execute"))[0] == 0
            assert (await in_thread("list", *secured))[1] == ""
            config.write_text(config.read_text().replace("alice-secret", "wrong"))
            (tmp_path / "barnabas").mkdir()
            profile = tmp_path / "barnabas" / "here.properties"
            profile.write_text(f"bootstrap.servers=127.0.0.1:1,{plain}\n")
            monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
            assert (await in_thread("list", "--profile", "here")) == (0, "", "")
            monkeypatch.setenv("BARNABAS_PROFILE", "here")
            assert (await in_thread("list")) == (0, "", "")
            monkeypatch.setenv("BARNABAS_PROFILE", "missing")
            assert "missing.properties" in (await in_thread("list"))[2]
            code, _, problem = await in_thread("list", *secured)
            assert code == 1 and "Invalid username or password" in problem and "wrong" not in problem
            code, _, problem = await in_thread(*CREATE, password_file, "--data-dir", str(folder))
            assert code == 1 and "does the broker run? then use --bootstrap-server" in problem

    uvloop.run(run())


def test_at_a_broker_that_asks_for_certificates(tmp_path: Path, password_file: str, barnabas: Run) -> None:
    config = tmp_path / "client.properties"
    with EmbeddedBroker(security="ssl") as broker:
        assert broker._security is not None
        lines = broker._security.java_settings().items()
        config.write_text("".join(f"{name}={value}\n" for name, value in lines))
        at = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", str(config))
        assert barnabas(*CREATE, password_file, *at) == (0, "SCRAM-SHA-256 password of bob is set\n", "")
        assert "bob" in barnabas("list", *at)[1]
        config.write_text(f"security.protocol=SSL\nssl.truststore.location={password_file}\nssl.truststore.type=PEM\n")
        code, _, problem = barnabas("list", *at)
        assert code == 2 and problem.startswith(f"barnabas: ssl.truststore.location={password_file}: ")
        code, _, problem = barnabas("list", "--bootstrap-server", broker.bootstrap_servers)
        assert code == 1 and broker.bootstrap_servers in problem


def test_a_password_from_the_standard_input(tmp_path: Path, barnabas: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Standard:
        buffer = io.BytesIO(SECRET.encode())

    monkeypatch.setattr(users.sys, "stdin", Standard)  # type: ignore[attr-defined]
    assert barnabas(*CREATE, "-", "--data-dir", str(tmp_path / "data"))[0] == 0


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "must hold one line, the password"),
        (b"\n", "must hold one line, the password"),
        (b"bob-secret\nbob-secret\n", "must hold one line, the password"),
        (b"\xff\xfe", "is not in UTF-8"),
        (b"x" * 5000, "has more than 4096 bytes"),
    ],
)
def test_files_that_hold_no_password(tmp_path: Path, barnabas: Run, content: bytes, problem: str) -> None:
    path = tmp_path / "password"
    path.write_bytes(content)
    code, _, said = barnabas(*CREATE, str(path), "--data-dir", str(tmp_path / "data"))
    assert code == 2 and problem in said


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("create", "bob", "--mechanism", "SCRAM-SHA-256", "--iterations", "1"), 2, "from 4096 to 16384"),
        (("create", "jürgen", "--mechanism", "SCRAM-SHA-256"), 2, "ASCII characters only"),
        (("create", "", "--mechanism", "SCRAM-SHA-256"), 2, "one of them at least"),
    ],
)
def test_mistakes(
    tmp_path: Path, password_file: str, barnabas: Run, arguments: tuple[str, ...], code: int, problem: str
) -> None:
    found = barnabas(*arguments, "--password-file", password_file, "--data-dir", str(tmp_path / "data"))
    assert found[0] == code and problem in found[2]
    assert not (tmp_path / "data").exists()


def test_nobody_at_the_address(barnabas: Run, tmp_path: Path) -> None:
    code, _, problem = barnabas("list", "--bootstrap-server", "127.0.0.1:1")
    assert code == 1 and problem.startswith("barnabas: ")
    assert barnabas("list", "--bootstrap-server", "nonsense:x")[0] == 2
    assert barnabas("list", "--bootstrap-server", "127.0.0.1:1", "--config", str(tmp_path / "missing"))[0] == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("security.protocol=TLS", "security.protocol=TLS is not one of"),
        ("security.protocol=SASL_SSL", "sasl.mechanism is missing: it is one of PLAIN"),
        ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN", "sasl.username is missing"),
        (
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=x.PlainLoginModule required "
            "password=bob-secret;",
            "sasl.jaas.config has no username",
        ),
        (
            "security.protocol=SSL\nssl.truststore.location=/missing.pem",
            "ssl.truststore.location=/missing.pem: No such file",
        ),
    ],
)
def test_settings_of_a_client_that_are_wrong(tmp_path: Path, barnabas: Run, text: str, problem: str) -> None:
    path = tmp_path / "client.properties"
    path.write_text(text)
    code, _, said = barnabas("list", "--bootstrap-server", "127.0.0.1:1", "--config", str(path))
    assert code == 2 and problem in said


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("create", "bob", "--data-dir", "x"),
        ("list", "--data-dir", "x", "--zookeeper", "y"),
        ("create", "bob", "secret"),
    ],
)
def test_arguments_that_are_missing(arguments: tuple[str, ...]) -> None:
    assert main(["users", *arguments]) == 2


def test_an_address_without_a_broker_is_told_with_the_reason(barnabas: Run) -> None:
    assert barnabas("list", "--bootstrap-server", "127.0.0.1:1") == (
        1, "", "barnabas: no broker answers at 127.0.0.1:1: 127.0.0.1:1 refuses connections: nothing listens there\n"
    )  # fmt: skip
    with EmbeddedBroker(security="ssl") as broker:
        server = broker.bootstrap_servers
        code, _, problem = barnabas("list", "--bootstrap-server", server)
    assert code == 1
    assert f"{server} speaks TLS: security.protocol=PLAINTEXT does not, SSL does" in problem
    with socket.create_server(("127.0.0.1", 0)) as http:
        threading.Thread(target=answer_as_http, args=(http,), daemon=True).start()
        server = f"127.0.0.1:{http.getsockname()[1]}"
        code, _, problem = barnabas("list", "--bootstrap-server", server)
        http.shutdown(socket.SHUT_RDWR)
    assert code == 1
    assert f"an HTTP server answers at {server}, no Kafka broker" in problem.splitlines()[-1]


def answer_as_http(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
