"""Joins the endpoints of REST v3.

Rules: an address with "-" in the place of a name comes before those with a name.
"""

from __future__ import annotations

from fastapi import APIRouter

from web.rest_v3 import acls, clusters, configs, groups, partitions, topics

router = APIRouter()
for _each in (clusters.router, configs.router, partitions.router, topics.router, groups.router, acls.router):
    router.include_router(_each)
