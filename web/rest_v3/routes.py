"""Joins the endpoints of REST v3.

Rules: an address with "-" in the place of a name comes before those with a name.
"""

from __future__ import annotations

from fastapi import APIRouter

from web.rest_v3 import acls, clusters, configs, groups, partitions, topics
from web.rest_v3.records import routes as records

router = APIRouter()
for _room in (clusters, configs, partitions, topics, records, groups, acls):
    router.include_router(_room.router)
