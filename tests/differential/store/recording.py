"""The answers of ZooKeeper 3.8 to the scripts: `python -m tests.differential.store.recording` asks it and records them."""

from __future__ import annotations

import base64
import hashlib
import json

from tests.differential.recording import FOLDER, dump
from tests.differential.store.play import play
from tests.differential.store.scripts import SCRIPTS, SUPER_USER
from tests.oracle.zookeeper import ZooKeeper

FILE = FOLDER / "store" / "zookeeper.json"
SUPER_DIGEST = "super:" + base64.b64encode(hashlib.sha1(SUPER_USER).digest()).decode()


def recorded() -> dict[str, list[str]]:
    return json.loads(FILE.read_text(encoding="utf-8"))


def zookeeper() -> ZooKeeper:
    """The real one, with the super user of the scripts."""
    server = ZooKeeper()
    server.environment = {"JAVA_TOOL_OPTIONS": f"-Dzookeeper.DigestAuthenticationProvider.superDigest={SUPER_DIGEST}"}
    return server


def main() -> None:
    with zookeeper() as server:
        answers = {script.__name__: play(script, ("127.0.0.1", server.port)) for script in SCRIPTS}
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(dump(answers) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
