"""Generates encoders, as described in `protocol.codec`, and has the functions that they call.

No IO.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from protocol.codec.source import FIXED, NUMBERS, Source, default_source, length_format, struct_of
from protocol.fields import Field, Struct
from protocol.primitives import MAX_STRING_BYTES, UUID_BYTES, Encoded, EncodeError
from protocol.varint import encode_uvarint


def _is_often_empty(field: Field, version: int) -> bool:
    if field.kind == "array":
        return field.nullable.covers(version) or field.default == []
    return field.kind in ("string", "bytes_") and field.nullable.covers(version)


def _absent(title: str, name: str) -> EncodeError:
    return EncodeError(f"{title} cannot carry {name}: only its default")


def _write_tags(add: Callable[[bytes], None], tags: list[tuple[int, bytes]]) -> None:
    add(encode_uvarint(len(tags)))
    for tag, value in tags:
        add(encode_uvarint(tag))
        add(encode_uvarint(len(value)))
        add(value)


def _compact_length(length: int) -> bytes:
    """Encode a compact string's length plus one."""
    if length > MAX_STRING_BYTES + 1:
        raise EncodeError(f"a string of {length - 1} bytes is longer than {MAX_STRING_BYTES}")
    return encode_uvarint(length)


def _check_uuid(value: bytes) -> bytes:
    if len(value) != UUID_BYTES:
        raise EncodeError(f"a uuid has {UUID_BYTES} bytes, not {len(value)}")
    return value


class Encoder(Source):
    """Generates `encode(message, prefix) -> chunks`: small pieces are collected in `parts` and joined before `records`.

    Consecutive fields of fixed size are collected in `_run` as (struct character, expression) and packed by one call;
    "x" is a constant zero byte, the form of an empty tag section.
    """

    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        super().__init__(cls, version, flexible)
        self._run: list[tuple[str, str]] = []
        self._add = "add"
        self.names |= {
            "varint": encode_uvarint, "compact_length": _compact_length, "check_uuid": _check_uuid, "absent": _absent,
            "write_tags": _write_tags, "pack": struct.pack, "join": b"".join,
        }  # fmt: skip

    def compile(self) -> Callable[..., Any]:
        with self.block("def encode(m, prefix):"):
            self.line("parts = [prefix]; add = parts.append; chunks = []")
            with self._errors():
                self._struct(self.cls, "m")
            with self.block("if parts:"):
                self.line("chunks.append(join(parts))")
            self.line("return chunks")
        return self.build("encode")

    def compile_array(self) -> Callable[..., Any]:
        """Compile `encode_array(items) -> Encoded` for an array of such structs."""
        self.names["Encoded"] = Encoded
        with self.block("def encode_array(items):"):
            self.line("parts = []; add = parts.append")
            with self._errors():
                self.line(f"n = len(items){' + 1' if self.flexible else ''}")
                self._length("array", "n")
                with self.block("for m in items:"):
                    self._element(self.cls, "m")
            self.line("return Encoded(join(parts))")
        return self.build("encode_array")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        title = f"{self.cls.__name__} v{self.version}"
        with self.block("try:"):
            yield
        with self.block("except (StructError, AttributeError, OverflowError, TypeError, UnicodeEncodeError) as error:"):
            self.line(f"raise EncodeError(f'{title}: {{error}}') from error")

    def _struct(self, cls: type[Struct], message: str, empty: dict[str, str] | None = None) -> None:
        """Write one struct. `empty` names the fields known to be null or empty, with the variables of their lengths."""
        tagged = []
        for field in cls.__fields__:
            source = f"{message}.{field.name}"
            if not field.versions.covers(self.version):
                self._refuse_absent(cls, field, source)
            elif empty and field.name in empty:
                self._run.append((length_format(field.kind, self.flexible), empty[field.name]))
            elif field.tag is None:
                self._field(field, source)
            elif self.flexible:
                tagged.append((field, source))
        if self.flexible:
            self._tags(tagged)
        self._flush()

    def _element(self, cls: type[Struct], message: str) -> None:
        """Write one struct of an array, with a fast path for the usual one, whose optional fields are all empty.

        Then the lengths join the surrounding run, and a partition without errors or aborted transactions is one `pack`.
        """
        present = [field for field in cls.__fields__ if field.versions.covers(self.version) and field.tag is None]
        optional = [field for field in present if _is_often_empty(field, self.version)]
        if not optional or any(isinstance(field.element, type) for field in present if field not in optional):
            self._struct(cls, message)
            return
        empty = {}
        null, plus = (0, " + 1") if self.flexible else (-1, "")
        for field in optional:
            empty[field.name] = length = self.variable("n")
            source = f"{message}.{field.name}"
            absent = f"{null} if {source} is None else " if field.nullable.covers(self.version) else ""
            self.line(f"{length} = {absent}len({source}){plus}")
        with self.block(f"if {' and '.join(f'{length} < {null + 2}' for length in empty.values())}:"):
            self._struct(cls, message, empty)
        with self.block("else:"):
            self._struct(cls, message)

    def _refuse_absent(self, cls: type[Struct], field: Field, source: str) -> None:
        if field.ignorable:
            return
        with self.block(f"if {self._differs(field, source)}:"):
            self.line(f"raise absent('{cls.__name__} v{self.version}', '{field.name}')")

    def _differs(self, field: Field, source: str) -> str:
        """Return the condition that the value is not the field's default."""
        default = default_source(field, self.names)
        assert default is not None, f"{field.name} is not in every version and has no default"
        if default == "None":
            return f"{source} is not None"
        if default == "[]":
            return f"{source} or {source} is None"
        if field.kind == "struct":
            return f"{source} is not {default} and {source} != {default}"
        return f"{source} != {default}"

    def _flush(self) -> None:
        """Pack what is pending."""
        run, self._run = self._run, []
        self._pack(run)

    def _flush_with_varint(self, value: str, kind: str) -> None:
        """Pack what is pending and, in the same call where it is short, the varint of the variable `value`."""
        run, self._run = self._run, []
        with self.block(f"if {value} < 128:"):
            self._pack([*run, ("B", value)])
        if kind == "records":  # rarely short: pack two and three bytes, too
            with self.block(f"elif {value} < 16384:"):
                self._pack([*run, ("H", f"({value} & 127 | 128) << 8 | {value} >> 7")])
            with self.block(f"elif {value} < 2097152:"):
                low = f"({value} & 127 | 128) << 8 | {value} >> 7 & 127 | 128"
                self._pack([*run, ("H", low), ("B", f"{value} >> 14")])
        with self.block("else:"):
            self._pack(run)
            function = "compact_length" if kind == "string" else "varint"
            self.line(f"{self._add}({function}({value}))")

    def _pack(self, run: list[tuple[str, str]]) -> None:
        if not run:
            return
        formats = "".join(character for character, _ in run)
        values = ", ".join(expression for character, expression in run if character != "x")
        if not values:
            self.line(f"{self._add}({bytes(len(run))!r})")
            return
        self.line(f"{self._add}({self.prepared('pack', formats)}({values}))")

    def _field(self, field: Field, source: str) -> None:
        nullable = field.nullable.covers(self.version)
        if field.kind == "uuid":
            self._run.append(("16s", f"check_uuid({source})"))
        elif field.kind in FIXED:
            self._run.append((FIXED[field.kind], source))
        elif field.kind == "struct":
            self._nested(field, source, nullable)
        elif field.kind == "array":
            self._perhaps_encoded_array(field, source, nullable)
        else:
            self._text_or_bytes(field.kind, source, nullable)

    def _nested(self, field: Field, source: str, nullable: bool) -> None:
        message = self.variable("m")
        if not nullable:
            self.line(f"{message} = {source}")
            self._struct(struct_of(field), message)
            return
        self._flush()
        self.line(f"{message} = {source}")
        with self.block(f"if {message} is None:"):
            null = b"\xff" if field.tag is None else b"\x00"
            self.line(f"{self._add}({null!r})")
        with self.block("else:"):
            self.line(f"{self._add}(b'\\x01')")
            self._struct(struct_of(field), message)

    def _length(self, kind: str, length: str) -> None:
        """Write the length (flexible: plus one; null is 0) or -1 in the variable `length`."""
        if self.flexible:
            self._flush_with_varint(length, kind)
        else:
            self._run.append((length_format(kind, flexible=False), length))
            self._flush()

    def _text_or_bytes(self, kind: str, source: str, nullable: bool) -> None:
        value, length = self.variable("v"), self.variable("n")
        encoded = ".encode()" if kind == "string" else ""
        plus = " + 1" if self.flexible else ""
        self.line(f"{value} = {source}")
        if nullable:
            with self.block(f"if {value} is None:"):
                self.line(f"{length} = {0 if self.flexible else -1}")
            with self.block("else:"):
                if encoded:
                    self.line(f"{value} = {value}{encoded}")
                self.line(f"{length} = len({value}){plus}")
        else:
            if encoded:
                self.line(f"{value} = {value}{encoded}")
            self.line(f"{length} = len({value}){plus}")
        self._length(kind, length)
        with self.block(f"if {value}:"):
            if kind == "records":
                assert self._add == "add", "records cannot stand in a tagged field"
                self.line(f"chunks.append(join(parts)); chunks.append({value}); parts.clear()")
            else:
                self.line(f"{self._add}({value})")

    def _perhaps_encoded_array(self, field: Field, source: str, nullable: bool) -> None:
        if not field.may_be_encoded:
            self._array(field, source, nullable)
            return
        self._flush()
        self.names["Encoded"] = Encoded
        with self.block(f"if {source}.__class__ is Encoded:"):
            self.line(f"{self._add}({source})")
        with self.block("else:"):
            self._array(field, source, nullable)
            self._flush()

    def _array(self, field: Field, source: str, nullable: bool) -> None:
        items, count = self.variable("items"), self.variable("n")
        plus = " + 1" if self.flexible else ""
        self.line(f"{items} = {source}")
        if nullable:
            with self.block(f"if {items} is None:"):
                self.line(f"{count} = {0 if self.flexible else -1}; {items} = ()")
            with self.block("else:"):
                self.line(f"{count} = len({items}){plus}")
        else:
            self.line(f"{count} = len({items}){plus}")
        self._length("array", count)
        element = field.element
        if isinstance(element, str) and element in NUMBERS:
            with self.block(f"if {items}:"):
                self.line(f"{self._add}(pack(f'>{{len({items})}}{FIXED[element]}', *{items}))")
            return
        item = self.variable("m")
        with self.block(f"for {item} in {items}:"):
            if isinstance(element, type):
                self._element(element, item)
            elif element == "uuid":
                self.line(f"{self._add}(check_uuid({item}))")
            else:
                assert element == "string", f"no arrays of {element}"
                self._text_or_bytes("string", item, nullable=False)

    def _tags(self, tagged: list[tuple[Field, str]]) -> None:
        if not tagged:
            self._run.append(("x", ""))
            return
        run = self._run
        set_fields = " or ".join(f"({self._differs(field, source)})" for field, source in tagged)
        with self.block(f"if {set_fields}:"):
            self._flush()
            tags, outer = self.variable("tags"), self._add
            self.line(f"{tags} = []")
            for field, source in sorted(tagged, key=lambda pair: pair[0].tag or 0):
                with self.block(f"if {self._differs(field, source)}:"):
                    value = self.variable("value")
                    self._add = f"{value}.append"
                    self.line(f"{value} = []")
                    self._field(field, source)
                    self._flush()
                    self._add = outer
                    self.line(f"{tags}.append(({field.tag}, join({value})))")
            self.line(f"write_tags({self._add}, {tags})")
        self._run = [*run, ("x", "")]
        with self.block("else:"):
            self._flush()
