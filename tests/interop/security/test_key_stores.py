"""Stores of Java's keytool: our readers and Java's have the same of new ones, and both ends of a connection may have JKS."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.interop.conftest import need_java
from tests.interop.security.tls_files import STORE_PASSWORD, TlsFiles
from tests.oracle import key_stores, tools
from tests.oracle.barnabas import Barnabas
from tests.oracle.ports import lasting_port
from tests.security.stores.java_answers import verify

KEY_PASSWORD = "key-password"


def test_java_has_the_same_of_new_stores() -> None:
    """Two questions a store: the recorded answers have the others."""
    need_java()
    with key_stores.Jvm() as jvm:
        for name, store in key_stores.stores(jvm):
            asked = [question for question in key_stores.questions(name) if question["type"] in name.split()][:2]
            for question in asked:
                case = key_stores.answered(jvm, store, question)
                verify(case, store, case)


def jks(files: TlsFiles, name: str) -> dict[str, str]:
    """The settings of JKS stores, of the default type, that keytool makes of the PKCS12 ones: the key has its own password."""

    def keytool(*arguments: str) -> None:
        subprocess.run(["keytool", *arguments], cwd=files.folder, check=True, capture_output=True, timeout=60)

    common = ("-importkeystore", "-noprompt", "-deststoretype", "JKS", "-deststorepass", STORE_PASSWORD)
    for store in (name, "trust"):
        if not Path(files.path(f"{store}.jks")).exists():
            source = ("-srckeystore", f"{store}.p12", "-srcstorepass", STORE_PASSWORD)
            key = ("-srcalias", name, "-destkeypass", KEY_PASSWORD) if store == name else ()
            keytool(*common, *source, "-destkeystore", f"{store}.jks", *key)
    return {
        "ssl.keystore.location": files.path(f"{name}.jks"), "ssl.keystore.password": STORE_PASSWORD,
        "ssl.key.password": KEY_PASSWORD,
        "ssl.truststore.location": files.path("trust.jks"), "ssl.truststore.password": STORE_PASSWORD,
    }  # fmt: skip


@pytest.mark.interop
def test_java_clients_and_a_broker_with_jks(tmp_path: Path) -> None:
    need_java()
    files, broker, port = TlsFiles(tmp_path), Barnabas(), lasting_port()
    broker.port = lasting_port()
    broker.settings |= {
        **jks(files, "broker"), "ssl.client.auth": "required",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker.port},SSL://localhost:{port}",
    }  # fmt: skip
    client = tmp_path / "client.properties"
    settings = {"security.protocol": "SSL", **jks(files, "alice")}
    client.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    with broker:
        server, lines = ["--bootstrap-server", f"localhost:{port}"], [f"line {number}" for number in range(20)]
        sending = [*server, "--topic", "t", "--producer.config", str(client)]
        tools.run("console-producer", sending, standard_input="".join(f"{line}\n" for line in lines))
        taking = [*server, "--topic", "t", "--consumer.config", str(client), "--from-beginning", "--max-messages", "20"]
        output = tools.run("console-consumer", [*taking, "--timeout-ms", "60000"], timeout_s=150)
        assert [line for line in output.splitlines() if line.startswith("line ")] == lines
