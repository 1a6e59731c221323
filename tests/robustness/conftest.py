from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long loops run when they are asked for: `pytest tests/robustness -m slow`."""
    if "slow" in (config.option.markexpr or ""):
        return
    for item in items:
        if item.get_closest_marker("slow") is not None and "robustness" in item.nodeid:
            item.add_marker(pytest.mark.skip(reason="long: run with -m slow"))
