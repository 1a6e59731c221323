"""Which record of a mirrored topic is the copy of a record, by the pairs of offsets that the job `mirror` keeps. Pure.

The pairs are in the target cluster, and have the names of the source's topics; a topic of the target has the same name, with a
prefix or without. Where a pair covers an offset, its copy is where the pair says, if the record there has the same content.

Rules: only the newest pair of an offset counts: a batch that was copied twice has two. What a pair does not cover, which is so
where offsets are absent in the source, has no place here.
Source: `barnabas.pipeline.offset_pairs`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas.pipeline.offset_pairs import TOPIC, parse_pair
from tools.trace.stored import Key, Place

PAIRS_TOPIC: Final = TOPIC


class MirrorPairs:
    """The pairs that cover given places: `sources` in the source cluster, `targets` in that of the pairs."""

    def __init__(self, sources: Iterable[Place] = (), targets: Iterable[Place] = ()) -> None:
        self.copies: dict[Place, int] = {}
        """The offset in the target of each of the sources that is known."""
        self.originals: dict[Place, Place] = {}
        """The place in the source of each of the targets that is known."""
        self.unreadable = 0
        self._sources: dict[Key, list[int]] = {}
        self._targets: dict[int, list[Place]] = {}
        for topic, partition, offset in sources:
            self._sources.setdefault((topic, partition), []).append(offset)
        for place in targets:
            self._targets.setdefault(place[1], []).append(place)

    def add(self, value: bytes | None) -> None:
        """Take the value of a record of the topic of pairs, in the order in which they are there."""
        try:
            (topic, partition), pair = parse_pair((value or b"").decode())
        except (ValueError, KeyError, TypeError):
            self.unreadable += 1
            return
        for offset in self._sources.get((topic, partition), ()):
            if 0 <= offset - pair.source < pair.records:
                self.copies[topic, partition, offset] = pair.target + offset - pair.source
        for target in self._targets.get(partition, ()):
            if target[0].endswith(topic) and 0 <= target[2] - pair.target < pair.records:
                known = self.originals.get(target)
                if known is None or len(known[0]) <= len(topic):  # the longer name leaves the shorter prefix
                    self.originals[target] = topic, partition, pair.source + target[2] - pair.target


def mirrored_names(topic: str, there: Iterable[str]) -> list[str]:
    """Return the topics of a target that may be the mirror of a topic, the most likely first."""
    return sorted((each for each in there if each.endswith(topic)), key=len)
