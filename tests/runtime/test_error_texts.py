from __future__ import annotations

import errno

import pytest

from runtime.error_texts import reason_of


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), "No such file or directory"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/a"), "No such file or directory: /a"),
        (OSError(errno.EXDEV, "Invalid cross-device link", "/a", None, "/b"), "Invalid cross-device link: /a: /b"),
        (OSError("listener A: Address already in use"), "listener A: Address already in use"),
        (ConnectionError("closed by the peer"), "closed by the peer"),
        (TimeoutError(), "timed out"),
        (ValueError("not a number"), "ValueError: not a number"),
        (AssertionError(), "AssertionError"),
    ],
)
def test_reasons(error: BaseException, reason: str) -> None:
    assert reason_of(error) == reason
