"""Files of settings in Java's form, `name=value` a line, for brokers and for Apache Kafka's tools.

Rules: standard library only; what is written is ASCII, and readable by its owner only: there are passwords in it.
Source: Java's Properties.
"""

from __future__ import annotations

import os
from collections.abc import Mapping


def write_properties(path: str | os.PathLike[str], settings: Mapping[str, str]) -> None:
    """Create or replace a file. A file, and no arguments of a command, since all users of a machine see these."""
    write_private(path, properties_text(settings))


def properties_text(settings: Mapping[str, str]) -> str:
    """Return the text of a file."""
    return "".join(f"{_escaped(name)}={_escaped(text)}\n" for name, text in settings.items())


def write_private(path: str | os.PathLike[str], text: str) -> None:
    """Create or replace a file that only its owner can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)


def _escaped(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    for character in " =:#!":
        plain = plain.replace(character, f"\\{character}")
    units = [unit for character in plain for unit in _units(character)]
    return "".join(chr(unit) if unit < 128 else f"\\u{unit:04x}" for unit in units)


def _units(character: str) -> list[int]:
    raw = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(raw[index : index + 2], "big") for index in range(0, len(raw), 2)]
