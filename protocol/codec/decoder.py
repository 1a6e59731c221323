"""Generates decoders, as described in `protocol.codec`, and has the functions that they call.

No IO.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from protocol.codec.bounds import smallest_size, weight
from protocol.codec.source import FIXED, NUMBERS, Source, default_source, length_format, struct_of
from protocol.fields import Field, Struct
from protocol.java_text import AS_JAVA
from protocol.primitives import MAX_STRING_BYTES, UUID_BYTES, DecodeError
from protocol.varint import continue_uvarint, decode_uvarint


def _has_records(cls: type[Struct]) -> bool:
    return any(
        field.kind == "records" or (isinstance(field.element, type) and _has_records(field.element))
        for field in cls.__fields__
    )


def _array_too_long(position: int) -> DecodeError:
    return DecodeError(f"an array before byte {position} is longer than the input")


def _too_many_elements() -> DecodeError:
    return DecodeError("too many array elements")


def _null(name: str) -> DecodeError:
    return DecodeError(f"{name} must not be null")


def _string_length(data: Any, position: int, first: int) -> tuple[int, int]:
    """Continue to read a compact string's length plus one, whose first byte was read."""
    length, position = continue_uvarint(data, position, first)
    if length > MAX_STRING_BYTES + 1:
        raise DecodeError(f"a string of {length - 1} bytes is longer than {MAX_STRING_BYTES}")
    return length, position


def _skip_tags(data: Any, position: int, count: int, size: int) -> int:
    """Return the position after `count` unknown tagged fields (`count` is the first byte of the varint)."""
    if count > 127:
        count, position = continue_uvarint(data, position, count)
    for _ in range(count):
        _tag, position = decode_uvarint(data, position)
        length, position = decode_uvarint(data, position)
        position += length
        if position > size:
            raise DecodeError("a tagged field is longer than the input")
    return position


class Decoder(Source):
    """Generates `decode(data, p, budget) -> (message, p)`.

    Consecutive fields of fixed size are collected in `_run` and read by one `unpack_from` before any other read.
    A string's end is not compared with the input's immediately: the next read, or the check at the end, fails instead.
    """

    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        super().__init__(cls, version, flexible)
        self._run: list[tuple[str, str]] = []  # (struct character, target)
        self._zero_copy = _has_records(cls)
        self.names |= {
            "new": object.__new__, "unpack_from": struct.unpack_from, "varint": continue_uvarint,
            "read_varint": decode_uvarint, "string_length": _string_length, "skip_tags": _skip_tags,
            "array_too_long": _array_too_long, "too_many_elements": _too_many_elements, "null": _null,
        }  # fmt: skip

    def compile(self) -> Callable[..., Any]:
        with self.block("def decode(data, p, budget):"):
            wanted = "memoryview" if self._zero_copy else "bytes"
            with self.block(f"if type(data) is not {wanted}:"):
                self.line(f"data = {wanted}(data)")
            self.line("size = len(data)")
            with self.block("try:"):
                message = self._struct(self.cls)
                with self.block("if p > size:"):
                    self.line("raise DecodeError('the input ends too early')")
                self.line(f"return {message}, p")
            with self.block("except (StructError, IndexError) as error:"):
                title = f"{self.cls.__name__} v{self.version}"
                self.line(f"raise DecodeError('{title}: the input ends too early or is malformed') from error")
        return self.build("decode")

    def _struct(self, cls: type[Struct]) -> str:
        """Read one struct into a new variable, whose name is returned."""
        message = self.variable("m")
        self.names[cls.__name__] = cls
        self.line(f"{message} = new({cls.__name__})")
        tagged = []
        for field in cls.__fields__:
            target = f"{message}.{field.name}"
            if field.versions.covers(self.version) and field.tag is None:
                self._field(field, target)
                continue
            if field.versions.covers(self.version) and self.flexible:
                tagged.append((field, target))
            default = default_source(field, self.names)
            assert default is not None, f"{cls.__name__}.{field.name} is not in every version and has no default"
            self.line(f"{target} = {default}")
        if self.flexible:
            self._tags(tagged)
        self._flush()
        return message

    def _flush(self) -> None:
        run, self._run = self._run, []
        if not run:
            return
        formats = "".join(character for character, _ in run)
        targets = ", ".join(target for _, target in run)
        if formats == "B":
            self.line(f"{targets} = data[p]; p += 1")
            return
        comma = "," if len(run) == 1 else ""
        unpack = self.prepared("unpack_from", formats)
        self.line(f"{targets}{comma} = {unpack}(data, p); p += {struct.calcsize('>' + formats)}")

    def _length(self, kind: str) -> str:
        """Read a length; return the name of its variable (flexible: plus one, first byte only)."""
        length = self.variable("n")
        self._run.append((length_format(kind, self.flexible), length))
        self._flush()
        return length

    def _field(self, field: Field, target: str) -> None:
        nullable = field.nullable.covers(self.version)
        if field.kind in FIXED:
            self._run.append((FIXED[field.kind], target))
        elif field.kind == "struct":
            self._nested(field, target, nullable)
        elif field.kind == "array":
            self._array(field, target, nullable)
        elif field.kind == "string":
            self._string(target, nullable)
        else:
            self._bytes(field, target, nullable)

    def _nested(self, field: Field, target: str, nullable: bool) -> None:
        if not nullable:
            self.line(f"{target} = {self._struct(struct_of(field))}")
            return
        mark = self.variable("n")
        self._run.append(("b", mark))
        self._flush()
        with self.block(f"if {mark} < 0:" if field.tag is None else f"if {mark} <= 0:"):
            self.line(f"{target} = None")
        with self.block("else:"):
            self.line(f"{target} = {self._struct(struct_of(field))}")

    def _null_case(self, condition: str, target: str, nullable: bool) -> None:
        with self.block(f"if {condition}:"):
            self.line(f"{target} = None" if nullable else f"raise null({target.partition('.')[2] or 'an element'!r})")

    def _string(self, target: str, nullable: bool) -> None:
        length = self._length("string")
        if self.flexible:
            with self.block(f"if {length} > 127:"):
                self.line(f"{length}, p = string_length(data, p, {length})")
            self._null_case(f"{length} == 0", target, nullable)
            end = f"p + {length} - 1"
        else:
            self._null_case(f"{length} < 0", target, nullable)
            end = f"p + {length}"
        with self.block("else:"):
            self.line(f"e = {end}")
            self.line(f"{target} = str(data[p:e], 'utf-8', {AS_JAVA!r})")
            self.line("p = e")

    def _bytes(self, field: Field, target: str, nullable: bool) -> None:
        length = self._length(field.kind)
        if self.flexible:
            with self.block(f"if {length} > 127:"):
                self.line("b = data[p]")
                self.line(f"if b < 128: {length} += (b << 7) - 128; p += 1")  # two bytes, in place: 1 KB batches
                self.line(f"else: {length}, p = varint(data, p, {length})")
            self._null_case(f"{length} == 0", target, nullable)
            end = f"p + {length} - 1"
        else:
            self._null_case(f"{length} < 0", target, nullable)
            end = f"p + {length}"
        with self.block("else:"):
            self.line(f"e = {end}")
            part = "data[p:e]"
            self.line(f"{target} = {f'bytes({part})' if self._zero_copy and field.kind == 'bytes_' else part}")
            self.line("p = e")

    def _array(self, field: Field, target: str, nullable: bool) -> None:
        count = self._length("array")
        if self.flexible:
            with self.block(f"if {count} > 127:"):
                self.line(f"{count}, p = varint(data, p, {count})")
            self.line(f"{count} -= 1")
        self._null_case(f"{count} < 0", target, nullable)
        with self.block("else:"):
            element = field.element
            smallest, weight = self._element_bounds(element)
            if smallest:
                with self.block(f"if {count} * {smallest} > size - p:"):
                    self.line("raise array_too_long(p)")
            self.line(f"budget -= {count}" + (f" * {weight}" if weight > 1 else ""))
            with self.block("if budget < 0:"):
                self.line("raise too_many_elements()")
            if isinstance(element, str) and element in NUMBERS:
                character = FIXED[element]
                self.line(f"{target} = list(unpack_from(f'>{{{count}}}{character}', data, p))")
                self.line(f"p += {smallest} * {count}")
            elif element == "uuid":
                self.line(f"e = p + {UUID_BYTES} * {count}")
                part = f"data[i:i + {UUID_BYTES}]"
                part = f"bytes({part})" if self._zero_copy else part
                self.line(f"{target} = [{part} for i in range(p, e, {UUID_BYTES})]")
                self.line("p = e")
            else:
                self._elements(element, target, count)

    def _elements(self, element: type[Struct] | str | None, target: str, count: str) -> None:
        items = self.variable("items")
        self.line(f"{target} = {items} = []")
        with self.block(f"for _ in range({count}):"):
            if isinstance(element, type):
                self.line(f"{items}.append({self._struct(element)})")
            else:
                assert element == "string", f"no arrays of {element}"
                self._string("text", nullable=False)
                self.line(f"{items}.append(text)")

    def _element_bounds(self, element: type[Struct] | str | None) -> tuple[int, int]:
        if isinstance(element, type):
            return smallest_size(element, self.version, self.flexible), weight(element, self.version)
        if element == "string":
            return (1 if self.flexible else 2), 1
        assert element is not None
        return struct.calcsize(">" + FIXED[element]), 1

    def _tags(self, tagged: list[tuple[Field, str]]) -> None:
        count = self.variable("t")
        self._run.append(("B", count))
        self._flush()
        with self.block(f"if {count}:"):
            if not tagged:
                self.line(f"p = skip_tags(data, p, {count}, size)")
                return
            with self.block(f"if {count} > 127:"):
                self.line(f"{count}, p = varint(data, p, {count})")
            with self.block(f"for _ in range({count}):"):
                tag, end = self.variable("tag"), self.variable("end")
                self.line(f"{tag}, p = read_varint(data, p)")
                self.line(f"{end}, p = read_varint(data, p)")
                self.line(f"{end} += p")
                with self.block(f"if {end} > size:"):
                    self.line("raise DecodeError('a tagged field is longer than the input')")
                word = "if"
                for field, target in tagged:
                    with self.block(f"{word} {tag} == {field.tag}:"):
                        self._field(field, target)
                        self._flush()
                    word = "elif"
                with self.block("else:"):
                    self.line(f"p = {end}")
                with self.block(f"if p != {end}:"):
                    self.line("raise DecodeError('a tagged field has another size than it says')")
