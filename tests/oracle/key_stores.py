"""What Apache Kafka 3.9.1 on Java reads from key stores of many kinds: what it shows as a server, and what it trusts.

The recording is a JSON file: `stores` by name, in base64; `cases`, each a question to `KeyStores.java` about a store, with its
answer; `orders`, which of the aliases of a store (in the order of its file) Java's key manager chooses.
`python -m tests.oracle.key_stores` makes new stores, asks, and writes the recording anew.
"""

from __future__ import annotations

import base64
import datetime
import functools
import json
import random
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, NoEncryption, pkcs12
from cryptography.x509.oid import NameOID

from tests.oracle import java

STORES = java.HERE.parent / "security" / "stores" / "java-stores.json"
PASSWORD = "secret1"
KEY_PASSWORD = "secret2"
BOUNCY_CASTLE = ("BKS", "UBER", "BCFKS")
_MAKERS = {
    "EC": lambda: ec.generate_private_key(ec.SECP256R1()),
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
    "DSA": lambda: dsa.generate_private_key(2048),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}
_FEW_ITERATIONS = {f"keystore.pkcs12.{kind}IterationCount": "100" for kind in ("keyPbe", "certPbe", "mac")}
_LEGACY = {"keystore.pkcs12.legacy": "true"}
_NO_PASSWORD = {"keystore.pkcs12.certProtectionAlgorithm": "NONE", "keystore.pkcs12.macAlgorithm": "NONE"}
_OTHERS = [
    {"keystore.pkcs12.certProtectionAlgorithm": certificates, "keystore.pkcs12.keyProtectionAlgorithm": keys,
     "keystore.pkcs12.macAlgorithm": mac}
    for certificates, keys, mac in (
        ("PBEWithSHA1AndRC4_128", "PBEWithSHA1AndRC4_40", "HmacPBESHA1"),
        ("PBEWithSHA1AndRC2_128", "PBEWithSHA1AndDESede", "HmacPBESHA512"),
        ("PBEWithHmacSHA1AndAES_128", "PBEWithHmacSHA512AndAES_256", "HmacPBESHA384"),
        ("NONE", "PBEWithSHA1AndRC2_40", "HmacPBESHA256"),
    )
]  # fmt: skip


@dataclass
class Identity:
    """A key of a kind, with the certificate for `name`, signed by another identity or by itself."""

    name: str
    kind: str = "EC"
    signer: Identity | None = None
    key: Any = field(init=False)
    certificate: x509.Certificate = field(init=False)

    def __post_init__(self) -> None:
        self.key = _MAKERS[self.kind]()  # type: ignore[no-untyped-call]
        signer = self.signer or self
        self.certificate = (
            x509.CertificateBuilder()
            .subject_name(_name(self.name))
            .issuer_name(_name(signer.name))
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
            .not_valid_after(datetime.datetime(2120, 1, 1, tzinfo=datetime.UTC))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(signer.key, None if signer.kind == "EdDSA" else hashes.SHA256())
        )

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    @property
    def chain(self) -> list[bytes]:
        return [self.der] if self.signer is None else [self.der, *self.signer.chain]

    def entry(self, alias: str, password: str = PASSWORD, *, length: int = 9) -> dict[str, Any]:
        """A key entry with the first `length` certificates of the chain, for `Jvm.make`."""
        key = self.key.private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        chain = [_base64(each) for each in self.chain[:length]]
        return {"alias": alias, "key": _base64(key), "algorithm": self.kind, "password": password, "chain": chain}

    def trusted(self, alias: str) -> dict[str, Any]:
        return {"alias": alias, "chain": [_base64(self.der)]}

    def pem(self) -> bytes:
        key = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return bytes(key) + self.certificate.public_bytes(serialization.Encoding.PEM)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


class Jvm:
    """A JVM that runs `KeyStores.java`."""

    def __enter__(self) -> Self:
        command = java.command("", [], options=(*java.QUICK_START, "-Dfile.encoding=UTF-8"))
        command[-1:] = [str(java.HERE / "KeyStores.java")]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, encoding="utf-8")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def make(
        self, kind: str, entries: Sequence[Mapping[str, Any]], password: str = PASSWORD, **properties: str
    ) -> bytes:
        question = {"make": kind, "password": password, "entries": entries, "properties": _FEW_ITERATIONS | properties}
        return base64.b64decode(self.ask(question)["store"])


def made_by_keytool(kind: str, password: str, *, is_trust: bool, jar: Path | None = None) -> bytes:
    """A store with a key of its own for CN=keytool, or with that key's certificate alone."""
    with tempfile.TemporaryDirectory() as folder:
        provider = [] if jar is None else ["-providerpath", str(jar)]
        provider += [] if jar is None else ["-providerclass", "org.bouncycastle.jce.provider.BouncyCastleProvider"]

        def keytool(*arguments: str) -> None:
            common = ["-storetype", kind, "-storepass", password, *provider]
            subprocess.run(
                ["keytool", *arguments, *common], cwd=folder, check=True, capture_output=True, stdin=subprocess.DEVNULL
            )

        own = ["-keyalg", "EC", "-dname", "CN=keytool", "-validity", "36500"]
        passwords = [] if kind == "PKCS12" else ["-keypass", password]
        keytool("-genkeypair", "-alias", "own", *own, "-keystore", "keys", *passwords)
        if is_trust:
            keytool("-exportcert", "-alias", "own", "-file", "certificate", "-keystore", "keys")
            keytool("-importcert", "-noprompt", "-alias", "ca", "-file", "certificate", "-keystore", "trust")
        return Path(folder, "trust" if is_trust else "keys").read_bytes()


def stores(jvm: Jvm) -> Iterator[tuple[str, bytes]]:
    """Yield stores by name."""
    ca = Identity("ca")
    middle, two = Identity("middle", signer=ca), Identity("two", signer=ca)
    one = Identity("one", signer=middle)
    rsa_key, dsa_key, ed = Identity("rsa", "RSA"), Identity("dsa", "DSA"), Identity("ed", "EdDSA")
    for kind in ("JKS", "PKCS12"):
        make = functools.partial(jvm.make, kind)
        yield f"{kind} keys with chain, and trusted", make([one.entry("one"), ca.trusted("ca")])
        yield f"{kind} keys with another password", make([one.entry("one", KEY_PASSWORD), ca.trusted("ca")])
        yield f"{kind} keys with two passwords", make([one.entry("one"), two.entry("two", KEY_PASSWORD)])
        yield f"{kind} trusted only", make([ca.trusted("ca"), middle.trusted("middle")])
        yield f"{kind} empty", make([])
        yield f"{kind} RSA", make([rsa_key.entry("key")])
        yield f"{kind} Ed25519", make([ed.entry("key")])
        yield f"{kind} DSA", make([dsa_key.entry("key")])
        yield f"{kind} all kinds", make([each.entry(each.name) for each in (dsa_key, rsa_key, ed, one)])
        yield f"{kind} several", make([each.entry(each.name) for each in (two, one, middle, ca)])
        yield f"{kind} short chain", make([one.entry("one", length=1), middle.trusted("m"), ca.trusted("ca")])
        yield f"{kind} chain without root", make([one.entry("one", length=2)])
        yield f"{kind} alias twice", make([ca.trusted("Alias"), middle.trusted("ALIAS")])
        yield f"{kind} alias beyond ASCII", make([one.entry("Ä\U0001f600"), ca.trusted("ß")])
    yield "JKS password beyond ASCII", jvm.make("JKS", [one.entry("one", "pä\U0001f600")], "pä\U0001f600")
    entries = [one.entry("one"), ca.trusted("ca")]
    yield "PKCS12 legacy", jvm.make("PKCS12", entries, **_LEGACY)
    yield "PKCS12 without a password", jvm.make("PKCS12", entries[1:], **_NO_PASSWORD)
    for number, properties in enumerate(_OTHERS):
        yield f"PKCS12 algorithms {number}", jvm.make("PKCS12", entries, **properties)
    yield from _by_others(ca, middle, one)


def _by_others(ca: Identity, middle: Identity, one: Identity) -> Iterator[tuple[str, bytes]]:
    """What OpenSSL writes, and keytool."""
    encryption = BestAvailableEncryption(PASSWORD.encode())
    others = [ca.certificate, middle.certificate]
    write = pkcs12.serialize_key_and_certificates
    yield "PKCS12 of OpenSSL, keys", write(b"x", one.key, one.certificate, others, encryption)
    yield "PKCS12 of OpenSSL, certificates", write(None, None, None, others, encryption)
    yield "PKCS12 of OpenSSL, not encrypted", write(b"x", one.key, one.certificate, others, NoEncryption())
    trusted = [pkcs12.PKCS12Certificate(ca.certificate, None), pkcs12.PKCS12Certificate(middle.certificate, b"m")]
    yield "PKCS12 of OpenSSL, trusted", pkcs12.serialize_java_truststore(trusted, encryption)
    import pyspark

    (jar,) = Path(pyspark.__file__).parent.glob("jars/bcprov-*.jar")
    for kind in ("JKS", "PKCS12", "JCEKS", *BOUNCY_CASTLE):
        provider = jar if kind in BOUNCY_CASTLE else None
        for is_trust in (False, True):
            name = "trust" if is_trust else "keys"
            yield f"form {kind} {name}", made_by_keytool(kind, PASSWORD, is_trust=is_trust, jar=provider)
    yield "form PEM keys", one.pem()
    yield "form PEM trust", ca.pem()


def questions(name: str) -> Iterator[dict[str, Any]]:
    """Yield what is asked about a store: by its form and type, and by passwords."""
    if name.startswith("form "):
        for kind in ("JKS", "PKCS12", "JCEKS", "PEM", "pkcs12"):  # PEM may have no password
            password = None if kind == "PEM" else PASSWORD
            what = "trust" if name.endswith("trust") else "keys"
            yield {what: name, "type": kind, "password": password, "key_password": None}
        return
    kind = name.partition(" ")[0]
    if name.endswith("legacy"):  # Java derives its keys with so many iterations that one question is enough
        yield {"keys": name, "type": kind, "password": PASSWORD, "key_password": None}
        yield {"trust": name, "type": kind, "password": "wrong"}
        return
    passwords = [PASSWORD, "wrong", "", None] if "beyond" not in name else ["pä\U0001f600", "p", PASSWORD]
    for password in passwords:
        yield {"trust": name, "type": kind, "password": password}
        if password is not None:  # Kafka asks for one
            yield {"keys": name, "type": kind, "password": password, "key_password": None}
    for key_password in (PASSWORD, KEY_PASSWORD, ""):
        yield {"keys": name, "type": kind, "password": PASSWORD, "key_password": key_password}


def answered(jvm: Jvm, store: bytes, question: Mapping[str, Any]) -> dict[str, Any]:
    """The question with its answer: the digests of `certificates`, or `error`."""
    what = "trust" if "trust" in question else "keys"
    version = "TLSv1.2" if question[what].endswith(" DSA") else "TLSv1.3"  # which has no DSA
    answer = jvm.ask({**question, what: _base64(store), "version": version})
    return {**question, **answer, **({"error": answer["error"][-1]} if "error" in answer else {})}


def asked_orders(jvm: Jvm, seed: int = 5) -> Iterator[dict[str, Any]]:
    """Yield sets of aliases, and which of them is chosen."""
    chance, key = random.Random(seed), Identity("key")
    words = ["kafka", "broker", "localhost", "server", "1", "2", "10", "caroot", "my-key", "broker-0", "*.example.com"]
    for number in range(36):
        several = (2, 3, 4, 9, 14, 20)[number % 6]
        made = ("".join(chance.choices("abcdefgh", k=chance.randint(1, 4))) for _ in range(several))
        aliases = list(dict.fromkeys([*chance.sample(words, several // 2), *made]))
        for kind in ("JKS", "PKCS12"):
            store = jvm.make(kind, [key.entry(each) for each in aliases])
            question = {"choose": _base64(store), "type": kind, "password": PASSWORD, "algorithm": "EC"}
            yield {"type": kind, "aliases": _aliases(kind, store), "chosen": jvm.ask(question)["alias"]}


def _aliases(kind: str, store: bytes) -> list[str]:
    from security.stores.jks import read_jks
    from security.stores.pkcs12 import read_pkcs12

    entries = read_jks(store, PASSWORD) if kind == "JKS" else read_pkcs12(store, PASSWORD)
    return [entry.alias for entry in entries.keys]


def record(path: Path = STORES) -> None:
    with Jvm() as jvm:
        made = dict(stores(jvm))
        cases = [answered(jvm, store, question) for name, store in made.items() for question in questions(name)]
        orders = list(asked_orders(jvm))
    parts = {
        "stores": ",\n".join(f"{json.dumps(name)}: {json.dumps(_base64(store))}" for name, store in made.items()),
        "cases": ",\n".join(map(json.dumps, cases)),
        "orders": ",\n".join(map(json.dumps, orders)),
    }
    path.write_text(
        f'{{"stores": {{\n{parts["stores"]}\n}},\n"cases": [\n{parts["cases"]}\n],\n"orders": [\n{parts["orders"]}\n]}}\n'
    )


if __name__ == "__main__":
    record()
