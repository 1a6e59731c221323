from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

from barnabas.pipeline import frame, options, records, session
from barnabas.pipeline.options import Options

OPTIONS = ["--checkpoint", "/c"]


def parse(arguments: Sequence[str]) -> Options:
    job = frame.Job("test", "A job.", (), lambda _options: [], lambda *_: pytest.fail("started"))
    return job.parse(arguments)


def source(*arguments: str) -> dict[str, str]:
    return records.stream_options(parse([*OPTIONS, "--connector", *arguments]), "a,b")


def refusal(*arguments: str) -> str:
    with pytest.raises(click.UsageError) as ended:
        parse([*OPTIONS, *arguments])
    return ended.value.format_message()


def test_the_python_source_is_told_the_checkpoint() -> None:
    options = records.stream_options(parse(OPTIONS), "a")
    assert options["checkpointLocation"] == "/c"


def test_a_source_fails_rather_than_lose_records_unless_told() -> None:
    assert source() == {
        "kafka.bootstrap.servers": "localhost:9092",
        "subscribe": "a,b",
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": "1000000",
        "startingOffsets": "earliest",
    }
    assert source("--tolerate-loss")["failOnDataLoss"] == "false"
    assert source("--max-offsets-per-trigger", "7")["maxOffsetsPerTrigger"] == "7"


@pytest.mark.parametrize(
    ("text", "timestamp"),
    [
        ("2026-01-31T10:00:00Z", "1769853600000"),
        ("2026-01-31T10:00:00", "1769853600000"),
        ("2026-01-31T12:00:00.250+02:00", "1769853600250"),
        ("2026-01-31", "1769817600000"),
    ],
)
def test_a_source_starts_at_a_time(text: str, timestamp: str) -> None:
    options = source("--starting-offsets", text)
    assert options["startingTimestamp"] == timestamp
    assert options["startingOffsetsByTimestampStrategy"] == "latest"
    assert "startingOffsets" not in options


@pytest.mark.parametrize(
    ("option", "text", "told"),
    [
        ("--starting-offsets", "yesterday", "'yesterday' is not earliest, latest or a time"),
        ("--starting-offsets", "1969-12-31T00:00:00Z", "before 1970"),
        ("--max-offsets-per-trigger", "0", "0 is not in the range x>=1"),
        ("--max-offsets-per-trigger", "1e6", "is not a valid integer range"),
        ("--trigger", "soon", "'soon' is not available-now or a duration"),
        ("--trigger", "0 seconds", "'0 seconds' is not available-now or a duration"),
        ("--trigger", "1 hour; DROP TABLE x", "is not available-now or a duration"),
        ("--command-config", "/nowhere/client.properties", "/nowhere/client.properties: No such file"),
    ],
)
def test_an_option_that_cannot_be_is_refused_in_one_line(
    option: str, text: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in refusal(option, text)


def test_client_settings_come_from_a_file_but_the_brokers_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "# ours\n! and theirs\n\nsecurity.protocol = SASL_SSL\nsasl.jaas.config=a b=c;\nbootstrap.servers=x:1\n"
    )
    given = parse([*OPTIONS, "--command-config", str(path), "--bootstrap-servers", "y:2"])
    assert records.connection(given) == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.jaas.config": "a b=c;",
        "kafka.bootstrap.servers": "y:2",
    }


def test_a_file_of_client_settings_is_read_as_java_reads_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "client.properties"
    path.write_text("sasl.jaas.config=a\\ b\\=c;\nacks=all\n")
    given = parse([*OPTIONS, "--command-config", str(path)])
    assert given.command_config == {"kafka.sasl.jaas.config": "a b=c;", "kafka.acks": "all"}
    path.write_text("linger.ms=5\nsecurity.protocol=SSL\n")
    given = parse([*OPTIONS, "--command-config", str(path)])
    assert records.connection(given).keys() == {"kafka.security.protocol", "kafka.bootstrap.servers"}
    given.connector = True
    assert records.connection(given)["kafka.linger.ms"] == "5", "Java's client knows it"
    path.write_text("a=\\u12\n")
    assert "cannot read" in refusal("--command-config", str(path))


def test_folders_are_taken_from_here_unless_they_name_a_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert options.folder("a/b") == str(tmp_path / "a" / "b")
    assert options.folder("/a/b") == "/a/b"
    assert options.folder("hdfs://boss/a") == "hdfs://boss/a"
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert options.folder("a/b") == "a/b", "the cluster's own file system"


def test_the_jobs_own_session_stays_on_this_machine_unless_a_master_is_named() -> None:
    packages = [session.connector("4.0.0"), session.avro("4.0.0")]
    local = session.own_settings(packages, "/ivy.xml", {})
    assert local["spark.master"] == "local[2]"
    assert local["spark.jars.packages"] == (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0,org.apache.spark:spark-avro_2.13:4.0.0"
    )
    assert local["spark.jars.ivySettings"] == "/ivy.xml"
    assert "spark.jars.packages" not in session.own_settings([], "/ivy.xml", {}), "no jar is fetched unless asked for"
    assert local["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.jars.ivy" not in local
    remote = session.own_settings(packages, "/ivy.xml", {"SPARK_MASTER": "spark://boss:7077", "SPARK_IVY": "/ivy"})
    assert remote["spark.master"] == "spark://boss:7077"
    assert remote["spark.jars.ivy"] == "/ivy"
    assert "spark.driver.bindAddress" not in remote


def test_local_workers_run_in_this_interpreter_and_find_a_checkout() -> None:
    root = str(Path(__file__).resolve().parents[3])
    assert session.worker_settings({}) == {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": root}
    assert session.worker_settings({"PYSPARK_PYTHON": "/p", "PYTHONPATH": "/a"}) == {
        "PYTHONPATH": f"/a{os.pathsep}{root}"
    }
    assert "PYSPARK_PYTHON" not in session.worker_settings({"SPARK_MASTER": "spark://boss:7077"})


def test_variables_are_as_before_after_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_A", "1")
    monkeypatch.delenv("BARNABAS_B", raising=False)
    with session.variables({"BARNABAS_A": "2", "BARNABAS_B": "3"}):
        assert (os.environ["BARNABAS_A"], os.environ["BARNABAS_B"]) == ("2", "3")
    assert os.environ["BARNABAS_A"] == "1"
    assert "BARNABAS_B" not in os.environ


def test_spark_is_quiet_unless_its_messages_are_asked_for() -> None:
    assert session.log_level({}) == "OFF"
    assert session.log_level({"PYSPARK_GATEWAY_PORT": "1"}) == "ERROR", "the log of a cluster"
    assert session.log_level({"SPARK_LOG_LEVEL": "INFO", "PYSPARK_GATEWAY_PORT": "1"}) == "INFO"


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_javas_version_is_read_from_its_own_words(told: str, version: int | None) -> None:
    assert session.parse_java_version(told) == version


def fake_java(folder: Path, version: str) -> None:
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text(f"#!{sys.executable}\nimport sys\nsys.stderr.write('openjdk version \"{version}\"')\n")
    java.chmod(0o755)


@pytest.fixture
def fake_pyspark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with nothing but a version, so that these run without Spark too."""
    package = tmp_path / "site" / "pyspark"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("__version__ = '4.0.0'\n")
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return package / "__init__.py"


def test_missing_pyspark_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(session.Unavailable, match=r'in a clone of Barnabas, pip install "\.\[spark\]"'):
        session.require_spark()


def test_an_old_spark_is_refused(fake_pyspark: Path) -> None:
    fake_pyspark.write_text("__version__ = '3.5.1'\n")
    with pytest.raises(session.Unavailable, match=r"Spark 4 or later is needed, this is 3\.5\.1"):
        session.require_spark()


def test_missing_and_old_java_are_named_with_their_cure(
    fake_pyspark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(session.Unavailable, match="Java is missing: install"):
        session.require_spark()
    fake_java(tmp_path / "java11", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java11"))
    with pytest.raises(session.Unavailable, match="Java 17 or later is needed, this is 11"):
        session.require_spark()
    fake_java(tmp_path / "java21", "21.0.1")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", os.path.join(tmp_path, "java21", "bin"))
    assert session.require_spark() == "4.0.0"


def test_a_job_without_spark_ends_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    job = frame.Job("a-job", "A job.", (), lambda _options: [], lambda *_: pytest.fail("started"))
    assert frame.run(job, job.parse(OPTIONS)) == 1
    assert capsys.readouterr().err == 'a-job: PySpark is missing: in a clone of Barnabas, pip install ".[spark]"\n'
