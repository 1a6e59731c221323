"""The JSON of messages, as the OpenAPI description has it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Shown(BaseModel):
    """How a key, a value or the value of a header is shown."""

    format: str = Field(description="text, json, hex, avro, jsonschema, protobuf or internal")
    text: str
    size_bytes: int = Field(description="of what is stored")
    is_cut: bool = Field(description="whether the text is only the beginning")
    schema_id: int | None
    note: str = Field(description="why it is not shown in the format that was asked for")


class Header(BaseModel):
    name: str
    value: Shown | None


class Record(BaseModel):
    """A record of a list. Without a key or value, that is null."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int | None
    timestamp_ms: int | None
    timestamp_type: Literal["create", "append"]
    key: Shown | None
    value: Shown | None
    headers: list[Header]
    headers_left: int = Field(description="how many headers there are beside those that are listed")
    size_bytes: int = Field(description="of key, value and headers")


class PartitionBounds(BaseModel):
    partition: int
    first: int
    end: int
    note: str


class Page(BaseModel):
    """Records next to each other in time. `older` and `newer` are cursors, null where there is nothing now."""

    records: list[Record]
    partitions: list[PartitionBounds]
    older: str | None
    newer: str | None
    is_whole: bool
    reason: str = Field(description="why the page ended early")


class Forms(BaseModel):
    """The same bytes in each form that they have."""

    text: Shown | None
    json_: Shown | None = Field(alias="json")
    hex: Shown
    schema_: Shown | None = Field(alias="schema")
    internal: Shown | None


class Details(Record):
    """A record with all that is known of it."""

    key_forms: Forms | None
    value_forms: Forms | None


class Data(BaseModel):
    """Bytes, in one of these forms."""

    model_config = ConfigDict(extra="forbid")

    text: str | None = None
    json_: Any = Field(default=None, alias="json")
    hex: str | None = None
    base64: str | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Data:
        if len(self.model_fields_set) != 1:
            raise ValueError("data has exactly one of text, json, hex, base64")
        return self


class NewHeader(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=32_767)
    value: Data | None = None


class NewRecord(BaseModel):
    """Without a partition the key chooses one as Kafka's clients do."""

    model_config = ConfigDict(extra="forbid")

    partition: int | None = Field(default=None, ge=0)
    key: Data | None = None
    value: Data | None = None
    headers: list[NewHeader] = Field(default=[], max_length=1_000)
    timestamp_ms: int | None = Field(default=None, ge=0)


class Place(BaseModel):
    model_config = ConfigDict(extra="forbid")

    topic: str
    partition: int = Field(ge=0)
    offset: int = Field(ge=0)


class Copy(BaseModel):
    """The record at `from` is written again, with the same key, value and headers."""

    model_config = ConfigDict(extra="forbid")

    from_: Place = Field(alias="from")
    partition: int | None = Field(default=None, ge=0)
    keep_timestamp: bool = False


class Written(BaseModel):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
