"""Three brokers and a ZooKeeper on this machine, without Docker: `python -m barnabas.cluster`, or `make cluster`.

Rules: standard library only; nothing of the server is imported: brokers are started as their own processes. The ZooKeeper
comes from the jars in the pyspark package, or is one that `--zookeeper` names. Data and logs stay in the folder, so that the
next start finds them. Ctrl-C ends the brokers in order, then the ZooKeeper; a process that ends by itself ends the cluster,
and brokers end with this process, however it ends.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from barnabas.launch import command

BROKERS = 3
FIRST_PORT = 9092
ZOOKEEPER_PORT = 2181
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0

SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "zookeeper.session.timeout.ms": "6000",
}
"""Those of every broker; `--override` comes behind them."""


class ClusterStartError(RuntimeError):
    """Something did not start; the text says what, and where its log is."""


@dataclass
class Child:
    """A process with its log. `ready` is a descriptor that tells a line when the process serves, -1 where nobody tells."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    ready: int = -1


@dataclass
class Cluster:
    """`zookeeper` names one that is there; without it one is started on `zookeeper_port`."""

    folder: Path
    zookeeper: str | None = None
    overrides: Sequence[str] = ()
    first_port: int = FIRST_PORT
    zookeeper_port: int = ZOOKEEPER_PORT
    children: list[Child] = field(default_factory=list)
    _lifeline: tuple[int, int] | None = None

    @property
    def ports(self) -> range:
        return range(self.first_port, self.first_port + BROKERS)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"localhost:{port}" for port in self.ports)

    def start(self) -> None:
        """Returns when every broker serves. Raises ClusterStartError."""
        self._lifeline = os.pipe()
        self.folder.mkdir(parents=True, exist_ok=True)
        connect = self.zookeeper or self._start_zookeeper()
        brokers = [self._start_broker(number, port, connect) for number, port in enumerate(self.ports, 1)]
        for child in brokers:
            self._wait_until_ready(child)

    def stop(self) -> None:
        """In the reverse order of the start, so that brokers still find their ZooKeeper."""
        brokers = [child for child in self.children if child.ready >= 0]
        for group in (brokers, [child for child in self.children if child.ready < 0]):
            for child in group:
                child.process.terminate()
            for child in group:
                try:
                    child.process.wait(STOP_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    child.process.kill()
                    child.process.wait()
        self.children.clear()
        for descriptor in self._lifeline or ():
            os.close(descriptor)
        self._lifeline = None

    def wait_until_one_ends(self) -> Child:
        ended = threading.Event()

        def wait(child: Child) -> None:
            child.process.wait()
            ended.set()

        for child in self.children:
            threading.Thread(target=wait, args=(child,), daemon=True).start()
        ended.wait()
        return next(child for child in self.children if child.process.poll() is not None)

    def _start_zookeeper(self) -> str:
        data = self.folder / "zookeeper"
        data.mkdir(exist_ok=True)
        properties = {
            "dataDir": data,
            "clientPort": self.zookeeper_port,
            "clientPortAddress": "127.0.0.1",
            "tickTime": 500,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
        }
        settings = self.folder / "zookeeper.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")
        line = ["java", "-XX:+UseSerialGC", "-Xms32m", "-Xmx256m", "-cp", f"{jars()}/*"]
        line += ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(settings)]
        self._run("zookeeper", line)
        return f"127.0.0.1:{self.zookeeper_port}"

    def _start_broker(self, number: int, port: int, zookeeper: str) -> Child:
        name = f"broker{number}"
        settings = {
            **SETTINGS,
            "broker.id": str(number),
            "broker.rack": f"rack{number}",
            "listeners": f"PLAINTEXT://localhost:{port}",
            "log.dirs": str(self.folder / name),
            "zookeeper.connect": zookeeper,
        }
        given = [f"{setting}={value}" for setting, value in settings.items()] + list(self.overrides)
        arguments = [part for override in given for part in ("--override", override)]
        assert self._lifeline is not None
        ready, ready_end = os.pipe()
        try:
            descriptors = (ready_end, self._lifeline[0])
            line = command("start", *arguments, "--no-banner", "--ready-fd", str(ready_end))
            return self._run(name, [*line, "--lifeline-fd", str(self._lifeline[0])], ready, descriptors)
        finally:
            os.close(ready_end)

    def _run(self, name: str, line: list[str], ready: int = -1, descriptors: tuple[int, ...] = ()) -> Child:
        log = self.folder / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603  programs of ours, no shell
                line,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=descriptors,
                start_new_session=True,  # a Ctrl-C is this process's business: it ends them in order
            )
        child = Child(name, process, log, ready)
        self.children.append(child)
        return child

    def _wait_until_ready(self, child: Child) -> None:
        """The pipe is at its end when the broker has told that it serves, or when it has ended."""
        told: list[bytes] = []
        reader = threading.Thread(target=lambda: told.append(os.read(child.ready, 4096)), daemon=True)
        reader.start()
        reader.join(START_TIMEOUT_S)
        if not told or not told[0]:
            lines = child.log.read_text(encoding="utf-8", errors="replace").splitlines()
            raise ClusterStartError("\n".join([f"{child.name} did not start; {child.log} ends with:", *lines[-10:]]))


def jars() -> Path:
    """The folder of pyspark's jars, ZooKeeper among them. Raises ClusterStartError."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ClusterStartError("pyspark is not installed; --zookeeper host:port names a ZooKeeper that is there")
    if shutil.which("java") is None:
        raise ClusterStartError("java is not installed; --zookeeper host:port names a ZooKeeper that is there")
    return Path(found.origin).parent / "jars"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m barnabas.cluster", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("data/cluster"), help="where data and logs are kept")
    parser.add_argument("--zookeeper", metavar="HOST:PORT", help="a ZooKeeper that is there; may end with a chroot")
    parser.add_argument(
        "--override", action="append", default=[], metavar="NAME=VALUE", help="a setting of every broker"
    )
    parser.add_argument("--port", type=int, default=FIRST_PORT, help="the first broker's port; the others follow it")
    parser.add_argument("--zookeeper-port", type=int, default=ZOOKEEPER_PORT, metavar="PORT", help="of the one started")
    options = parser.parse_args(arguments)
    cluster = Cluster(
        options.folder.absolute(), options.zookeeper, options.override, options.port, options.zookeeper_port
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        cluster.start()
        told = f"{BROKERS} brokers serve on {cluster.bootstrap_servers}; logs are in {cluster.folder}; Ctrl-C ends them"
        print(told, flush=True)  # noqa: T201  a command's answer
        ended = cluster.wait_until_one_ends()
        print(f"{ended.name} ended with {ended.process.returncode}; its log is {ended.log}", file=sys.stderr)  # noqa: T201  a command's answer
    except ClusterStartError as error:
        print(f"barnabas: {error}", file=sys.stderr)  # noqa: T201  a command's answer
    except KeyboardInterrupt:
        return 0
    finally:
        cluster.stop()
    return 1


if __name__ == "__main__":
    sys.exit(main())
