"""AlterReplicaLogDirs, of a broker with one log directory: what it refuses, and what is where it should be already."""

from __future__ import annotations

from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tests.differential.cases.fetch import filled
from tests.differential.play import Run, case


def to(path: str, topic: str, *partitions: int) -> AlterReplicaLogDir:
    return AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=list(partitions))])


def own_path(run: Run) -> str:
    path: str = run.do(DescribeLogDirsRequest(topics=[]), 0).results[0].log_dir
    return path


@case(AlterReplicaLogDirsRequest, "normal")
def to_where_it_is(run: Run) -> None:
    topic, path = filled(run), own_path(run)
    run.ask(AlterReplicaLogDirsRequest(dirs=[to(path, topic, 0)]))
    wanted = [DescribableLogDirTopic(topic=topic, partitions=[0])]
    run.note([len(result.topics) for result in run.do(DescribeLogDirsRequest(topics=wanted), 0).results])


@case(AlterReplicaLogDirsRequest, "edge")
def nothing_at_all(run: Run) -> None:
    run.ask(AlterReplicaLogDirsRequest(dirs=[]))
    run.ask(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/nowhere", topics=[])]))
    run.ask(AlterReplicaLogDirsRequest(dirs=[to("/nowhere", run.topic())]))


@case(AlterReplicaLogDirsRequest, "edge")
def named_for_two_directories(run: Run) -> None:
    """The last one counts."""
    topic, path = run.topic(), own_path(run)
    run.ask(AlterReplicaLogDirsRequest(dirs=[to("/nowhere", topic, 0), to(path, topic, 0)]))
    run.ask(AlterReplicaLogDirsRequest(dirs=[to(path, topic, 0), to("/nowhere", topic, 0)]))
    run.ask(AlterReplicaLogDirsRequest(dirs=[to(path, topic, 0, 0)]))


@case(AlterReplicaLogDirsRequest, "wrong")
def unknown_directories(run: Run) -> None:
    topic, path = run.topic(), own_path(run)
    for wrong in ("/nowhere", "", "data", f"{path}/", f"{path}/.."):
        run.ask(AlterReplicaLogDirsRequest(dirs=[to(wrong, topic, 0)]))


@case(AlterReplicaLogDirsRequest, "wrong")
def replicas_that_are_not_here(run: Run) -> None:
    topic, path = run.topic(), own_path(run)
    run.ask(AlterReplicaLogDirsRequest(dirs=[to(path, topic, 7)]))
    run.ask(AlterReplicaLogDirsRequest(dirs=[to(path, run.name("missing"), 0)]))
    run.ask(AlterReplicaLogDirsRequest(dirs=[to(path, topic, -1)]))
    run.ask(AlterReplicaLogDirsRequest(dirs=[to("/nowhere", run.name("missing"), 0)]))
    run.ask(AlterReplicaLogDirsRequest(dirs=[to(path, "no good name", 0)]))
    run.ask(AlterReplicaLogDirsRequest(dirs=[to(path, "t" * 249, 0)]))
