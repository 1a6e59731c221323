"""Decodes bytes as text like Java: invalid UTF-8 becomes U+FFFD, and nothing is refused.

Rules: pure. Every string of a request, of a stored record and of a record header is decoded this way: a client that writes
names in Latin-1 gets the same names as with Apache Kafka. Source: java.lang.String(byte[], UTF_8).
"""

from __future__ import annotations

import codecs


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """Replace an encoded surrogate by one U+FFFD, as Java does; Python replaces it byte by byte."""
    assert isinstance(error, UnicodeDecodeError)
    content, start, end = error.object, error.start, error.end
    if content[start] == 0xED and content[start + 1 : start + 2] >= b"\xa0":
        following = content[start + 1 : start + 3]
        end = start + 1 + next((at for at, byte in enumerate(following) if byte & 0xC0 != 0x80), len(following))
    return "\N{REPLACEMENT CHARACTER}", max(end, error.end)


AS_JAVA = "barnabas.protocol.java_text"
"""The name of the error handler, for the `errors` parameter of `decode`."""
codecs.register_error(AS_JAVA, _replace_as_java)
