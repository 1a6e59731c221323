"""Java's rules for trimming texts and parsing numbers, as Kafka applies them. Pure.

Rules: Python's own `strip` and `int` accept more: other spaces, underscores, spaces around a number.
Source: java.lang.String.trim, Integer.parseInt, Long.parseLong, Double.parseDouble; Kafka ConfigDef.parseType.
"""

from __future__ import annotations

import re
from decimal import Decimal

_TRIMMED = "".join(map(chr, range(0x21)))
# At most as many digits as a LONG has: Python refuses thousands of digits, and is slow with hundreds.
# Java accepts the decimal digits of every script, in the first 65,536 characters of Unicode.
_WHOLE = re.compile(r"([+-]?)0*(\d{1,19})")
_LAST_CHARACTER = "\uffff"
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?")
_HEXADECIMAL = re.compile(r"([+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]{1,9})[dDfF]?")
DOUBLE_MAX = 1.7976931348623157e308
_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7
"""The numbers that Java prints without an exponent."""


def java_trim(text: str) -> str:
    """Return `text` without the control characters and spaces up to U+0020 at its ends; a no-break space remains."""
    return text.strip(_TRIMMED)


def java_integer(text: str, bits: int = 32) -> int:
    """Return the number that `parseInt` (32 bits) or `parseLong` (64) reads. Raises ValueError."""
    match = _WHOLE.fullmatch(text)
    number = None if match is None or max(text) > _LAST_CHARACTER else int(match[1] + match[2])
    if number is None or not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError(f"{text!r} is no integer of {bits} bits")
    return number


def java_double(text: str) -> float:
    """Return the number that `parseDouble` reads, decimal or hexadecimal. A number out of range is Infinity in Java; here it
    is the largest number, which can be calculated with. Raises ValueError; also for NaN."""
    if _DECIMAL.fullmatch(text):
        value = float(text.rstrip("dDfF"))
    elif (match := _HEXADECIMAL.fullmatch(text)) is not None:
        try:
            value = float.fromhex(match[1])
        except OverflowError:
            value = float("-inf" if text[0] == "-" else "inf")
    else:
        raise ValueError(f"{text!r} is no number")
    return min(max(value, -DOUBLE_MAX), DOUBLE_MAX)


def java_double_text(value: float) -> str:
    """Return the text that Double.toString makes of a finite number: 0.5, 1.0E20."""
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        return repr(value)
    digits, _, exponent = f"{Decimal(repr(value)).normalize():E}".partition("E")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"
