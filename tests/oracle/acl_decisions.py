"""What Apache Kafka 3.9.1's AclAuthorizer decides, without a start: its own class, in one JVM for all cases.

Cases are made from a seed: some ACLs, and questions about few principals, hosts and names, so that many ACLs apply to each.
RECORDING has a line of digits for each case. `python -m tests.oracle.acl_decisions` asks all of them again and writes it anew.
"""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

from tests.oracle import java

RECORDING = java.HERE.parent / "security" / "acls" / "decisions-3.9.txt"
CASES = 250
QUESTIONS = 60
TOPIC, GROUP, CLUSTER = 2, 3, 4
LITERAL, PREFIXED = 3, 4
OPERATIONS = range(2, 15)
PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:alice", "User:")
HOSTS = ("10.0.0.1", "10.0.0.2")
NAMES = ("*", "a", "ab", "abc", "abd", "b", "ba", "é", "éa", "😀", "😀a")


def cases() -> list[dict[str, Any]]:
    """All cases, always the same."""
    chance = random.Random(39)
    return [_case(chance) for _ in range(CASES)]


def _case(chance: random.Random) -> dict[str, Any]:
    operations = chance.sample(OPERATIONS, chance.choice((2, 4, 13)))
    acls = [
        [
            chance.choice((TOPIC, TOPIC, GROUP)),
            chance.choice(NAMES),
            chance.choice((LITERAL, PREFIXED)),
            chance.choice(PRINCIPALS),
            chance.choice((*HOSTS, "*", "*")),
            chance.choice(operations),
            chance.choice((2, 3, 3)),
        ]
        for _ in range(chance.choice((0, 1, 2, 4, 8, 16)))
    ]
    questions = [
        [
            chance.choice(PRINCIPALS),
            chance.choice(HOSTS),
            chance.choice([each for each in operations if each > 2] or [3]),
            chance.choice((TOPIC, TOPIC, GROUP, CLUSTER)),
            chance.choice((*NAMES, "abcd", "x", None, None)),
        ]
        for _ in range(QUESTIONS)
    ]
    super_users = chance.choice(([], [], ["User:bob"]))
    return {"super_users": super_users, "everyone": chance.random() < 0.3, "acls": acls, "questions": questions}


def recorded() -> list[str]:
    return RECORDING.read_text(encoding="ascii").split()


def ask() -> list[str]:
    """Apache Kafka's answers to all cases."""
    lines = "".join(json.dumps(case) + "\n" for case in cases())
    command = java.command("", [], options=(*java.QUICK_START, "-Dfile.encoding=UTF-8"))
    command[-1:] = [str(java.HERE / "DecideByAcls.java")]
    run = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=120, check=True)
    return run.stdout.split()


def main() -> None:
    Path(RECORDING).write_text("\n".join(ask()) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
