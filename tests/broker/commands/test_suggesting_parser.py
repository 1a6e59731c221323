from __future__ import annotations

import pytest

from broker.__main__ import main
from tools.names import COMMANDS


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["toppics", "list"], "barnabas: error: unknown command toppics: did you mean topics?"),
        (["strat"], "barnabas: error: unknown command strat: did you mean start?"),
        (["users", "dele", "bob"], "barnabas users: error: unknown command dele: did you mean delete?"),
        (["start", "--overide=a=b"], "barnabas start: error: unknown argument --overide: did you mean --override?"),
        (["users", "list", "--profil", "x"], "barnabas users list: error: unknown argument --profil: did you mean --profile?"),
        (["start", "a.properties", "more"], "barnabas start: error: unknown argument more"),
        (["zzzz"], "barnabas: error: argument command: invalid choice: 'zzzz'"),
    ],
)  # fmt: skip
def test_an_unknown_command_or_option_names_the_nearest(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments, COMMANDS)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
