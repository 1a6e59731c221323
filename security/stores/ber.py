"""A reader of ASN.1 in the encodings BER and DER, for the structures of key stores.

Pure. Rules: only what key stores have: tags of one byte, lengths of up to four bytes and the indefinite one, which old programs
write. Every length is checked against what contains it, and nesting has a limit, so that time and memory are proportional to
the size of the data.
Source: ITU-T X.690.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

INTEGER, OCTETS, NULL, OBJECT, SEQUENCE, SET = 0x02, 0x04, 0x05, 0x06, 0x30, 0x31
CONTEXT_0, CONTEXT_0_PRIMITIVE = 0xA0, 0x80
BMP_TEXT = 0x1E
_CONSTRUCTED = 0x20
_INDEFINITE = 0x80
_LONG_TAG = 0x1F
_DEPTH_MAX = 24
_END = b"\0\0"
_LENGTH_BYTES_MAX = 4
_INTEGER_BYTES_MAX = 8
_SHOWN_BYTES_MAX = 32


@dataclass(frozen=True, slots=True)
class Element:
    """An element. It begins at `begin` of `data`, its content is `data[start:end]`, and the next one begins at `next`."""

    data: bytes
    tag: int
    begin: int
    start: int
    end: int
    next: int
    depth: int

    @property
    def content(self) -> bytes:
        return self.data[self.start : self.end]

    def children(self) -> Iterator[Element]:
        """Yield the elements that this one contains. Raises ValueError while it is iterated."""
        if not self.tag & _CONSTRUCTED:
            raise ValueError("an element has no parts, where parts are expected")
        position = self.start
        while position < self.end:
            child = _element(self.data, position, self.end, self.depth + 1)
            yield child
            position = child.next

    def parts(self, least: int, most: int) -> list[Element]:
        """Return the elements that this one contains, of which there are `least` to `most`. Raises ValueError."""
        found = []
        for child in self.children():
            found.append(child)
            if len(found) > most:
                break
        if not least <= len(found) <= most:
            raise ValueError("an element has other parts than expected")
        return found

    def octets(self) -> bytes:
        """Return the content of an OCTET STRING, which may be given in parts. Raises ValueError."""
        if self.tag & _CONSTRUCTED:
            return b"".join(part.octets() for part in self.children())
        return self.content

    def number(self) -> int:
        """Return the value of an INTEGER of up to eight bytes. Raises ValueError."""
        if self.tag != INTEGER or not 0 < self.end - self.start <= _INTEGER_BYTES_MAX:
            raise ValueError("a number is missing, or out of range")
        return int.from_bytes(self.content, signed=True)


def parse(data: bytes) -> Element:
    """Return the element at the beginning of `data`; what is behind it is left. Raises ValueError."""
    return _element(data, 0, len(data), 0)


def is_whole(data: bytes, tag: int) -> bool:
    """Return whether `data` is one element of this tag."""
    try:
        element = parse(data)
    except ValueError:
        return False
    return element.tag == tag and element.next == len(data)


def object_name(text: str) -> bytes:
    """Return the content of the OBJECT IDENTIFIER that is written `text`, as in "2.5.29.37.0"."""
    first, second, *rest = map(int, text.split("."))
    out = bytearray()
    for number in (40 * first + second, *rest):
        septets = [number & 0x7F]
        while number := number >> 7:
            septets.append(number & 0x7F | 0x80)
        out += bytes(reversed(septets))
    return bytes(out)


def object_text(content: bytes) -> str:
    """Return the text of an OBJECT IDENTIFIER, for errors; a long one is cut."""
    numbers, number = [], 0
    for octet in content[:_SHOWN_BYTES_MAX]:
        number = number << 7 | octet & 0x7F
        if octet < 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        return "unnamed"
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _element(data: bytes, position: int, limit: int, depth: int) -> Element:
    if depth > _DEPTH_MAX:
        raise ValueError("its elements are nested too deep")
    if limit - position < len(_END):
        raise ValueError("it ends in the middle of an element")
    tag, length, begin, start = data[position], data[position + 1], position, position + 2
    if tag & _LONG_TAG == _LONG_TAG:
        raise ValueError("an element has an unknown tag")
    if length == _INDEFINITE:
        return _indefinite(data, tag, begin, limit, depth)
    if length > _INDEFINITE:
        count = length - _INDEFINITE
        if count > _LENGTH_BYTES_MAX or start + count > limit:
            raise ValueError("an element has a wrong length")
        length = int.from_bytes(data[start : start + count])
        start += count
    if start + length > limit:
        raise ValueError("an element is longer than what contains it")
    return Element(data, tag, begin, start, start + length, start + length, depth)


def _indefinite(data: bytes, tag: int, begin: int, limit: int, depth: int) -> Element:
    """An element that ends with two zero bytes behind its last part."""
    if not tag & _CONSTRUCTED:
        raise ValueError("an element has a wrong length")
    start = position = begin + 2
    while data[position : min(position + 2, limit)] != _END:
        position = _element(data, position, limit, depth + 1).next
    return Element(data, tag, begin, start, position, position + len(_END), depth)
