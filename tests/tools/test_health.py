"""What is wrong with a cluster."""

from tools.health import ClusterView, PartitionView, problems


def subjects(view: ClusterView) -> list[str]:
    return [problem.subject for problem in problems(view)]


def test_a_well_cluster_has_no_problem() -> None:
    partition = PartitionView("orders", 0, 1, (1, 2), (2, 1))
    assert problems(ClusterView((1, 2), 1, (partition,))) == []


def test_a_partition_without_leader_comes_before_the_broker_that_is_gone() -> None:
    lost = PartitionView("orders", 0, None, (3,), (3,))
    behind = PartitionView("orders", 1, 1, (1, 3), (1,))
    view = ClusterView((1, 2), 1, (behind, lost))
    assert subjects(view) == ["partition orders-0", "broker 3"]
    [leaderless, gone] = problems(view)
    assert "start the brokers in [3]" in leaderless.next_step
    assert "2 partitions have a replica on it (orders-1, orders-0)" in gone.cause


def test_replicas_that_are_behind_are_named() -> None:
    [problem] = problems(ClusterView((1, 2, 3), 1, (PartitionView("orders", 4, 1, (1, 2, 3), (1,)),)))
    assert (problem.subject, problem.cause) == ("partition orders-4", "replicas on brokers 2, 3 are behind")


def test_a_cluster_without_controller_says_so_first() -> None:
    assert subjects(ClusterView((1,), None, (PartitionView("t", 0, None, (1,), (1,)),)))[0] == "controller"
