"""Names of certificates and their mapping to principals, beside the answers of OpenJDK 17 and Apache Kafka 3.9.1.

`ssl_principals.json` has what X500Principal.getName() and SslPrincipalMapper of kafka-clients 3.9.1 answered: for each rule the
results by distinguished name, or the class of the exception.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from security.principal import ANONYMOUS, Principal
from security.tls.distinguished_name import rfc2253_name, subject_name
from security.tls.ssl_principal import SslPrincipalMapper

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("ssl_principals.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", RECORDED["names"], ids=lambda row: row["der"][:24])
def test_the_name_is_javas(row: dict[str, str]) -> None:
    assert rfc2253_name(bytes.fromhex(row["der"])) == row["name"]


@pytest.mark.parametrize("row", RECORDED["rules"], ids=lambda row: row["rules"])
def test_rules_map_as_kafkas(row: dict[str, Any]) -> None:
    for name, expected in zip(RECORDED["distinguished_names"], row["results"], strict=True):
        if isinstance(expected, dict):
            with pytest.raises(ValueError, match=r"."):
                SslPrincipalMapper(row["rules"]).name(name)
        else:
            assert SslPrincipalMapper(row["rules"]).name(name) == expected, name


@pytest.mark.parametrize(
    ("rule", "name", "principal"),
    [
        (r"RULE:^CN=([\p{L} .'-]+)(?:,.*)?$/$1/", "CN=Zoë O'Neil,O=x", "Zoë O'Neil"),
        (r"RULE:^CN=([\p{Lu}&&[^X]]\p{IsAlphabetic}*+),.*$/$1/L", "CN=Ärzte,O=x", "ärzte"),
        (r"RULE:CN=(?<name>[\p{javaLowerCase}\d]+),\QO=a.b\E/${name}/U", "CN=kafka1,O=a.b", "KAFKA1"),
        (r"RULE:CN=(\p{Alpha}+)\h(\p{Alpha}+).*/$2.$1/", "CN=Ada Lovelace,O=x", "Lovelace.Ada"),
    ],
)
def test_rules_have_the_properties_and_classes_that_people_write(rule: str, name: str, principal: str) -> None:
    assert SslPrincipalMapper(rule).name(name) == principal


def test_what_cannot_be_translated_is_refused_with_the_rule() -> None:
    for pattern in (r"\p{IsNothing}+", r"CN=\X", "(?<=a+)b", "(CN"):
        with pytest.raises(ValueError, match="Invalid rule: `RULE:"):
            SslPrincipalMapper(f"RULE:{pattern}/x/")


def test_a_client_without_a_certificate_is_anonymous() -> None:
    assert SslPrincipalMapper("DEFAULT").principal(None) == ANONYMOUS


def test_the_principal_is_that_of_the_certificates_owner() -> None:
    # TBSCertificate with a version, and one without, as far as the subject.
    name = bytes.fromhex("3010310e300c06035504030c05616c696365")
    assert rfc2253_name(name) == "CN=alice"
    small = b"\x02\x01\x05"
    for fields in (b"\xa0\x03\x02\x01\x02" + small + b"\x30\x00" * 3 + name, small + b"\x30\x00" * 3 + name):
        content = b"\x30" + bytes([len(fields)]) + fields
        certificate = b"\x30" + bytes([len(content)]) + content
        assert subject_name(certificate) == "CN=alice"
        mapper = SslPrincipalMapper("RULE:^CN=(.*)$/$1/U")
        assert mapper.principal(certificate) == Principal("User", "ALICE")


@given(st.binary(max_size=200))
def test_bytes_that_are_no_certificate_are_an_error_and_nothing_else(data: bytes) -> None:
    for read in (subject_name, rfc2253_name):
        try:
            assert isinstance(read(data), str)
        except ValueError:
            continue


@given(st.data())
def test_a_damaged_name_is_an_error_or_another_name(data: st.DataObject) -> None:
    row = data.draw(st.sampled_from(RECORDED["names"]))
    der = bytearray.fromhex(row["der"])
    for _ in range(data.draw(st.integers(1, 4))):
        der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert isinstance(rfc2253_name(bytes(der)), str)
    except ValueError:
        return
