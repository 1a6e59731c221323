from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of this folder as serial: they measure memory and waits of a broker process, and fill and freeze things.

    Long loops run when they are asked for: `pytest tests/robustness -m slow`.
    """
    for item in items:
        if HERE not in item.path.parents:
            continue
        item.add_marker(pytest.mark.serial)
        if item.get_closest_marker("slow") is not None and "slow" not in (config.option.markexpr or ""):
            item.add_marker(pytest.mark.skip(reason="long: run with -m slow"))


@pytest.fixture(scope="module")
def many_files() -> Iterator[None]:
    """The tests may have thousands of connections."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
