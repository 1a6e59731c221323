"""Addresses and names of resources. Pure.

    Links(base_uri, "c").self("topics", "t")    https://kafka.example.com/v3/clusters/c/topics/t
    Links(base_uri, "c").name("topic", "t")     crn:///kafka=c/topic=t

Rules: an address begins with `base_uri`, never with what a request says; each part of it is percent-encoded. Names have no
authority, as the REST Proxy's without `confluent.resource.name.authority`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from web.rest_v3.resources import Relationship, ResourceMetadata

Part = str | int


@dataclass(frozen=True, slots=True)
class Links:
    """The links of one cluster. `base_uri` has no slash at its end."""

    base_uri: str
    cluster_id: str

    def to(self, *parts: Part, query: Mapping[str, str] | None = None) -> str:
        """Return the address of a resource of this cluster."""
        path = "/".join(quote(str(part), safe="") for part in ("clusters", self.cluster_id, *parts))
        return f"{self.base_uri}/v3/{path}{'?' + urlencode(query) if query else ''}"

    def related(self, *parts: Part) -> Relationship:
        return {"related": self.to(*parts)}

    def name(self, *pairs: Part) -> str:
        """Return the name of a resource: kinds and names by turns."""
        words = ["kafka", self.cluster_id, *map(str, pairs)]
        return "crn:///" + "/".join(
            f"{kind}={quote(name, safe='')}" for kind, name in zip(words[::2], words[1::2], strict=True)
        )

    def metadata(self, *parts: Part, name: str) -> ResourceMetadata:
        return {"self": self.to(*parts), "resource_name": name}
