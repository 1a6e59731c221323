"""Three brokers and a ZooKeeper on this machine, without Docker: `python -m barnabas.cluster`, or `make cluster`.

With `--secure` (`make cluster-secure`) brokers and clients use SASL over TLS, with generated certificates and users, and ACLs
are in force (`barnabas.security`).

Rules: standard library only; nothing of the server is imported: brokers are started as their own processes. The ZooKeeper
comes from the jars in the pyspark package, unless `--zookeeper` names a running one. Data and logs stay in the folder, so that
the next start finds them; a lock keeps a second cluster out of it. Brokers start when the ZooKeeper that was started here has
its port: another one that answers there is not joined. Ctrl-C, or the end of the terminal, ends the brokers in order, then the
ZooKeeper; a second Ctrl-C ends them immediately. A broker that ends by itself, or is killed, is started again; the cluster ends
with its ZooKeeper, and with a broker that cannot start. Brokers end with this process, however it ends.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib.util
import json
import os
import queue
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import NoReturn

from barnabas.launch import command
from barnabas.listening import PortTakenError, is_free, names_of, processes_with, require_free, wait_until_listening
from barnabas.security import SASL_SSL, GeneratedSecurity

BROKERS = 3
FIRST_PORT = 9092
FIRST_HTTP_PORT = 8092
ZOOKEEPER_PORT = 2181
EXAMPLE_USERS = ("alice", "bob")
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0

SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "barnabas.internal.topics.create.enable": "true",
    "zookeeper.session.timeout.ms": "6000",
    "zookeeper.connection.timeout.ms": "45000",  # the ZooKeeper starts beside its brokers, on a busy machine for long
}
"""Return the settings of every broker; `--override` is applied after them."""

SECURE_SETTINGS = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
"""Return the settings of every secured broker, beside the generated ones."""


class ClusterStartError(RuntimeError):
    """Something did not start; the text says what, and where its log is."""


@dataclass
class Child:
    """A process with its log. `ready` is a descriptor with a line when the process serves, -1 if it reports nothing.
    `number` is a broker's, 0 is the ZooKeeper. `address` is where clients find it, `http` where its HTTP port is."""

    name: str
    number: int
    address: str
    process: subprocess.Popen[bytes]
    log: Path
    ready: int = -1
    has_served: bool = False
    http: str = ""


@dataclass
class Cluster:
    """The processes. `zookeeper` is a running one; without it one is started on `zookeeper_port`. `users` are those of a
    secured cluster beside admin; None: it is not secured. `http_port` is the HTTP port of the first broker, the others follow;
    None: free ones."""

    folder: Path
    zookeeper: str | None = None
    overrides: Sequence[str] = ()
    first_port: int = FIRST_PORT
    zookeeper_port: int = ZOOKEEPER_PORT
    users: Sequence[str] | None = None
    security: GeneratedSecurity | None = None
    http_port: int | None = None
    children: list[Child] = field(default_factory=list)
    _connect: str = ""
    _http_ports: list[int] = field(default_factory=list)
    _lifeline: tuple[int, int] | None = None
    _lock: int = -1
    _ended: queue.SimpleQueue[Child] = field(default_factory=queue.SimpleQueue)

    @property
    def ports(self) -> range:
        return range(self.first_port, self.first_port + BROKERS)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"localhost:{port}" for port in self.ports)

    def start(self) -> None:
        """Start the processes; return when every broker serves. Raises ClusterStartError."""
        self._lifeline = os.pipe()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._take_folder()
        self._take_ports()
        if self.users is not None:
            folder = self.folder / "security"
            folder.mkdir(exist_ok=True)
            self.security = GeneratedSecurity(SASL_SSL, folder, self.users)
            self.security.write_properties()
        self._connect = self.zookeeper or self._start_zookeeper()
        brokers = [self._start_broker(number) for number in range(1, BROKERS + 1)]
        for child in brokers:
            self._wait_until_ready(child)

    def stop(self) -> None:
        """Stop the processes in the reverse order of the start, so that brokers can use their ZooKeeper."""
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
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def kill(self) -> None:
        """Kill the processes."""
        for child in self.children:
            child.process.kill()

    def keep_running(self) -> Child:
        """Restart ended brokers that had served. Returns the process whose end ends the cluster: the ZooKeeper, or a broker
        that had not served."""
        while True:
            child = self._ended.get()
            if not child.number or not (child.has_served or _is_told(child.ready)):
                return child
            self.children.remove(child)
            os.close(child.ready)
            again = self._start_broker(child.number)
            again.http = child.http
            tell(
                f"{child.name} (process {child.process.pid}) ended with {child.process.returncode} and is started again "
                f"as process {again.process.pid}; its log is {child.log}"
            )

    def table(self) -> str:
        """Return the processes, a line each, brokers first: broker id, address, HTTP port, process id, log file."""
        rows = [("", "broker.id", "address", "http", "process id", "log")]
        for child in sorted(self.children, key=lambda child: child.number or BROKERS + 1):
            broker_id = str(child.number) if child.number else "-"
            rows.append(
                (child.name, broker_id, child.address, child.http or "-", str(child.process.pid), str(child.log))
            )
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        return "\n".join("  ".join([*map(str.ljust, row, widths), row[5]]).rstrip() for row in rows)

    def _take_folder(self) -> None:
        """Lock the folder. The ZooKeeper holds the lock, too: it may outlive this process. Raises ClusterStartError."""
        path = self.folder / "lock"
        self._lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            others = [one for one in processes_with(path) if one != os.getpid()]
            raise ClusterStartError(
                f"a cluster runs, or is stopping, in {self.folder}: {names_of(others)}; --folder takes another folder"
            ) from None

    def _take_ports(self) -> None:
        """Raises ClusterStartError when another process has a port that is needed."""
        needed = [*self.ports, *(() if self.zookeeper else (self.zookeeper_port,))]
        if self.http_port is not None:
            self._http_ports = list(range(self.http_port, self.http_port + BROKERS))
            needed += self._http_ports
        try:
            require_free(needed)
        except PortTakenError as error:
            raise ClusterStartError(
                f"{error}; --port, --zookeeper-port and --http-port take others, --zookeeper joins a running ZooKeeper"
            ) from None
        if self.http_port is None:
            free = (port for port in range(FIRST_HTTP_PORT, 1 << 16) if port not in needed and is_free(port))
            self._http_ports = list(islice(free, BROKERS))

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
        address = f"127.0.0.1:{self.zookeeper_port}"
        child = self._run("zookeeper", 0, address, line, descriptors=(self._lock,))
        if not wait_until_listening(child.process, self.zookeeper_port, START_TIMEOUT_S):
            raise self._failed(child)
        return address

    def _start_broker(self, number: int) -> Child:
        name = f"broker{number}"
        address = f"localhost:{self.ports[number - 1]}"
        settings = {
            **SETTINGS,
            "broker.id": str(number),
            "broker.rack": f"rack{number}",
            "listeners": f"{'PLAINTEXT' if self.security is None else 'SASL_SSL'}://{address}",
            "log.dirs": str(self.folder / name),
            "zookeeper.connect": self._connect,
            "barnabas.http.port": str(self._http_ports[number - 1]),
            **({} if self.security is None else SECURE_SETTINGS),
        }
        files = [] if self.security is None else [self.security.path("broker.properties")]
        given = [f"{setting}={value}" for setting, value in settings.items()] + list(self.overrides)
        arguments = [part for override in given for part in ("--override", override)]
        assert self._lifeline is not None
        ready, ready_end = os.pipe()
        try:
            descriptors = (ready_end, self._lifeline[0])
            line = command("start", *files, *arguments, "--no-banner", "--ready-fd", str(ready_end))
            line += ["--lifeline-fd", str(self._lifeline[0])]
            return self._run(name, number, address, line, ready, descriptors)
        finally:
            os.close(ready_end)

    def _run(
        self,
        name: str,
        number: int,
        address: str,
        line: list[str],
        ready: int = -1,
        descriptors: tuple[int, ...] = (),
    ) -> Child:
        log = self.folder / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603  programs of ours, no shell
                line,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=descriptors,
                start_new_session=True,  # Ctrl-C is handled by this process, which stops them in order
            )
        child = Child(name, number, address, process, log, ready)
        self.children.append(child)

        def wait() -> None:
            process.wait()
            self._ended.put(child)

        threading.Thread(target=wait, daemon=True).start()
        return child

    def _wait_until_ready(self, child: Child) -> None:
        """Wait until the broker has written that it serves, or has ended: then the pipe is at its end."""
        told: list[bytes] = []
        reader = threading.Thread(target=lambda: told.append(os.read(child.ready, 4096)), daemon=True)
        reader.start()
        reader.join(START_TIMEOUT_S)
        if not told or not told[0]:
            raise self._failed(child)
        child.has_served, child.http = True, json.loads(told[0])["http"] or ""

    @staticmethod
    def _failed(child: Child) -> ClusterStartError:
        lines = child.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return ClusterStartError("\n".join([f"{child.name} did not start; {child.log} ends with:", *lines[-10:]]))


def _is_told(ready: int) -> bool:
    """Whether a broker that has ended had written that it serves."""
    return bool(select.select([ready], [], [], 0)[0] and os.read(ready, 4096))


def jars() -> Path:
    """The folder of pyspark's jars, ZooKeeper among them. Raises ClusterStartError."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ClusterStartError("pyspark is not installed; --zookeeper host:port uses a running ZooKeeper")
    if shutil.which("java") is None:
        raise ClusterStartError("java is not installed; --zookeeper host:port uses a running ZooKeeper")
    return Path(found.origin).parent / "jars"


def asking_for_health(cluster: Cluster) -> str:
    """Return the command that tells what is wrong with the cluster, and since when: it finds the HTTP ports by itself."""
    line = f"barnabas cluster health --bootstrap-server localhost:{cluster.ports[0]}"
    if cluster.security is not None:
        line += f" --command-config {cluster.security.path('admin.properties')}"
    return line


def signing_in(security: GeneratedSecurity, port: int) -> str:
    """Return how clients sign in; passwords stay in their files."""
    lines = [f"{user:<12} {security.path(f'{user}.properties')}" for user in security.users]
    example = (
        f"barnabas topics list --bootstrap-server localhost:{port} --command-config {security.path('admin.properties')}"
    )
    return "\n".join(["user         client properties, also for the kafka-*.sh tools", *lines, "", example])


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201  a command's answer


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m barnabas.cluster", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("cluster-data"), help="where data and logs are kept")
    parser.add_argument("--zookeeper", metavar="HOST:PORT", help="use a running ZooKeeper; may end with a chroot")
    parser.add_argument(
        "--override", action="append", default=[], metavar="NAME=VALUE", help="a setting of every broker"
    )
    parser.add_argument("--port", type=int, default=FIRST_PORT, help="the first broker's port; the others follow it")
    parser.add_argument(
        "--http-port",
        type=int,
        metavar="PORT",
        help=f"the first broker's HTTP port (default: free ones from {FIRST_HTTP_PORT})",
    )
    parser.add_argument("--secure", action="store_true", help="SASL over TLS, generated certificates and users, ACLs")
    parser.add_argument("--user", action="append", default=[], help="a user of a secured cluster; may be repeated")
    parser.add_argument(
        "--zookeeper-port",
        type=int,
        default=ZOOKEEPER_PORT,
        metavar="PORT",
        help="the port of the ZooKeeper that is started",
    )
    options = parser.parse_args(arguments)
    cluster = Cluster(
        options.folder.absolute(), options.zookeeper, options.override, options.port, options.zookeeper_port,
        (options.user or EXAMPLE_USERS) if options.secure or options.user else None, http_port=options.http_port,
    )  # fmt: skip
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
        signal.signal(signal.SIGHUP, _hang_up)
    try:
        tell(f"starting {BROKERS} brokers{'' if options.zookeeper else ' and a ZooKeeper'}, data in {cluster.folder}")
        cluster.start()
        told = f"{BROKERS} brokers serve on {cluster.bootstrap_servers}; Ctrl-C stops them"
        print(f"{told}\n\n{cluster.table()}\n", flush=True)  # noqa: T201  a command's answer
        if cluster.security is not None:
            print(f"{signing_in(cluster.security, cluster.ports[0])}\n", flush=True)  # noqa: T201  the same
        print(f"{asking_for_health(cluster)}\n", flush=True)  # noqa: T201  the same
        ended = cluster.keep_running()
        tell(f"{ended.name} ended with {ended.process.returncode}; its log is {ended.log}")
    except ClusterStartError as error:
        tell(f"barnabas: {error}")
    except KeyboardInterrupt:
        return 0
    finally:
        try:
            cluster.stop()
        except KeyboardInterrupt:
            cluster.kill()
    return 1


def _hang_up(number: int, frame: FrameType | None) -> NoReturn:
    """Handle the end of the terminal; shell and kernel may both send the signal, which counts as one."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.default_int_handler(number, frame)


if __name__ == "__main__":
    sys.exit(main())
