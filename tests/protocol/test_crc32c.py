"""The checksum, and the two ways to its C function."""

from __future__ import annotations

import crc32c as package
import pytest

from protocol import crc32c as module


@pytest.mark.parametrize("function", [module.crc32c, module._c_function(None)], ids=["extension", "package"])
def test_check_values(function: module.Checksum) -> None:
    """Of RFC 3720, appendix B.4, and the catalogue's `check`."""
    assert function(b"123456789") == 0xE3069283
    assert function(bytes(32)) == 0x8A9136AA
    assert function(memoryview(bytes(range(32)))) == 0x46DD794E
    assert function(b"56789", function(b"1234")) == 0xE3069283


def test_the_extension_is_found_where_the_package_keeps_it() -> None:
    assert module._extension() is not None
    data = bytes(range(256)) * 5
    assert module.crc32c(data) == package.crc32c(data)
