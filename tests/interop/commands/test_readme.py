"""The examples of the README and of the pages that it sends its readers to, run as they stand there.

Only addresses and folders change: `localhost:9092`, `9093` and `9094` are where the brokers under test happen to be. Blocks
of Python, Go and JavaScript are programs; blocks of `sh` are given to a shell that finds the commands which Apache Kafka and
`pip install .` would install. What is not run stands in NOT_RUN with its reason; `test_nothing_is_left_out` fails for a block
or command that is neither.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.conftest import need_java
from tests.oracle import java, tools
from tests.oracle.barnabas import REPOSITORY, Barnabas
from tests.oracle.cluster import OURS, Cluster
from tests.oracle.ports import lasting_port
from tests.oracle.process import hear_interrupts, wait_until
from tests.oracle.readiness import listed_brokers
from tests.oracle.zookeeper import ZooKeeper

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(900)]

PAGES = ("README.md", "docs/compatibility.md", "docs/cluster.md")
IN_A_CLUSTER = "localhost:9092,localhost:9093,localhost:9094"
OFFSETS = '{"partitions": [{"topic": "orders", "partition": 0, "offset": 1}], "version": 1}'
CLIENTS = Path(__file__).resolve().parents[1] / "clients"
# What a busy machine needs more time for than a tool's default.
LIMITS = {"consumer-groups": "--timeout 60000"}
NOT_RUN = {
    "make test": "it is what runs these tests' neighbours, minutes long",
    "make interop": "it is what runs these tests",
    "make interop-long": "the same for an hour",
    "make example-spark": "minutes long, in test_example_of_spark for `make interop-long`",
    "docker compose up --build --detach": "test_cluster_compose.py does it for `make interop-long`",
    "docker compose stop": "the same",
    "docker compose --profile secure up --build --detach --wait secure1 secure2 secure3 secure-web": "the same",
    "docker compose --profile secure cp secure1:/security/admin.properties .": "the same",
    "make cluster-secure": "tests/barnabas/supervisor/test_make_cluster.py starts it, with a client that can log in",
    "barnabas start --brokers": "tests/barnabas/supervisor starts several brokers",
    "barnabas start --brokers 3": "the same",
    "barnabas start --brokers N": "the same",
    "barnabas partitions plan --replication-factor": "the same, whose banner has the whole line",
    "barnabas web --bootstrap-server HOST:9092": "tests/web starts it",
    "barnabas relay": "tests/interop/relay starts it",
    "barnabas start --override barnabas.relay.enable=true": "tests/barnabas/supervisor starts it",
    "barnabas relay rules add reminders-later reminders --delay 1m --create-topics": "test_recipes.py does the like",
    "barnabas delayed list": "the same",
    "barnabas dlq list TOPIC": "the same",
    "barnabas trace orders --key 42": "the same",
    "barnabas cluster health": "the name of a command, which test_cluster_health.py runs",
    "barnabas store --help": "tests/barnabas/test_commands.py shows every help",
    "barnabas store --data-dir DIR": "tests/barnabas/store starts it",
    "barnabas store --data-dir store-data --host 127.0.0.1 zoo.cfg": "the same, with such a file",
    "kill -USR1": "the same, which looks at the copy",
    "barnabas users": "the name of a group of commands, which tests/interop/security/test_page.py runs",
    "docker kill": "the same",
    "barnabas balance": "test_reassignment.py evens out clusters with it",
    "barnabas settings --check server.properties": "tests/barnabas/test_settings_command.py checks files",
    "pip install .": "tests/barnabas/test_wheel.py installs what is built here",
    'pip install ".[cli]"': "requirements/cli.txt installs what it brings",
    "make cli": "the commands run from this clone",
    "pip install confluent-kafka": "requirements/dev.txt installs it",
    'pip install ".[spark]"': "requirements/spark.txt installs what it brings",
    "pip wheel --no-deps .": "tests/barnabas/test_wheel.py builds it",
    "pipx install": "tests/interop/packaging/test_installers.py runs it for `make interop-long`",
    "uv tool install": "the same",
    "uvx --from ./barnabas-0.1.0-py3-none-any.whl barnabas start": "the same",
    'pip install "./barnabas-0.1.0-py3-none-any.whl[cli]"': "the same installs it",
    "npm install kafkajs": "npm ci installs it from clients/js/package-lock.json",
    "go mod init hello && go get github.com/twmb/franz-go/pkg/kgo": "clients/go/go.mod pins it",
    "make cluster ZOOKEEPER=host:2181/chroot": "test_make_cluster_with_a_running_zookeeper, with an address that exists",
    "kill -9": "tests/barnabas/supervisor/test_several_brokers.py kills a broker of the table that `make cluster` prints",
    "kafka-leader-election.sh --election-type preferred": "part of a command; the whole is in a block",
    "kafka-topics.sh --describe --under-replicated-partitions": "the same",
}
A_COMMAND = re.compile(
    r"^(kafka-\S+\.sh|make|barnabas|docker|docker-compose|pipx?|uvx?|npm|go|kill|pkill|curl|python -m)\s"
)


class Block(NamedTuple):
    page: str
    language: str
    text: str


def read(page: str) -> str:
    return (REPOSITORY / page).read_text(encoding="utf-8")


BLOCKS = [
    Block(page, language, text)
    for page in PAGES
    for language, text in re.findall(r"^```(\w*)\n(.*?)^```", read(page), re.DOTALL | re.MULTILINE)
]
PYTHON = [block.text for block in BLOCKS if block.language == "python"]
LINES = [
    shlex.join(shlex.split(line, comments=True)) if "#" in line else line.strip()
    for block in BLOCKS
    if block.language == "sh"
    for line in block.text.splitlines()
]
INLINE = [
    command
    for page in PAGES
    for command in re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", read(page), flags=re.DOTALL | re.MULTILINE))
    if A_COMMAND.match(command)
]


def is_one_of_apache_kafka(command: str) -> bool:
    return command.startswith(("kafka-", "echo "))


def of_a_cluster(block: Block) -> bool:
    return IN_A_CLUSTER in block.text or block.page == "docs/cluster.md"


COMMANDS_ALONE = [
    block.text
    for block in BLOCKS
    if block.language == "sh" and is_one_of_apache_kafka(block.text) and not of_a_cluster(block)
]
COMMANDS_IN_A_CLUSTER = [
    block.text
    for block in BLOCKS
    if block.language == "sh" and is_one_of_apache_kafka(block.text) and of_a_cluster(block)
]
COMMAND_LINE = [block.text for block in BLOCKS if block.language == "sh" and block.text.startswith("barnabas topics")]
COMMANDS_OF_THE_TABLE = [command for command in INLINE if is_one_of_apache_kafka(command) and command not in NOT_RUN]
STARTS = sorted({line for line in LINES if line.startswith("barnabas start")})
SHOWS = sorted(
    {line for line in LINES + INLINE if re.match(r"barnabas (settings|--help|pipeline --help)|make help", line)}
    - NOT_RUN.keys()
)
MAKE_RUN = sorted({line for line in LINES + INLINE if line.startswith("make run")})
MAKE_CLUSTER = sorted({line for line in LINES + INLINE if line.startswith("make cluster")} - NOT_RUN.keys())
SPARK = [line for line in LINES if re.match(r"barnabas pipeline [a-z]", line)]
READING = ["barnabas dump-log", "barnabas log find"]
FIND = [command for command in INLINE if command.startswith("barnabas log find ")]
SCRAPE = [command for command in INLINE if command.startswith("curl ")]


def test_nothing_is_left_out() -> None:
    """Every block has a language whose blocks are run, and every command is run or stands in NOT_RUN."""
    assert {block.language for block in BLOCKS} - {""} == {"python", "sh", "go", "js"}
    for block in BLOCKS:
        if not block.language:
            assert "──" in block.text, f"{block.page}: a block without a language that is no drawing:\n{block.text}"
    run = {*STARTS, *SHOWS, *MAKE_RUN, *MAKE_CLUSTER, *SPARK, *READING, *FIND, *SCRAPE, *COMMANDS_OF_THE_TABLE}
    run |= {line for line in LINES if is_one_of_apache_kafka(line)}
    run |= {line.strip() for text in COMMAND_LINE for line in text.splitlines()}
    left_out = {*LINES, *INLINE} - run - NOT_RUN.keys()
    assert not left_out, "neither run nor named in NOT_RUN"
    assert not NOT_RUN.keys() - {*LINES, *INLINE}, "no longer in the pages: drop it from NOT_RUN"
    assert COMMAND_LINE
    assert len(COMMANDS_OF_THE_TABLE) >= 12
    assert all([STARTS, SHOWS, MAKE_RUN, MAKE_CLUSTER, SPARK, FIND, SCRAPE, COMMANDS_ALONE, COMMANDS_IN_A_CLUSTER])


@pytest.fixture
def alone() -> Iterator[Barnabas]:
    with Barnabas({"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker


@pytest.fixture(scope="module")
def together() -> Iterator[Cluster]:
    need_java()
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with Cluster([OURS] * 3, settings={"replica.selector.class": selector}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PATH: the scripts of Apache Kafka, `barnabas` and `python`."""
    folder = tmp_path_factory.mktemp("bin")
    lines = {"barnabas": f"{sys.executable} -m barnabas.cli", "python": sys.executable}
    if java.missing() is None:
        for tool, main_class in tools.MAIN_CLASSES.items():
            lines[f"kafka-{tool}.sh"] = shlex.join(java.command(main_class, []))
    for name, line in lines.items():
        limit = LIMITS.get(name.removeprefix("kafka-").removesuffix(".sh"), "")
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {line} "$@" {limit}\n', encoding="utf-8")
        script.chmod(0o755)
    return folder


def environment(commands: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), "PATH": f"{commands}:{os.environ['PATH']}"}


def run(command: list[str], folder: Path, variables: dict[str, str], standard_input: str = "") -> str:
    """What it wrote to both outputs; it ends with 0, and no tool of Apache Kafka tells of an error."""
    result = subprocess.run(
        command,
        cwd=folder,
        env=variables,
        input=standard_input,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    output = result.stdout + result.stderr
    assert result.returncode == 0, f"{command} ended with {result.returncode}:\n{output}"
    assert not re.search(r"^Error|Exception in thread", output, re.MULTILINE), f"{command}\n{output}"
    return output


def run_shell(text: str, bootstrap: str, folder: Path, commands: Path) -> str:
    script = text.replace(IN_A_CLUSTER, bootstrap).replace("localhost:9092", bootstrap)
    return run(["bash", "-e", "-o", "pipefail", "-c", script], folder, environment(commands))


def run_python(example: str, bootstrap: str, folder: Path) -> None:
    program = example.replace(IN_A_CLUSTER, bootstrap).replace("localhost:9092", bootstrap)
    run([sys.executable, "-c", program], folder, {**os.environ, "PYTHONPATH": str(REPOSITORY)})


@pytest.mark.parametrize("example", [example for example in PYTHON if IN_A_CLUSTER not in example])
def test_python_with_a_broker(example: str, alone: Barnabas, tmp_path: Path) -> None:
    run_python(example, alone.bootstrap_servers, tmp_path)


@pytest.mark.parametrize("script", COMMANDS_ALONE)
def test_commands_with_a_broker(script: str, alone: Barnabas, commands: Path, tmp_path: Path) -> None:
    need_java()
    assert "hello" in run_shell(script, alone.bootstrap_servers, tmp_path, commands)


@pytest.mark.parametrize("script", COMMAND_LINE)
def test_the_command_line(script: str, alone: Barnabas, commands: Path, tmp_path: Path) -> None:
    output = run_shell(script, alone.bootstrap_servers, tmp_path, commands)
    assert '{"amount": 7}' in output
    assert "healthy" in output


def test_the_cluster(together: Cluster, commands: Path, tmp_path: Path) -> None:
    """All of it in the order of the pages: later lines look at what earlier ones have made."""
    bootstrap = together.bootstrap_servers
    examples = [example for example in PYTHON if IN_A_CLUSTER in example]
    assert len(examples) >= 2
    for example in examples:
        run_python(example, bootstrap, tmp_path)
    for script in [*COMMANDS_IN_A_CLUSTER, *COMMANDS_ALONE]:
        run_shell(script, bootstrap, tmp_path, commands)
    (tmp_path / "offsets.json").write_text(OFFSETS, encoding="utf-8")
    for command in COMMANDS_OF_THE_TABLE:
        run_shell(command.replace("--group billing", "--group shipping"), bootstrap, tmp_path, commands)


def test_go(alone: Barnabas, tmp_path: Path) -> None:
    (program,) = (block.text for block in BLOCKS if block.language == "go")
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    for file in ("go.mod", "go.sum"):
        shutil.copy(CLIENTS / "go" / file, tmp_path)
    (tmp_path / "main.go").write_text(program.replace("localhost:9092", alone.bootstrap_servers), encoding="utf-8")
    download = ["go", "mod", "download"]
    if subprocess.run(download, cwd=tmp_path, capture_output=True, timeout=300, check=False).returncode:
        pytest.skip("the Go modules cannot be fetched, or this Go is too old for them")
    assert run(["go", "run", "."], tmp_path, dict(os.environ)).splitlines() == ["hello"]


def test_javascript(alone: Barnabas, tmp_path: Path) -> None:
    (program,) = (block.text for block in BLOCKS if block.language == "js")
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node or npm is not installed")
    for file in ("package.json", "package-lock.json"):
        shutil.copy(CLIENTS / "js" / file, tmp_path)
    (tmp_path / "hello.mjs").write_text(program.replace("localhost:9092", alone.bootstrap_servers), encoding="utf-8")
    install = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    if subprocess.run(install, cwd=tmp_path, capture_output=True, timeout=180, check=False).returncode:
        pytest.skip("npm cannot fetch the packages")
    run(["node", "hello.mjs"], tmp_path, {**os.environ, "KAFKAJS_NO_PARTITIONER_WARNING": "1"})


@contextmanager
def running(command: str, ports: range, folder: Path, variables: dict[str, str]) -> Iterator[None]:
    """A command that serves on all `ports` of this machine until it is interrupted, as by Ctrl-C."""
    log = folder / "output"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            ["bash", "-c", command],
            cwd=folder if command.startswith("barnabas") else REPOSITORY,
            env=variables,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=hear_interrupts,
        ) as process,
    ):
        try:
            assert wait_until(
                lambda: process.poll() is not None or all(listed_brokers("localhost", one) for one in ports), 300
            )
            assert process.poll() is None, f"{command} ended:\n{log.read_text(encoding='utf-8', errors='replace')}"
            yield
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
                process.wait(150)
    assert wait_until(lambda: not any(listed_brokers("localhost", one) for one in ports), 60)


@pytest.mark.parametrize("command", STARTS)
def test_barnabas_start(command: str, commands: Path, tmp_path: Path) -> None:
    count = 3 if "--brokers 3" in command else 1
    port = lasting_port(count=count)
    (tmp_path / "server.properties").write_text("log.dirs=from-the-file\n", encoding="utf-8")
    line = f"exec {command}"
    if "localhost:9092" in command:
        line = line.replace("localhost:9092", f"localhost:{port}")
    else:
        line += f" --override listeners=PLAINTEXT://localhost:{port}"
    if "localhost:2181" not in command:
        with running(line.removeprefix("exec "), range(port, port + count), tmp_path, environment(commands)):
            pass
        return
    need_java()
    with ZooKeeper() as zookeeper:
        line = line.replace("localhost:2181", zookeeper.connect)
        with running(line.removeprefix("exec "), range(port, port + count), tmp_path, environment(commands)):
            pass


@pytest.mark.parametrize("command", SHOWS)
def test_what_a_command_shows(command: str, commands: Path) -> None:
    assert len(run_shell(command, "", REPOSITORY, commands).splitlines()) > 5


def as_make(command: str, arguments: str) -> str:
    """The same target with further ARGS, and its page on a free port."""
    arguments += " --override barnabas.web.port=0"
    if 'ARGS="' in command:
        return command.replace('ARGS="', f'ARGS="{arguments} ')
    return f'{command} ARGS="{arguments}"'


@pytest.mark.parametrize("command", MAKE_RUN)
def test_make_run(command: str, tmp_path: Path) -> None:
    port = lasting_port()
    line = as_make(command.replace(":9092", f":{port}"), f"--override log.dirs={tmp_path / 'data'}")
    if str(port) not in line:
        line = as_make(line, f"--override listeners=PLAINTEXT://localhost:{port}")
    with running(line, range(port, port + 1), tmp_path, dict(os.environ)):
        assert (tmp_path / "data" / "orders-2").exists() == ("orders:3" in command)


def of_a_made_cluster(port: int, folder: Path) -> str:
    settings = {
        "listeners": f"PLAINTEXT://localhost:{port}", "barnabas.http.port": lasting_port(count=4), "log.dirs": folder / "data",
    }  # fmt: skip
    return " ".join(f"--override {name}={value}" for name, value in settings.items())


@pytest.mark.parametrize("command", MAKE_CLUSTER)
def test_make_cluster(command: str, tmp_path: Path) -> None:
    port = lasting_port(count=3)
    line = as_make(command, of_a_made_cluster(port, tmp_path))
    with running(line, range(port, port + 3), tmp_path, dict(os.environ)):
        pass


def test_make_cluster_with_a_running_zookeeper(tmp_path: Path) -> None:
    need_java()
    port = lasting_port(count=3)
    with ZooKeeper() as zookeeper:
        line = as_make(
            f"make cluster ZOOKEEPER={zookeeper.connect}/chroot",
            of_a_made_cluster(port, tmp_path),
        )
        with running(line, range(port, port + 3), tmp_path, dict(os.environ)):
            pass


def test_looking_into_the_files(alone: Barnabas, commands: Path, tmp_path: Path) -> None:
    feed = 'from confluent_kafka import Producer\nproducer = Producer({"bootstrap.servers": "localhost:9092"})\n'
    feed += 'producer.produce("orders", key="order-4711", value="seven pieces")\nassert producer.flush(60) == 0\n'
    run_python(feed, alone.bootstrap_servers, tmp_path)
    for command in FIND:
        assert "order-4711" in run_shell(command, "", alone.folder, commands)
    assert "baseOffset: 0" in run_shell("barnabas dump-log --files data/orders-0", "", alone.folder, commands)


def test_scraping_metrics(commands: Path, tmp_path: Path) -> None:
    port = lasting_port()
    with Barnabas({"barnabas.http.port": str(port)}):
        for command in SCRAPE:
            if shutil.which("curl") is None:
                pytest.skip("curl is not installed")
            assert "kafka_server_" in run_shell(command.replace("8080", str(port)), "", tmp_path, commands)


@pytest.mark.spark
def test_spark(alone: Barnabas, commands: Path, tmp_path: Path) -> None:
    """Both jobs, told to end when all that is there is done."""
    need_java()
    pytest.importorskip("pyspark")
    feed = 'from confluent_kafka import Producer\nproducer = Producer({"bootstrap.servers": "localhost:9092"})\n'
    feed += 'producer.produce("orders", key="Lyon", value="{}")\nassert producer.flush(60) == 0\n'
    run_python(feed, alone.bootstrap_servers, tmp_path)
    variables = {**environment(commands), **{k: v for k, v in java.spark_environment().items() if k not in os.environ}}
    for line in SPARK:
        command = f"{line} --trigger available-now --bootstrap-servers {alone.bootstrap_servers}"
        run(["bash", "-e", "-c", command], tmp_path, variables)
    assert list((tmp_path / "archive").glob("topic=orders/**/*.parquet"))


@pytest.mark.spark
@pytest.mark.long
def test_example_of_spark(tmp_path: Path) -> None:
    need_java()
    pytest.importorskip("pyspark")
    run(["make", "-C", str(REPOSITORY), "example-spark"], tmp_path, {**os.environ, **java.spark_environment()})
