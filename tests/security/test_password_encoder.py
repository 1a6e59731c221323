"""Passwords are encrypted in Apache Kafka's text: what it wrote is decrypted here, and each form comes back."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from security.password_encoder import (
    CIPHERS,
    KEY_FACTORIES,
    EncoderSettings,
    EncoderSettingsError,
    PasswordEncoder,
    PasswordTextError,
)

# Read from /config/brokers/0 of a running Apache Kafka 3.9.1 with password.encoder.secret=encoder-secret.
KAFKA_CBC = (
    "initializationVector:4dNU+KnZ60YKWm1c6BKeng==,keyLength:128,salt:H3NYG2cHB/hX5cGeSWXbFD3si2dmrnejmqKbCQhg/lI18/mxWWTz"
    "bKg0Xi/NowJVTYkLEQCHxs5T4PJpcDUfo5nF4y9AIYEjkGdfBMul+LGxIMnzQlj952mU5+cB9sbgWnZeDy+psb9ndDW5/ASyteiFDFwoep06mAnzmKaR"
    "VGe1Vu+S4KSJpQ3POhPAVNImgSg54Zgeq97Pd1p4S8m90U+4RM1cmOkU6QbTlaUKGdsPgvHUL3ciYjeEctSEXMeHvTABFLEZJOK/SOFvbKjDSgwSyZAZ"
    "YtCG8lhpRfk5veUfe5FRYSytFK1C3xXZX9a7swhKo1/qEGDwljE778QMoQ==,keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm"
    ":AES/CBC/PKCS5Padding,iterations:4096,passwordLength:7,encryptedPassword:yihHc7qH+e5r7oxiX3VP0w=="
)
KAFKA_UTF16 = (
    "initializationVector:0/nFPUG6roU5zbfg2u3hLg==,keyLength:128,salt:sCftUmfqkW7KUOfRNRpPneVhUN3UAyXVI/RNozp1mCmOHhsTE37c"
    "MU1PK3PYZpdMYZm70BViP3mz2YO9Ycx9jA27UntLKx2SojDeDaHuL67MLNHX0yYruW7YwESibl8Qi+WJOD8v9zf7xhP8GbJx53EigW0j+dC3EDSkVZdP"
    "8hvGAbjZWlE9USjwSVwG1cXnz8ePG6709+opIM4iHZKobbIR3DJ9U0k0sUxOrcOUNF6XoxigKbZOXZ5vFGcP8/wX0Zg3uWpAqKABbEvvvZ6whD+Hrpo2"
    "o70yeqJbrj5N00ItP4FPLGcd0FWPEIn6rL55TwFR7PDy4c4DrYlLYj8nJA==,keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm"
    ":AES/CBC/PKCS5Padding,iterations:4096,passwordLength:5,encryptedPassword:/c/WO8ms+62nqmFxm30tZw=="
)


def encoder(secret: str = "encoder-secret", **how: object) -> PasswordEncoder:
    return PasswordEncoder(secret, EncoderSettings(**{"iterations": 1024, **how}), random.Random(7))  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "password"), [(KAFKA_CBC, "rubbish"), (KAFKA_UTF16, "pwü\N{GRINNING FACE}")])
def test_what_apache_kafka_wrote_is_decrypted(text: str, password: str) -> None:
    assert encoder().decode(text) == password


def test_the_text_has_the_order_of_apache_kafka() -> None:
    names = [pair.partition(":")[0] for pair in KAFKA_CBC.split(",")]
    assert [pair.partition(":")[0] for pair in encoder().encode("x").split(",")] == names


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize("key_factory", KEY_FACTORIES)
@pytest.mark.parametrize("key_length_bits", [128, 192, 256])
def test_each_form_comes_back(cipher: str, key_factory: str, key_length_bits: int) -> None:
    how = {"cipher": cipher, "key_factory": key_factory, "key_length_bits": key_length_bits}
    assert encoder().decode(encoder(**how).encode("s3cret, with: all")) == "s3cret, with: all"


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40))
def test_each_password_comes_back(password: str) -> None:
    text = encoder().encode(password)
    assert encoder().decode(text) == password
    form = encoder().encode("")  # a password may be one of the words that stand in every text
    assert len(password) < 8 or password not in text or password in form


def test_two_texts_of_one_password_differ() -> None:
    one = encoder()
    assert one.encode("same") != one.encode("same")


@pytest.mark.parametrize("cipher", ["AES/CBC/PKCS5Padding", "AES/GCM/NoPadding"])
def test_another_secret_decrypts_nothing(cipher: str) -> None:
    text = encoder(cipher=cipher).encode("hidden-password")
    with pytest.raises(PasswordTextError, match="another secret") as caught:
        encoder("wrong").decode(text)
    assert "hidden" not in str(caught.value) and "wrong" not in str(caught.value).replace("the tag is wrong", "")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("iterations:4096", "iterations:99999999", "iterations is no number"),
        ("iterations:4096", "iterations:0", "iterations is 0"),
        ("iterations:4096,", "", "iterations is missing"),
        ("keyLength:128", "keyLength:127", "no keys of 127 bits"),
        ("keyLength:128", "keyLength:-1", "keyLength is no number"),
        ("AES/CBC/PKCS5Padding", "DES/CBC/PKCS5Padding", "not supported"),
        ("PBKDF2WithHmacSHA512", "PBEWithMD5AndDES", "not supported"),
        ("salt:H3N", "salt:!!!", "salt is no base64"),
        ("passwordLength:7", "passwordLength:8", "another length"),
        ("initializationVector:4dNU", "initializationVector:AAAA", "another secret"),
        ("initializationVector:4dNU+KnZ60YKWm1c6BKeng==", "initializationVector:AAAA", "another secret"),
        ("encryptedPassword:yihHc7qH+e5r7oxiX3VP0w==", "encryptedPassword:", "another secret"),
        (KAFKA_CBC, "rubbish", "no list of pairs"),
        (KAFKA_CBC, "", "no list of pairs"),
    ],
)
def test_a_text_that_is_wrong(old: str, new: str, reason: str) -> None:
    assert old in KAFKA_CBC
    with pytest.raises(PasswordTextError, match=reason):
        encoder().decode(KAFKA_CBC.replace(old, new))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(KAFKA_CBC) - 1), st.characters())
def test_damage_is_no_other_error(position: int, character: str) -> None:
    text = KAFKA_CBC[:position] + character + KAFKA_CBC[position + 1 :]
    with contextlib.suppress(PasswordTextError):  # without an authentication tag it may be another password
        encoder().decode(text)


@pytest.mark.parametrize("how", [{"cipher": "AES"}, {"key_factory": "SHA1"}, {"key_length_bits": 8}])
def test_settings_that_are_not_supported(how: dict[str, object]) -> None:
    with pytest.raises(EncoderSettingsError):
        encoder(**how)
