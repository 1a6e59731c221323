"""Feature levels of the cluster, as the page shows and changes them."""

from __future__ import annotations

from pydantic import BaseModel, Field

from client.admin import features as feature_steps
from client.admin import groups as group_steps
from client.admin.features import LevelChange
from client.admin.groups import CONSUMER
from web.page.routing import RequestBody, page_router
from web.requests import WRITING, Cluster

router = page_router("Features")


class Feature(BaseModel):
    """`level` is 0 where none is set; `last_supported` is null while a broker does not tell it."""

    name: str
    level: int
    last_supported: int | None


class FeatureList(BaseModel):
    """`stopping` are the groups with members that a group.version of 0 would stop."""

    features: list[Feature]
    stopping: list[str]


class NewLevel(RequestBody):
    name: str
    level: int = Field(ge=0, le=32_767)


@router.get("/features")
async def list_features(cluster: Cluster) -> FeatureList:
    """List the levels of all features that any broker knows."""
    found = await cluster.run(feature_steps.describe())
    rows = [Feature(name=each.name, level=each.level, last_supported=each.last_supported) for each in found.features]
    listed = await cluster.run(group_steps.list_all()) if found.any_above_zero else group_steps.ListedGroups({}, {})
    stopping = [
        row.group_id
        for groups in listed.groups.values()
        for row in groups
        if row.group_type.lower() == CONSUMER and row.group_state.lower() != "empty"
    ]
    return FeatureList(features=rows, stopping=sorted(stopping))


@router.post("/features", dependencies=[WRITING])
async def set_level(cluster: Cluster, body: NewLevel) -> FeatureList:
    """Raise or lower the level of a feature; the cluster itself checks it."""
    before = {each.name: each.level for each in (await cluster.run(feature_steps.describe())).features}
    change = LevelChange.UPGRADE if body.level > before.get(body.name, 0) else LevelChange.DOWNGRADE
    error = (await cluster.run(feature_steps.update({body.name: body.level}, change, validate_only=False)))[body.name]
    if error is not None:
        raise error
    return await list_features(cluster)
