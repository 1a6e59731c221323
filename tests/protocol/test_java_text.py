"""Bytes that are no UTF-8, read as Java reads them, in every string of every message."""

from __future__ import annotations

import hashlib
import itertools
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from protocol.java_text import AS_JAVA
from protocol.primitives import decode_nullable_string
from protocol.schema import Message, VersionedMessage
from tests.oracle import java
from tests.protocol.instances import classes_and_versions, instance
from tests.protocol.raw_text import RawText

HOW_JAVA_READS = [
    # what java.lang.String of a JDK 17 makes of the bytes
    ("e9", "\ufffd"),
    ("6d fc 6e", "m\ufffdn"),
    ("c3 28", "\ufffd("),
    ("ed a0 80", "\ufffd"),
    ("ed a0 80 ed b0 80", "\ufffd\ufffd"),
    ("ed a0", "\ufffd"),
    ("ed a0 41", "\ufffdA"),
    ("e0 80 80", "\ufffd\ufffd\ufffd"),
    ("f0 80 80 80", "\ufffd\ufffd\ufffd\ufffd"),
    ("f0 9f 98", "\ufffd"),
    ("f4 90 80 80", "\ufffd\ufffd\ufffd\ufffd"),
    ("f5 80", "\ufffd\ufffd"),
    ("c0 80", "\ufffd\ufffd"),
    ("e2 82", "\ufffd"),
    ("e2 82 ac", "€"),
    ("ef bf be", "\ufffe"),
]
BYTES = bytes.fromhex("00417f808f909fa0bfc0c1c2dfe0e1ecedeeeff0f1f3f4f5f7f8fbfdfeff")
"""Where the rules of UTF-8 change."""
DIGEST_OF_JAVA = "4e3cd093cbf0fbe8145f97ea15a73da862cc5acce807dbef84ffce70a4b4ac20"
"""SHA-256 of what Java makes of all sequences of one to three of these bytes, in UTF-16, each followed by DEAD."""
PROGRAM = """
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.HexFormat;

public class Digest {
    public static void main(String[] arguments) throws Exception {
        byte[] each = HexFormat.of().parseHex(arguments[0]);
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (int length = 1; length <= 3; length++) {
            int count = (int) Math.pow(each.length, length);
            for (int number = 0; number < count; number++) {
                byte[] raw = new byte[length];
                for (int at = length - 1, left = number; at >= 0; at--, left /= each.length) {
                    raw[at] = each[left % each.length];
                }
                digest.update(new String(raw, StandardCharsets.UTF_8).getBytes(StandardCharsets.UTF_16BE));
                digest.update(new byte[] {(byte) 0xDE, (byte) 0xAD});
            }
        }
        System.out.print(HexFormat.of().formatHex(digest.digest()));
    }
}
"""
CASES = classes_and_versions()


def our_digest() -> str:
    digest = hashlib.sha256()
    for length in (1, 2, 3):
        for each in itertools.product(BYTES, repeat=length):
            digest.update(bytes(each).decode("utf-8", AS_JAVA).encode("utf-16-be") + b"\xde\xad")
    return digest.hexdigest()


@pytest.mark.parametrize(("raw", "text"), HOW_JAVA_READS)
def test_what_is_no_utf8_reads_as_in_java(raw: str, text: str) -> None:
    assert bytes.fromhex(raw).decode("utf-8", AS_JAVA) == text


def test_all_short_sequences_read_as_in_java() -> None:
    assert our_digest() == DIGEST_OF_JAVA


@pytest.mark.oracle
def test_java_still_reads_so(tmp_path: Path) -> None:
    if shutil.which("java") is None:
        assert not java.required()
        pytest.skip("java is not installed")
    program = tmp_path / "Digest.java"
    program.write_text(PROGRAM)
    run = subprocess.run(["java", str(program), BYTES.hex()], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout == DIGEST_OF_JAVA


def broken(value: Any, version: int, source: random.Random) -> Any:
    """A copy in which every string that `version` sends holds bytes that are no UTF-8."""
    if isinstance(value, str):
        return RawText(source.choice([b"\xe9", b"caf\xe9", b"\xff\xfe", b"m\xfcnchen" * 20]))
    if isinstance(value, list):
        return [broken(each, version, source) for each in value]
    if isinstance(value, Message):
        given = {field.name: getattr(value, field.name) for field in value.__fields__}
        sent = {field.name for field in value.__fields__ if field.versions.covers(version)}
        return type(value)(
            **{name: broken(each, version, source) if name in sent else each for name, each in given.items()}
        )
    return value


@pytest.mark.parametrize(("cls", "version"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_every_string_of_every_message_may_be_no_utf8(cls: type[VersionedMessage], version: int) -> None:
    source = random.Random(f"{cls.__name__} {version}")
    for _ in range(3):
        message = broken(instance(cls, version, source), version, source)
        again = cls.decode(message.encode(version), version)
        assert again == message
        assert cls.decode(again.encode(version), version) == again  # it goes out again, as U+FFFD


def test_a_hand_made_string_that_is_no_utf8() -> None:
    assert decode_nullable_string(b"\x00\x03a\xe9b", 0) == ("a\ufffdb", 5)
