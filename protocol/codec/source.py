"""Builds Python source, and has what the generators of decoders and encoders share.

No IO. Source: KIP-482 for the compact forms of flexible versions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from protocol.fields import Field, Struct
from protocol.primitives import DecodeError, EncodeError

# The struct characters of the kinds of fixed size.
FIXED: Final = {
    "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint16": "H", "uint32": "I", "float64": "d", "bool_": "?",
    "uuid": "16s",
}  # fmt: skip
NUMBERS: Final = frozenset(FIXED) - {"uuid"}


def length_format(kind: str, flexible: bool) -> str:
    """Return the struct character of a length; for a flexible one, that of its first byte."""
    if flexible:
        return "B"
    return "h" if kind == "string" else "i"


def struct_of(field: Field) -> type[Struct]:
    assert isinstance(field.element, type), f"{field.name} holds no structs"
    return field.element


def default_source(field: Field, names: dict[str, object]) -> str | None:
    """Return an expression for the field's default, None when it has none. Objects that are not literals go into `names`."""
    default = field.default
    if default is None or isinstance(default, int | str | bytes | float):
        return repr(default)
    if isinstance(default, list):
        assert not default, f"{field.name}: a list default is empty"
        return "[]"
    if field.kind == "struct":
        name = f"DEFAULT_{field.name}"
        while names.get(name, default) is not default:
            name += "_"
        names[name] = default
        return name
    return None


def compiled(source: str, name: str, names: dict[str, object], title: str) -> Callable[..., Any]:
    exec(compile(source, f"<{title}.{name}>", "exec"), names)  # noqa: S102 - the source is made of our own tables
    function = names[name]
    assert callable(function)
    return function


class Source:
    """Generated lines of Python, their indentation, and the objects they name."""

    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        self.cls = cls
        self.version = version
        self.flexible = flexible
        self.names: dict[str, object] = {
            "StructError": struct.error, "DecodeError": DecodeError, "EncodeError": EncodeError,
        }  # fmt: skip
        self._lines: list[str] = []
        self._depth = 0
        self._variables = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        self.line(header)
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._depth -= 1

    def variable(self, prefix: str) -> str:
        self._variables += 1
        return f"{prefix}{self._variables}"

    def prepared(self, method: str, formats: str) -> str:
        """Return the name of the `pack` or `unpack_from` of the `struct.Struct` for `formats`."""
        name = f"{method}_{formats.replace('?', 'Z').replace('16s', 'U')}"
        if name not in self.names:
            self.names[name] = getattr(struct.Struct(">" + formats), method)
        return name

    def build(self, function: str) -> Callable[..., Any]:
        return compiled("\n".join(self._lines) + "\n", function, self.names, f"{self.cls.__name__} v{self.version}")
