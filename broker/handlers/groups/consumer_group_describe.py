"""ConsumerGroupDescribe (key 69): state and members of groups with broker-side assignment (KIP-848).

Behaviour: advertised and refused, as by Apache Kafka in ZooKeeper mode: UNSUPPORTED_VERSION for each group, to everybody.
Administrative clients then use DescribeGroups, so the log has no warning.
Source: Kafka KafkaApis.handleConsumerGroupDescribe, ConsumerGroupDescribeRequest.getErrorDescribedGroupList.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.responses.error_responses import ErrorForm
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from security.access import NOTHING


@handles(
    ConsumerGroupDescribeRequest,
    NOTHING,
    errors=ErrorForm({"groups": "group_ids"}, group_state="", assignor_name=""),
    versions="0",
)
async def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    async with context.services.serial_queue.begin(len(request.group_ids)) as slices:
        return ConsumerGroupDescribeResponse(
            throttle_time_ms=0, groups=[_refused(group_id) async for group_id in slices.over(request.group_ids)]
        )


def _refused(group_id: str) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )
