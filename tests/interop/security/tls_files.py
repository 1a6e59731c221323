"""Certificates for the tests with real clients, on disk: PEM for those of C and Python, PKCS12 for those of Java."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate

from barnabas.certificates import Authority, IssuedCertificate

STORE_PASSWORD = "store-password"
HOSTS = ("localhost", "127.0.0.1")


class TlsFiles:
    """An authority, a broker's certificate and a client's, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority.create("interop authority")
        self.write("trust.pem", self.authority.certificate)
        self.issue("broker", HOSTS)
        self.issue("alice")
        authority = load_pem_x509_certificate(self.authority.certificate.encode())
        entries = [pkcs12.PKCS12Certificate(authority, b"authority")]
        (folder / "trust.p12").write_bytes(pkcs12.serialize_java_truststore(entries, self._encryption))

    @property
    def _encryption(self) -> BestAvailableEncryption:
        return BestAvailableEncryption(STORE_PASSWORD.encode())

    def issue(self, name: str, hosts: tuple[str, ...] = (), *, owner: str | None = None) -> IssuedCertificate:
        """NAME.pem has key and certificate, NAME.key and NAME.crt each of them, NAME.p12 both. The owner is NAME by default."""
        issued = self.authority.issue(owner or name, hosts=hosts)
        self.write(f"{name}.pem", issued.both)
        self.write(f"{name}.key", issued.key)
        self.write(f"{name}.crt", issued.certificate)
        key = load_pem_private_key(issued.key.encode(), None)
        certificate = load_pem_x509_certificate(issued.certificate.encode())
        store = pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, None, self._encryption)  # type: ignore[arg-type]
        (self.folder / f"{name}.p12").write_bytes(store)
        return issued

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def server(self, *, kind: str = "PEM") -> dict[str, str]:
        """The settings of a broker."""
        return self.stores("broker", kind)

    def java_client(self, name: str = "alice") -> Path:
        """Return a file with the settings of a Java client."""
        path = self.folder / f"{name}.properties"
        settings = {"security.protocol": "SSL", **self.stores(name, "PKCS12")}
        path.write_text("".join(f"{setting}={text}\n" for setting, text in settings.items()))
        return path

    def stores(self, name: str, kind: str) -> dict[str, str]:
        """The settings of who shows the certificate of a name. Java makes stores of kind JKS of those of kind PKCS12."""
        suffix = {"PEM": "pem", "PKCS12": "p12", "JKS": "jks"}[kind]
        if kind == "JKS":
            for each in (name, "trust"):
                self._as_jks(each)
        settings = {
            "ssl.keystore.type": kind, "ssl.keystore.location": self.path(f"{name}.{suffix}"),
            "ssl.truststore.type": kind, "ssl.truststore.location": self.path(f"trust.{suffix}"),
        }  # fmt: skip
        if kind != "PEM":
            settings |= {"ssl.keystore.password": STORE_PASSWORD, "ssl.truststore.password": STORE_PASSWORD}
        return settings

    def _as_jks(self, name: str) -> None:
        command = ["keytool", "-importkeystore", "-noprompt", "-srcstoretype", "PKCS12", "-deststoretype", "JKS"]
        command += ["-srckeystore", self.path(f"{name}.p12"), "-destkeystore", self.path(f"{name}.jks")]
        command += ["-srcstorepass", STORE_PASSWORD, "-deststorepass", STORE_PASSWORD]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def librdkafka_client(self, name: str = "alice") -> Mapping[str, str]:
        return {
            "security.protocol": "ssl", "ssl.ca.location": self.path("trust.pem"),
            "ssl.certificate.location": self.path(f"{name}.crt"), "ssl.key.location": self.path(f"{name}.key"),
        }  # fmt: skip
