"""The notation of Kafka's messages: the class is the wire table, the Python type and the documentation.

    class FetchPartition(Message):
        partition:            int = int32()
        current_leader_epoch: int = int32("9+", default=-1, ignorable=True)

    class FetchRequest(Request, key=1, versions="0-17", flexible="12+"):
        cluster_id: str | None           = string("12+", nullable="12+", tag=0, default=None)
        topics:     list[FetchPartition] = array(FetchPartition)

    class FetchResponse(Response, answers=FetchRequest):
        throttle_time_ms: int = int32("1+", default=0, ignorable=True)

Rules. No IO. Fields are in wire order. A version range is "3+", "2-7" or "5"; without one the field is in every
version. A field without `default` must be given at construction, by keyword; mypy checks this, too. The decoder sets a
field that a version lacks to its default; the encoder drops it when it is `ignorable`, and otherwise refuses any value
except the default, as Kafka does with UnsupportedVersionException. List defaults are new for each message. Struct
defaults are shared and therefore frozen: assign a new struct, never a field of a default one.
`records` values stay references into the input. An array with `may_be_encoded` may be given in its wire form instead of a
list, made by the `array_encoder` of the version; decoders make lists. A nested struct takes its version, and whether that
is flexible, from the surrounding message.

Codecs and constructors are compiled on first use, one per version (`protocol.codec`), so that importing a module stays
cheap. Source: the JSON message definitions of Apache Kafka (KIP-482 for flexible versions and tagged fields).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Self, TypeVar, dataclass_transform

from protocol import codec
from protocol.fields import NO_END, NO_VERSION, REQUIRED, Field, Struct, Versions
from protocol.primitives import Buffer, DecodeError, Encoded, EncodeError

MAX_ELEMENTS: Final = 500_000
"""The default limit of array elements that one message may decode to."""


def _scalar(kind: str) -> Callable[..., Any]:
    def specifier(
        versions: str = "0+", *, default: object = REQUIRED, tag: int | None = None, ignorable: bool = False
    ) -> Any:  # the annotation of the field has the type
        return Field(kind, versions, default, tag=tag, ignorable=ignorable)

    specifier.__name__ = kind
    return specifier


def _bytes_like(kind: str) -> Callable[..., Any]:
    def specifier(
        versions: str = "0+",
        *,
        nullable: str | None = None,
        default: object = REQUIRED,
        tag: int | None = None,
        ignorable: bool = False,
    ) -> Any:
        return Field(kind, versions, default, nullable=nullable, tag=tag, ignorable=ignorable)

    specifier.__name__ = kind
    return specifier


int8 = _scalar("int8")
int16 = _scalar("int16")
int32 = _scalar("int32")
int64 = _scalar("int64")
uint16 = _scalar("uint16")
uint32 = _scalar("uint32")
float64 = _scalar("float64")
bool_ = _scalar("bool_")
uuid = _scalar("uuid")
string = _bytes_like("string")
bytes_ = _bytes_like("bytes_")
records = _bytes_like("records")


def array(
    element: type[Message] | Callable[..., Any],
    versions: str = "0+",
    *,
    nullable: str | None = None,
    default: object = REQUIRED,
    tag: int | None = None,
    ignorable: bool = False,
    may_be_encoded: bool = False,
) -> Any:
    """Specify an array; `element` is a Message class or the specifier of a primitive: `array(int32)`, `array(string)`."""
    kind: type[Message] | str = element if isinstance(element, type) else element.__name__
    return Field(
        "array",
        versions,
        default,
        element=kind,
        nullable=nullable,
        tag=tag,
        ignorable=ignorable,
        may_be_encoded=may_be_encoded,
    )


def struct(
    element: type[Message],
    versions: str = "0+",
    *,
    nullable: str | None = None,
    default: object = REQUIRED,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    if isinstance(default, Message):
        default.__class__ = _frozen_kind(element)
    return Field("struct", versions, default, element=element, nullable=nullable, tag=tag, ignorable=ignorable)


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(
        int8, int16, int32, int64, uint16, uint32, float64, bool_, uuid, string, bytes_, records, array, struct,
    ),
)  # fmt: skip
class MessageType(type):
    """Collects the fields of a class statement into `__fields__` and turns them into slots."""

    __fields__: tuple[Field, ...]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_table: object) -> MessageType:
        fields = []
        for attribute, value in list(namespace.items()):
            if isinstance(value, Field):
                value.name = attribute
                fields.append(value)
                del namespace[attribute]
        namespace.setdefault("__slots__", tuple(field.name for field in fields))
        if fields or "__fields__" not in namespace:
            namespace["__fields__"] = tuple(fields)
        namespace["_codecs"] = {}
        return super().__new__(mcs, name, bases, namespace)

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **table: Any) -> None:
        super().__init__(name, bases, namespace)
        if table:
            cls._describe(**table)  # type: ignore[attr-defined]


class Message(Struct, metaclass=MessageType):
    """A struct of named fields. Subclasses are tables in the notation of this module."""

    _codecs: ClassVar[dict[tuple[str, int], Callable[..., Any]]] = {}

    def __init__(self, **values: Any) -> None:
        kind = type(self)
        constructor = codec.compile_constructor(kind)
        kind.__init__ = constructor  # type: ignore[method-assign]
        constructor(self, **values)

    @classmethod
    def maker(cls) -> type[Self]:
        """Return a function with the class's parameters, for responses that are made for every request: Python calls a
        function with keywords in a quarter of the time of a class."""
        return codec.compile_maker(cls)  # type: ignore[return-value]  # callers use it like the class

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message) or self.__fields__ is not other.__fields__:
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.__fields__)

    def __repr__(self) -> str:
        values = ", ".join(f"{field.name}={_shown(field, getattr(self, field.name))}" for field in self.__fields__)
        return f"{type(self).__name__}({values})"


class VersionedMessage(Message):
    """A complete message: it has its own versions, and can be decoded and encoded."""

    api_name: ClassVar[str] = ""
    """The Kafka name of the API, or of the stored record: "Fetch"."""
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = NO_END
    flexible_versions: ClassVar[Versions] = NO_VERSION
    flexible_from: ClassVar[int] = NO_END
    """The first flexible version; beyond every version when there is none."""

    @classmethod
    def _describe(cls, versions: str, flexible: str | None = None) -> None:
        cls.api_name = cls.__name__
        cls.min_version, cls.max_version = Versions.parse(versions)
        cls.flexible_versions = Versions.parse(flexible)
        cls.flexible_from = NO_END if cls.flexible_versions == NO_VERSION else cls.flexible_versions.first

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        return cls.flexible_versions.covers(version)

    @classmethod
    def decoder(cls, version: int) -> Callable[[Buffer, int, int], tuple[Self, int]]:
        """Return the compiled `(data, position, max_elements) -> (message, position after it)`, which raises DecodeError.

        Its `records` values are views into `data`; everything else is copied.
        """
        try:
            return cls._codecs["decode", version]
        except KeyError:
            if not cls.min_version <= version <= cls.max_version:
                raise DecodeError(f"{cls.__name__} has no version {version}") from None
            compiled = codec.compile_decoder(cls, version, cls.is_flexible(version))
            return cls._codecs.setdefault(("decode", version), compiled)

    @classmethod
    def encoder(cls, version: int) -> Callable[[Self, bytes], list[Buffer]]:
        """Return the compiled `(message, prefix) -> chunks`: `prefix` and the small parts joined, `records` by reference."""
        try:
            return cls._codecs["encode", version]
        except KeyError:
            if not cls.min_version <= version <= cls.max_version:
                raise EncodeError(f"{cls.__name__} has no version {version}") from None
            compiled = codec.compile_encoder(cls, version, cls.is_flexible(version))
            return cls._codecs.setdefault(("encode", version), compiled)

    @classmethod
    def array_encoder(cls, element: type[M], version: int) -> Callable[[Sequence[M]], Encoded]:
        """Return the compiled `(items) -> wire form` for arrays of `element` in this message; it raises EncodeError."""
        key = element.__name__, version
        compiled = cls._codecs.get(key)
        if compiled is None:
            compiled = codec.compile_array_encoder(element, version, cls.is_flexible(version))
            compiled = cls._codecs.setdefault(key, compiled)
        return compiled

    @classmethod
    def decode(cls, data: Buffer, version: int, position: int = 0, *, max_elements: int = MAX_ELEMENTS) -> Self:
        """Decode the message that fills `data` from `position` to its end. Raises DecodeError."""
        message, end = cls.decoder(version)(data, position, max_elements)
        if end != len(data):
            raise DecodeError(f"{cls.__name__} v{version}: {len(data) - end} bytes too many")
        return message

    def encode(self, version: int) -> bytes:
        """Return the wire form of `version`. Raises EncodeError."""
        return b"".join(type(self).encoder(version)(self, b""))

    def encode_chunks(self, version: int, prefix: bytes = b"") -> list[Buffer]:
        """Return `prefix` and the wire form in chunks: the `records` values are the caller's buffers, never copied."""
        return type(self).encoder(version)(self, prefix)


class Request(VersionedMessage):
    """A request of a client or another broker."""

    api_key: ClassVar[int] = -1
    response_type: ClassVar[type[Response]]

    @classmethod
    def _describe(cls, versions: str, flexible: str | None = None, key: int = -1) -> None:
        super()._describe(versions, flexible)
        cls.api_key = key
        cls.api_name = cls.__name__.removesuffix("Request")


class Response(VersionedMessage):
    """The response to the request class `answers`; it has the same key and versions."""

    api_key: ClassVar[int] = -1
    request_type: ClassVar[type[Request]]

    @classmethod
    def _describe(cls, answers: type[Request]) -> None:  # type: ignore[override]
        cls.request_type = answers
        cls.api_key = answers.api_key
        cls.api_name = answers.api_name
        cls.min_version, cls.max_version = answers.min_version, answers.max_version
        cls.flexible_versions, cls.flexible_from = answers.flexible_versions, answers.flexible_from
        answers.response_type = cls


M = TypeVar("M", bound=Message)


def _frozen_kind(kind: type[M]) -> type[M]:
    """Return a subclass of `kind` for shared defaults: equal to it, except that no field can be assigned."""

    def refuse(self: Message, name: str, _value: object) -> None:
        raise AttributeError(f"{name}: this {kind.__name__} is a shared default; assign a new struct instead")

    def unfrozen(_frozen: type[M], **values: Any) -> M:
        return kind(**values)

    def itself(self: M, *_memo: object) -> M:
        return self

    body = {"__fields__": kind.__fields__, "__slots__": (), "__setattr__": refuse, "__new__": unfrozen}
    body |= {"__copy__": itself, "__deepcopy__": itself}
    return MessageType(kind.__name__, (kind,), body)  # type: ignore[return-value]


def _shown(field: Field, value: object) -> str:
    if field.kind == "uuid" and isinstance(value, bytes):
        return value.hex()
    if isinstance(value, memoryview):
        return f"<{value.nbytes} bytes>"
    return repr(value)
