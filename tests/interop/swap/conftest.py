"""Log directories that change hands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import need_java
from tests.interop.swap.moved_directories import MovedDirectories
from tests.oracle.ports import lasting_port
from tests.oracle.zookeeper import ZooKeeper


@pytest.fixture
def moved(tmp_path: Path) -> Iterator[MovedDirectories]:
    """Two log directories and a ZooKeeper, for one broker after the other."""
    need_java()
    with ZooKeeper() as zookeeper:
        made = MovedDirectories(tmp_path, zookeeper.connect, lasting_port())
        try:
            yield made
        finally:
            if made.broker is not None:
                made.broker.kill()
