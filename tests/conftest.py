"""What all tests share."""

from __future__ import annotations

import gc

import pytest


def pytest_collection_finish(session: pytest.Session) -> None:
    """Take what was collected out of the garbage collector's sight: modules and thousands of items live as long as the run.

    Otherwise the collector visits them again and again, which tests of many objects pay for.
    """
    gc.collect()
    gc.freeze()
