"""The name of a certificate's owner, in the form of RFC 2253 as Java writes it: "CN=alice,OU=ops,O=Example,C=DE".

Pure: DER in, text out. Rules: the last element of the name comes first; attributes that RFC 2253 names have their keyword, the
others their number and the hexadecimal DER of the value, as have values that are no text. Bytes of a text are read as UTF-8
whatever its type. `, = + < > # ; " \\` have a backslash, and so have spaces at either end.
Source: Java's X500Principal.getName() (sun.security.x509.AVA.toRFC2253String), as seen of OpenJDK 17; X.690 for DER.
"""

from __future__ import annotations

from collections.abc import Iterator

SEQUENCE, SET, OBJECT_IDENTIFIER = 0x30, 0x31, 0x06
# [0] of a TBSCertificate: its version.
_VERSION = 0xA0
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString: those that Java takes for text.
_TEXT_TAGS = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
_ESCAPED = frozenset(',=+<>#;"\\')
# A longer length takes no more than so many bytes: no certificate has more than 4 GB.
_LENGTH_BYTES = 4


def subject_name(certificate: bytes) -> str:
    """Return the name of the owner of a certificate in DER form. Raises ValueError."""
    fields = _elements(_content(_content(certificate, SEQUENCE), SEQUENCE))
    first = next(fields, (0, b"", b""))
    # (version) serial number, signature, issuer, validity, subject
    skipped = 4 if first[0] == _VERSION else 3
    for _ in range(skipped):
        next(fields, None)
    tag, _, whole = next(fields, (0, b"", b""))
    if tag != SEQUENCE:
        raise ValueError("the certificate has no subject")
    return rfc2253_name(whole)


def rfc2253_name(name: bytes) -> str:
    """Return the text of a Name in DER form. Raises ValueError."""
    parts = []
    for tag, content, _ in _elements(_content(name, SEQUENCE)):
        if tag != SET:
            raise ValueError("an element of the name is no set")
        parts.append("+".join(_attribute(pair) for _, pair, _ in _elements(content)))
    return ",".join(reversed(parts))


def _attribute(pair: bytes) -> str:
    elements = list(_elements(pair))
    if len(elements) != 2 or elements[0][0] != OBJECT_IDENTIFIER:
        raise ValueError("an attribute of the name is no pair of type and value")
    number = _number(elements[0][1])
    tag, content, whole = elements[1]
    keyword = _KEYWORDS.get(number)
    if keyword is None or tag not in _TEXT_TAGS:
        return f"{keyword or number}=#{whole.hex()}"
    return f"{keyword}={_escape(content.decode('utf-8', 'replace'))}"


def _escape(text: str) -> str:
    begin, end = len(text) - len(text.lstrip(" ")), len(text.rstrip(" "))
    return "".join(
        f"\\{character}"
        if character in _ESCAPED or (character == " " and not begin <= position < end)
        else ("\\00" if character == "\0" else character)
        for position, character in enumerate(text)
    )


def _number(content: bytes) -> str:
    """Return an object identifier's number with dots. Raises ValueError."""
    numbers, value = list[int](), 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    if not numbers or content[-1] & 0x80:
        raise ValueError("an attribute's type is incomplete")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _content(data: bytes, expected_tag: int) -> bytes:
    tag, content, _ = next(_elements(data), (0, b"", b""))
    if tag != expected_tag:
        raise ValueError(f"DER has tag {tag:#x} in place of {expected_tag:#x}")
    return content


def _elements(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield tag, content and both with the length, of each element in `data`. Raises ValueError."""
    position = 0
    while position < len(data):
        start = position
        if len(data) - position < 2:
            raise ValueError("DER ends in the middle of an element")
        tag, length = data[position], data[position + 1]
        position += 2
        if length & 0x80:
            count = length & 0x7F
            if not 0 < count <= _LENGTH_BYTES or len(data) - position < count:
                raise ValueError("DER has a length that cannot be")
            length = int.from_bytes(data[position : position + count], "big")
            position += count
        if len(data) - position < length:
            raise ValueError("DER ends in the middle of an element")
        position += length
        yield tag, data[position - length : position], data[start:position]
