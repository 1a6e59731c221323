"""What all tests share."""

from __future__ import annotations

import asyncio
import gc
import inspect

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine, on an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


def pytest_collection_finish(session: pytest.Session) -> None:
    """Take what was collected out of the garbage collector's sight: modules and thousands of items live as long as the run.

    Otherwise the collector visits them again and again, which tests of many objects pay for.
    """
    gc.collect()
    gc.freeze()
