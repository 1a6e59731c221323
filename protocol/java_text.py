"""Bytes as text, the way Java reads them: what is no UTF-8 becomes U+FFFD, and nothing is refused.

Rules: pure. Every string of a request, of a stored record and of a record header is read so: a client that writes names in
Latin-1 is served, under the name that Apache Kafka gives it. Source: java.lang.String(byte[], UTF_8).
"""

from __future__ import annotations

import codecs


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """One replacement for what Java takes together: half of a surrogate pair, which Python replaces byte by byte."""
    assert isinstance(error, UnicodeDecodeError)
    content, start, end = error.object, error.start, error.end
    if content[start] == 0xED and content[start + 1 : start + 2] >= b"\xa0":
        following = content[start + 1 : start + 3]
        end = start + 1 + next((at for at, byte in enumerate(following) if byte & 0xC0 != 0x80), len(following))
    return "\N{REPLACEMENT CHARACTER}", max(end, error.end)


AS_JAVA = "barnabas.protocol.java_text"
"""For the `errors` of a decoding."""
codecs.register_error(AS_JAVA, _replace_as_java)
