"""The sections of docs/security.md, whose steps are pasted as they stand there; only the port changes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.interop.commands.test_readme import environment, read
from tests.interop.conftest import need_java
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until

SECTIONS = {
    section.partition("\n")[0]: section for section in re.split(r"^## ", read("docs/security.md"), flags=re.MULTILINE)
}


def blocks_of(section: str, language: str = "sh") -> list[str]:
    """The blocks of a section: the first one of `sh` starts a broker."""
    return re.findall(rf"^```{language}\n(.*?)^```", SECTIONS[section], re.DOTALL | re.MULTILINE)


@contextmanager
def started(block: str, folder: Path, commands: Path) -> Iterator[str]:
    """The address of a broker that the block has started in the folder, where its output is in `log`."""
    need_java()
    bootstrap = f"localhost:{lasting_port()}"
    script = block.replace("localhost:9092", bootstrap).replace("barnabas start", "exec barnabas start")
    log = folder / "log"
    with log.open("w") as output:
        broker = subprocess.Popen(
            ["bash", "-e", "-c", script], cwd=folder, env=environment(commands), stdout=output, stderr=output
        )
    try:
        assert wait_until(lambda: "broker ready" in log.read_text(), 60), log.read_text()
        yield bootstrap
    finally:
        broker.terminate()
        broker.wait(60)
