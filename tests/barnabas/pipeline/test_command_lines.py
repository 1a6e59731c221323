from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from barnabas.pipeline import JOBS, aggregate, archive, command
from barnabas.pipeline.options import InvalidOption

REQUIRED = {
    "archive": ["--topics", "a,b", "--output", "/o", "--checkpoint", "/c"],
    "aggregate": ["--source", "a", "--target", "b", "--checkpoint", "/c"],
    "audit": ["--topics", "a,b"],
    "mirror": ["--topics", "a", "--target-servers", "b:1", "--checkpoint", "/c"],
    "inspect": ["--topic", "a"],
    "replay": ["--archive", "/a"],
    "deduplicate": ["--source", "a", "--target", "b", "--by", "key", "--checkpoint", "/c"],
    "route": ["--source", "a", "--dead-letter", "b", "--otherwise", "d", "--checkpoint", "/c"],
}


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 2
    return capsys.readouterr().err


def main(arguments: Sequence[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_every_job_is_tested() -> None:
    assert set(REQUIRED) == set(JOBS)


@pytest.mark.parametrize("name", REQUIRED)
def test_what_a_job_cannot_do_without_is_required(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = REQUIRED[name]
    command.load(name).parse(arguments)
    for position in range(0, len(arguments), 2):
        assert arguments[position] in refusal(capsys, name, *arguments[:position], *arguments[position + 2 :])


@pytest.mark.parametrize("name", REQUIRED)
def test_a_wrong_option_names_the_valid_ones_in_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = refusal(capsys, name, *REQUIRED[name], "--bootstrap-srvers", "a:1")
    assert told == (
        "barnabas: unknown option --bootstrap-srvers: did you mean --bootstrap-servers?\n"
        f"`barnabas pipeline {name} --help` shows what can be given\n"
    )
    for option in ("-b", "--bootstrap-server", "--bootstrap-servers"):
        assert command.load(name).parse([*REQUIRED[name], option, "a:1"]).bootstrap_servers == "a:1"


def test_names_of_groups_may_have_commas(tmp_path: Path) -> None:
    job, file = command.load("mirror"), tmp_path / "job.toml"
    file.write_text('groups = ["billing", "a,b"]\n')
    for given in (["--groups", 'billing,"a,b"'], ["--file", str(file)]):
        assert job.parse([*REQUIRED["mirror"], *given]).groups == ["billing", "a,b"]
    assert job.parse(REQUIRED["mirror"]).groups == []


def test_settings_come_from_a_file_and_flags_have_precedence(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text(
        'topics = ["a", "b"]\noutput = "/o"\ncheckpoint = "/c"\ntolerate_loss = true\nrecords-per-file = 7\n'
    )
    options = archive.job.parse(["--file", str(file), "--records-per-file", "9"])
    assert (options.topics, options.output, options.tolerate_loss) == ("a,b", "/o", True)
    assert options.records_per_file == 9


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("topic = 'a'", "unknown option topic: did you mean topics?"),
        ("topics = ", "is no TOML file"),
        ("[topics]\na = 1", "topics is a table; valid is a text, a number, true, false or a list"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.toml"
    file.write_text(text)
    printed = refusal(capsys, "archive", "--file", str(file))
    assert told in printed
    assert printed.count("\n") == 2


def test_a_call_takes_settings_by_name_and_raises_for_wrong_ones() -> None:
    options = archive.job.options(topics="a", output="/o", checkpoint="/c", max_offsets_per_trigger=7)
    assert options.max_offsets_per_trigger == 7
    with pytest.raises(InvalidOption, match="unknown option outputs"):
        archive.job.options(topics="a", outputs="/o", checkpoint="/c")
    with pytest.raises(InvalidOption, match="Missing option '--topics'"):
        archive.job.options(output="/o", checkpoint="/c")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--value-format", "avro"], "needs --schema FILE.avsc"),
        (["--schema", "/nowhere"], "--schema is for --value-format json or avro, not bytes"),
        (["--value-format", "json", "--schema", "/nowhere"], "--schema /nowhere: No such file"),
        (["--value-format", "xml"], "'xml' is not one of 'bytes'"),
        (["--bootstrap-servers", "a"], "'a' is not host:port"),
        (["--topics", "a b"], "'a b' is no topic name"),
    ],
)
def test_values_and_addresses_are_checked_before_spark_starts(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in refusal(capsys, "archive", *REQUIRED["archive"], *arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("audit", ["--trace", "x"], "--trace VALUE and --trace-header NAME go together"),
        ("audit", ["--starting-offsets", "latest"], "leaves nothing to audit"),
        ("inspect", ["--path", "/nowhere"], "--path /nowhere: not a directory"),
        ("mirror", ["--connector"], "--connector cannot write timestamps"),
        ("mirror", ["--target-servers", "localhost:9092"], "--target-servers are the source"),
        ("mirror", ["--target-servers", "b"], "'b' is not host:port"),
        ("replay", ["--rate", "1", "--speed", "1"], "--rate and --speed do not go together"),
        ("replay", ["--rate", "0"], "'0' is not a number above zero"),
        ("route", ["--rule", "key is a -> b"], "--rule or --required: 'key is a' is no condition; valid is any"),
        ("route", ["--required", "topic"], "--rule or --required: 'topic' is no field"),
        ("route", ["--rule", "any -> a"], "--source a is also a target"),
        ("deduplicate", ["--by", "offset"], "--by: 'offset' is no field; valid are key, header.NAME and value.FIELD"),
        ("deduplicate", ["--target", "a"], "--source and --target are both a"),
    ],
)
def test_what_jobs_cannot_do_is_said_before_spark_starts(
    name: str, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in refusal(capsys, name, *REQUIRED[name], *arguments)


def test_a_route_to_nowhere_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--source", "a", "--dead-letter", "b", "--checkpoint", "/c"]
    assert "nothing is routed: name --rule or --otherwise" in refusal(capsys, "route", *arguments)


@pytest.mark.parametrize("name", REQUIRED)
def test_help_needs_no_spark(name: str) -> None:
    code = f"import sys; sys.modules['pyspark'] = None; sys.argv = ['barnabas', 'pipeline', {name!r}, '--help']; "
    code += "from barnabas.cli import main; main()"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert run.returncode == 0, run.stderr
    assert "--bootstrap-servers" in run.stdout


def test_an_unknown_job_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert "unknown command archiv: did you mean archive?\n" in refusal(capsys, "archiv")


@pytest.mark.parametrize(("text", "taken"), [("90s", "90 seconds"), ("PT1H", "3600 seconds"), ("1 minute", "1 minute")])
def test_durations_have_the_form_of_spark_or_that_of_all_commands(text: str, taken: str) -> None:
    options = aggregate.job.parse([*REQUIRED["aggregate"], "--window", text, "--trigger", text])
    assert (options.window, options.trigger) == (taken, taken)


def test_a_batch_of_the_archive_has_one_name_however_often_it_is_tried() -> None:
    first = archive.batch_name("0b5a7c1e-1111-2222-3333-444444444444", 7)
    assert first == "0000000007-0b5a7c1e"
    assert first < archive.batch_name("0b5a7c1e-1111-2222-3333-444444444444", 10)
    assert first != archive.batch_name("9b5a7c1e-1111-2222-3333-444444444444", 7), "another checkpoint, other folders"


def test_the_aggregates_fields_are_named_as_asked() -> None:
    arguments = ["--source", "a", "--target", "b", "--checkpoint", "/c"]
    assert aggregate.event_schema(aggregate.job.parse(arguments)) == ("`key` STRING, `amount` STRING, `time` STRING")
    arguments += ["--key-field", "shop id", "--amount-field", "a`b", "--time-field", "at"]
    assert aggregate.event_schema(aggregate.job.parse(arguments)) == ("`shop id` STRING, `a``b` STRING, `at` STRING")


@pytest.mark.parametrize("option", ["--window", "--late", "--ahead"])
def test_the_aggregates_durations_are_checked_before_spark_starts(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("-5 minutes", "5 minuets"):
        assert "is not a duration" in refusal(capsys, "aggregate", *REQUIRED["aggregate"], option, text)
