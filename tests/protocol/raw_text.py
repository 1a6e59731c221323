"""Text whose bytes on the wire are chosen: for clients that write another encoding than UTF-8."""

from __future__ import annotations


class RawText(str):
    """Encodes to `raw`; as text it is what a reader makes of that, with U+FFFD for what is no UTF-8."""

    __slots__ = ("_raw",)

    def __new__(cls, raw: bytes) -> RawText:
        made = super().__new__(cls, raw.decode("utf-8", "replace"))
        made._raw = raw
        return made

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        assert encoding == "utf-8", encoding
        return self._raw
