"""Elects leaders of some partitions. Source: kafka-leader-election.sh; KIP-460."""

from __future__ import annotations

from collections.abc import Iterable

from client.admin.replicas import ElectionType
from client.admin.replicas import elect as election
from client.admin.steps import Steps
from protocol.errors import ErrorCode
from runtime.command_line.failure import Failure
from tools.balance.layout import Key
from tools.failures import told


def elect_preferred(keys: Iterable[Key]) -> Steps[list[Key]]:
    """Elect the preferred leaders, and return the partitions that have got another leader. Raises Failure."""
    return (yield from elect(ElectionType.PREFERRED, keys))


def elect(kind: ElectionType, keys: Iterable[Key]) -> Steps[list[Key]]:
    """Return the partitions that have got another leader. Raises Failure when one has got none that it should have."""
    elected, failures = [], []
    for (topic, partition), error in sorted((yield from election(kind, keys)).items()):
        if error is None:
            elected.append((topic, partition))
        elif error.code is not ErrorCode.ELECTION_NOT_NEEDED:
            failures.append(f"{topic}-{partition}: {told(error)}")
    if failures:
        raise Failure("; ".join(failures))
    return elected
