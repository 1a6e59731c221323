"""The rows of a wire table: what a field of a message is, and in which versions. The notation is `protocol.schema`'s; the
generators of codecs (`protocol.codec`) read these rows.

No IO. Source: the JSON message definitions of Apache Kafka.
"""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple


class Versions(NamedTuple):
    """A range of versions, both ends included. Empty when `last < first`."""

    first: int
    last: int

    @staticmethod
    def parse(text: str | None) -> Versions:
        if text is None or text == "none":
            return NO_VERSION
        if text.endswith("+"):
            return Versions(int(text[:-1]), NO_END)
        first, _, last = text.partition("-")
        return Versions(int(first), int(last or first))

    def covers(self, version: int) -> bool:
        return self.first <= version <= self.last


NO_END: Final = 32767  # versions are int16
NO_VERSION: Final = Versions(0, -1)


class _Required:
    """The marker of a field that has no default."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()


class Field:
    """One row of a wire table. `kind` names the encoding; `element` is a struct's class, or an array's element type."""

    __slots__ = ("default", "element", "ignorable", "kind", "may_be_encoded", "name", "nullable", "tag", "versions")

    def __init__(
        self,
        kind: str,
        versions: str,
        default: object,
        *,
        element: type[Struct] | str | None = None,
        nullable: str | None = None,
        tag: int | None = None,
        ignorable: bool = False,
        may_be_encoded: bool = False,
    ) -> None:
        self.name = ""  # set by the class statement
        self.kind = kind
        self.element = element
        self.versions = Versions.parse(versions)
        self.nullable = Versions.parse(nullable)
        self.tag = tag
        self.default = default
        self.ignorable = ignorable
        self.may_be_encoded = may_be_encoded

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name} {self.versions.first}-{self.versions.last}>"


class Struct:
    """A class with a table of fields."""

    __slots__ = ()
    __fields__: ClassVar[tuple[Field, ...]] = ()
