"""Messages in the log are short and without secrets."""

from __future__ import annotations

import json

import pytest

from broker.observability.message_text import ELEMENTS_MAX, LIST_ELEMENTS_MAX, message_text
from protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.incremental_alter_configs import AlterableConfig as Change
from protocol.messages.incremental_alter_configs import AlterConfigsResource as ChangedResource
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.schema import Message

SECRET = "hunter2"


@pytest.mark.parametrize(
    "message",
    [
        AlterConfigsRequest(
            validate_only=False,
            resources=[
                AlterConfigsResource(
                    resource_type=4, resource_name="0", configs=[AlterableConfig(name="ssl.key.password", value=SECRET)]
                )
            ],
        ),
        IncrementalAlterConfigsRequest(
            validate_only=False,
            resources=[
                ChangedResource(
                    resource_type=4,
                    resource_name="0",
                    configs=[Change(name="ssl.key.password", config_operation=0, value=SECRET)],
                )
            ],
        ),
        AlterUserScramCredentialsRequest(
            deletions=[],
            upsertions=[
                ScramCredentialUpsertion(
                    name="u", mechanism=1, iterations=4096, salt=SECRET.encode(), salted_password=SECRET.encode()
                )
            ],
        ),
        SaslAuthenticateRequest(auth_bytes=b"\0u\0" + SECRET.encode()),
    ],
)
def test_secrets_are_not_shown(message: Message) -> None:
    text = message_text(message)
    assert SECRET not in text and ("[hidden]" in text or "bytes>" in text)


def test_ids_of_topics_are_in_kafkas_form() -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=bytes(range(16)))], timeout_ms=1)
    assert json.loads(message_text(request))["topics"] == [{"name": None, "topic_id": "AAECAwQFBgcICQoLDA0ODw"}]


def test_a_long_list_and_a_long_text_are_cut() -> None:
    topics = [MetadataRequestTopic(name="t" * 300) for _ in range(LIST_ELEMENTS_MAX + 7)]
    shown = json.loads(message_text(MetadataRequest(topics=topics)))["topics"]
    assert shown[-1] == "<7 more>" and len(shown) == LIST_ELEMENTS_MAX + 1
    assert shown[0]["name"] == "t" * 200 + "..."


def test_lists_of_lists_are_bounded_as_a_whole() -> None:
    topics = [
        CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for _ in range(10**6)
    ]
    text = message_text(CreateTopicsRequest(topics=topics, timeout_ms=1, validate_only=False))
    assert len(text) < 200 * ELEMENTS_MAX
