"""What regular expressions of Java match: patterns and inputs with the answers of Java 17.

The recording is a JSON file: `inputs` are texts by the name of their set, `rows` are `[set, pattern, answer]`. An answer is
`{error}`, or `{matches, found}`: a digit for each input, 1 where the whole of it matches, and the groups of the first match in
an input by the number of the input; in a single character, what is found is what matches.

`python -m tests.oracle.java_patterns` asks all of them again, also rows without an answer, and writes the recording anew; with
`--tables` it writes `config/java_patterns/unicode_tables.py` from Java's data.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.oracle import java

ROOT = java.HERE.parent.parent
RECORDED = ROOT / "tests" / "config" / "java_patterns" / "java-17.json"
TABLES = ROOT / "config" / "java_patterns" / "unicode_tables.py"
CHARACTERS = "characters"
_LINE = 120
_BEGINNING = '''"""Properties of Unicode 13 that Python does not know, and its scripts.

Made by `python -m tests.oracle.java_patterns --tables`. A text has ranges of code points, as numbers to the base 36: the
distance from the end of the range before, and behind a plus sign the length less one.
Source: Java 17, Character.isAlphabetic, Character.isIdeographic, Character.UnicodeScript.
"""

from __future__ import annotations

from typing import Final

'''


def ask(questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each question, `{pattern, inputs}`, with the answer of `JavaPatterns.java`."""
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    return [json.loads(line) for line in _run([], lines).rstrip("\n").split("\n")]  # a text may have other line ends


def _run(arguments: Sequence[str], standard_input: str) -> str:
    command = java.command("", [], options=(*java.QUICK_START, "-Dfile.encoding=UTF-8"))
    command[-1:] = [str(java.HERE / "JavaPatterns.java"), *arguments]
    return subprocess.run(
        command, input=standard_input, capture_output=True, encoding="utf-8", check=True, timeout=120
    ).stdout


def recording(path: Path = RECORDED) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def record(path: Path = RECORDED) -> None:
    known = recording(path)
    questions = [{"pattern": pattern, "inputs": known["inputs"][name]} for name, pattern, *_ in known["rows"]]
    rows = [
        json.dumps([name, pattern, _short(name, answer)])
        for (name, pattern, *_), answer in zip(known["rows"], ask(questions), strict=True)
    ]
    inputs = json.dumps(known["inputs"])
    path.write_text(f'{{"inputs": {inputs},\n"rows": [\n' + ",\n".join(rows) + "\n]}\n", encoding="utf-8")


def _short(name: str, answer: dict[str, Any]) -> dict[str, Any]:
    if "error" in answer:
        return answer
    matches = "".join("01"[is_match] for is_match in answer["matches"])
    found = {str(number): groups for number, groups in enumerate(answer["found"]) if groups is not None}
    return {"matches": matches} if name == CHARACTERS else {"matches": matches, "found": found}


def write_tables() -> None:
    rows = [line.split("\t") for line in _run(["tables"], "").splitlines()]
    parts = ["PROPERTIES: Final = {", *_table(rows[:2]), "}", "SCRIPTS: Final = {", *_table(rows[2:]), "}", ""]
    TABLES.write_text(_BEGINNING + "\n".join(parts))


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for name, ranges in rows:
        if len(ranges) < _LINE - len(name) - 8:
            yield f'    "{name}": "{ranges}",'
            continue
        yield f'    "{name}": ('
        line = ""
        for each in ranges.split():
            if len(line) + len(each) > _LINE - 12:
                yield f'        "{line}"'
                line = ""
            line += f"{each} "
        yield f'        "{line.rstrip()}"'
        yield "    ),"


if __name__ == "__main__":
    write_tables() if "--tables" in sys.argv else record()
