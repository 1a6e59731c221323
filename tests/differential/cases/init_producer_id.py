from __future__ import annotations

from protocol.messages.init_producer_id import InitProducerIdRequest
from tests.differential.play import Run, case


def new_producer(run: Run) -> tuple[int, int]:
    answer = run.do(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60000))
    assert answer.error_code == 0, answer
    run.names.numbered("producer", answer.producer_id)
    return answer.producer_id, answer.producer_epoch


@case(InitProducerIdRequest, "normal")
def two_idempotent_producers(run: Run) -> None:
    for _ in range(2):
        run.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60000))


@case(InitProducerIdRequest, "edge")
def timeouts_without_a_transaction(run: Run) -> None:
    for timeout_ms in (0, -1, 0x7FFFFFFF):
        run.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=timeout_ms))


@case(InitProducerIdRequest, "edge", "3+")
def id_and_epoch_of_an_idempotent_producer(run: Run) -> None:
    producer_id, epoch = new_producer(run)
    for given in ((producer_id, epoch), (producer_id, -1), (-1, epoch), (123456789, 5)):
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60000)
        request.producer_id, request.producer_epoch = given
        run.ask(request)


@case(InitProducerIdRequest, "wrong")
def empty_transactional_id(run: Run) -> None:
    run.ask(InitProducerIdRequest(transactional_id="", transaction_timeout_ms=60000))
