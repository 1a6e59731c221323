"""All paths of REST v2."""

from __future__ import annotations

from fastapi import APIRouter

from web.rest_v2 import consumers, metadata, produce

router = APIRouter()
for each in (metadata, produce, consumers):
    router.include_router(each.router)
