"""What every operation does to the Stat of a node and of its parent: the answers of the ZooKeeper 3.8 that Apache Kafka
3.9.1 was built with.

Every step is one transaction, and none fails, so the zxids of a new tree are 1, 2, 3 and so on. `CHANGES` has each step with
the Stat of /p and of /p/a after it, None for a node that is not there. Times and owners are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from metadata.store.port import OPEN_ACL, Check, Create, Delete, SetAcl, SetData, Stat, Transaction


class Counts(NamedTuple):
    """The numbers of a Stat. The zxids count from the step that made /p, which is 0."""

    czxid: int
    mzxid: int
    version: int
    cversion: int
    aversion: int
    data_length: int
    num_children: int
    pzxid: int


@dataclass(frozen=True, slots=True)
class End:
    """Of the session `owner`."""

    owner: int


ENDING = 2
"""The session that ends. All other steps are of session 1."""


class Change(NamedTuple):
    step: Transaction | End
    parent: Counts
    child: Counts | None
    owner: int = 1


CHANGES = (
    Change([Create("/p", b"xyz")], Counts(0, 0, 0, 0, 0, 3, 0, 0), None),
    Change([Create("/p/a", b"xx")], Counts(0, 0, 0, 1, 0, 3, 1, 1), Counts(1, 1, 0, 0, 0, 2, 0, 1)),
    Change([SetData("/p/a", b"y")], Counts(0, 0, 0, 1, 0, 3, 1, 1), Counts(1, 2, 1, 0, 0, 1, 0, 1)),
    Change([SetData("/p", b"")], Counts(0, 3, 1, 1, 0, 0, 1, 1), Counts(1, 2, 1, 0, 0, 1, 0, 1)),
    Change([SetAcl("/p", OPEN_ACL)], Counts(0, 3, 1, 1, 1, 0, 1, 1), Counts(1, 2, 1, 0, 0, 1, 0, 1)),
    Change([SetAcl("/p/a", OPEN_ACL, 0)], Counts(0, 3, 1, 1, 1, 0, 1, 1), Counts(1, 2, 1, 0, 1, 1, 0, 1)),
    Change([Create("/p/a/b")], Counts(0, 3, 1, 1, 1, 0, 1, 1), Counts(1, 2, 1, 1, 1, 1, 1, 6)),
    Change([Delete("/p/a/b")], Counts(0, 3, 1, 1, 1, 0, 1, 1), Counts(1, 2, 1, 2, 1, 1, 0, 7)),
    Change([Delete("/p/a", 1)], Counts(0, 3, 1, 2, 1, 0, 0, 8), None),
    Change([Create("/p/a", ephemeral=True)], Counts(0, 3, 1, 3, 1, 0, 1, 9), Counts(9, 9, 0, 0, 0, 0, 0, 9)),
    Change([Delete("/p/a")], Counts(0, 3, 1, 4, 1, 0, 0, 10), None),
    Change([Create("/p/a", ephemeral=True)], Counts(0, 3, 1, 5, 1, 0, 1, 11), Counts(11, 11, 0, 0, 0, 0, 0, 11), ENDING),
    Change([Create("/p/e", ephemeral=True)], Counts(0, 3, 1, 6, 1, 0, 2, 12), Counts(11, 11, 0, 0, 0, 0, 0, 11), ENDING),
    Change(End(ENDING), Counts(0, 3, 1, 8, 1, 0, 0, 13), None),
    Change(
        [Create("/p/a"), Create("/p/b"), Delete("/p/b"), SetData("/p", b"12"), Check("/p", 2), SetData("/p", b"1")],
        Counts(0, 14, 3, 11, 1, 1, 1, 14),
        Counts(14, 14, 0, 0, 0, 0, 0, 14),
    ),
    Change(
        [Delete("/p/a"), Create("/p/a", b"1"), SetData("/p/a", b"12"), Create("/p/a/b"), Delete("/p/a/b")],
        Counts(0, 14, 3, 13, 1, 1, 1, 15),
        Counts(15, 15, 1, 2, 0, 2, 0, 15),
    ),
)  # fmt: skip
NEXT_SEQUENTIAL = "/p/n_0000000007"
"""The name that a sequential node gets after all of them: its number counts the children that /p has ever had."""


def counts(stat: Stat | None, first_zxid: int) -> Counts | None:
    if stat is None:
        return None
    return Counts(
        stat.czxid - first_zxid,
        stat.mzxid - first_zxid,
        stat.version,
        stat.cversion,
        stat.aversion,
        stat.data_length,
        stat.num_children,
        stat.pzxid - first_zxid,
    )
