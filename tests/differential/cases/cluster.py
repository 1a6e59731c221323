"""DescribeCluster and DescribeLogDirs."""

from __future__ import annotations

from collections.abc import Callable

from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsResponse
from tests.differential.cases.fetch import filled
from tests.differential.play import Run, case


@case(DescribeClusterRequest, "normal")
def brokers(run: Run) -> None:
    run.ask(DescribeClusterRequest(include_cluster_authorized_operations=False))


@case(DescribeClusterRequest, "edge")
def authorized_operations(run: Run) -> None:
    run.ask(DescribeClusterRequest(include_cluster_authorized_operations=True))


@case(DescribeClusterRequest, "wrong", "1+")
def endpoints_of_another_type(run: Run) -> None:
    for kind in (0, 2, 3, -1):
        run.ask(DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=kind))


@case(DescribeClusterRequest, "wrong", "0")
def a_body_that_is_cut(run: Run) -> None:
    import struct

    run.ask_raw(struct.pack(">ihhihb", 11, 60, 0, 7, -1, 0))


def own_topics(run: Run) -> Callable[[DescribeLogDirsResponse], None]:
    def pick(answer: DescribeLogDirsResponse) -> None:
        for result in answer.results:
            result.topics = [topic for topic in result.topics if topic.name.startswith(run.prefix)]

    return pick


@case(DescribeLogDirsRequest, "normal")
def two_topics(run: Run) -> None:
    names = filled(run, short="a"), run.topic("b", 2)
    topics = [DescribableLogDirTopic(topic=name, partitions=[0, 1]) for name in names]
    run.ask(DescribeLogDirsRequest(topics=topics))


@case(DescribeLogDirsRequest, "edge")
def everything(run: Run) -> None:
    filled(run)
    run.ask(DescribeLogDirsRequest(topics=None), pick=own_topics(run))


@case(DescribeLogDirsRequest, "edge")
def nothing(run: Run) -> None:
    run.ask(DescribeLogDirsRequest(topics=[]), pick=own_topics(run))
    run.ask(DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=run.topic(), partitions=[])]))


@case(DescribeLogDirsRequest, "wrong")
def missing_topic_and_partition(run: Run) -> None:
    topics = [
        DescribableLogDirTopic(topic=run.name("missing"), partitions=[0]),
        DescribableLogDirTopic(topic=run.topic(), partitions=[7, -1]),
    ]
    run.ask(DescribeLogDirsRequest(topics=topics))
