"""Bearer tokens of real clients: librdkafka's callback, Java's from a file, keys in a file and over HTTP."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.interop.conftest import BROKERS, need_java
from tests.interop.security.token_broker import CLIENTS, OAUTH_MODULE, client_file, produced_and_consumed, secured
from tests.oracle.process import wait_until
from tests.security.sasl.bearer_tokens import document, rsa_key, rsa_row, signed

pytestmark = pytest.mark.interop

KEYS = document(rsa_row(rsa_key(), kid="one", use="sig"))
LIFE_S = 3600
PATIENCE_S = 60.0
HANDLER = "org.apache.kafka.common.security.oauthbearer"


def settings(keys_url: str) -> dict[str, str]:
    return {
        f"{CLIENTS}.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{CLIENTS}.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required;",
        f"{CLIENTS}.oauthbearer.sasl.server.callback.handler.class": f"{HANDLER}.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": keys_url,
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.expected.issuer": "https://issuer.example",
    }


def token(key: Any = None, **changed: Any) -> str:
    now_s = int(time.time())
    claims = {"aud": "kafka", "iss": "https://issuer.example", "iat": now_s, "exp": now_s + LIFE_S, **changed}
    return signed(key or rsa_key(), key_id="one", **claims)


def librdkafka(bootstrap: str, text: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _config: (text, time.time() + LIFE_S),
        **{name.replace("_", "."): value for name, value in more.items()},
    }


@contextmanager
def http_keys() -> Iterator[str]:
    """A provider on the loopback."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_what: object) -> None:
            """Keep the output of tests clean."""

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(KEYS)))
            self.end_headers()
            self.wfile.write(KEYS)

    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_address[1]}/keys"
        finally:
            http.shutdown()
            thread.join()


def round_trip(bootstrap: str, topic: str) -> list[bytes | None]:
    producer = Producer(librdkafka(bootstrap, token()))
    for value in (b"one", b"two"):
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer(librdkafka(bootstrap, token(), group_id="readers", auto_offset_reset="earliest"))
    try:
        consumer.subscribe([topic])
        messages = consumer.consume(2, PATIENCE_S)
        return [message.value() for message in messages]
    finally:
        consumer.close()


def test_librdkafka_with_keys_over_http() -> None:
    with http_keys() as url:
        broker, bootstrap = secured("barnabas", settings(url))
        with broker:
            assert round_trip(bootstrap, "orders") == [b"one", b"two"]
            for wrong in (token(rsa_key(1)), token(aud="other"), token(iss="other"), token(exp=int(time.time()) - 60)):
                told: list[str] = []
                config = librdkafka(bootstrap, wrong) | {"error_cb": lambda error, told=told: told.append(str(error))}
                client = AdminClient(config)

                def is_told(client: AdminClient = client, told: list[str] = told) -> bool:
                    client.poll(0.1)
                    return any("invalid_token" in text for text in told)

                assert wait_until(is_told, PATIENCE_S), told
                with pytest.raises(KafkaException):
                    client.list_topics(timeout=2)
            log = broker.log.read_text()
            assert token()[:20] not in log and "invalid" not in log.replace("invalid_token", "")


@pytest.mark.parametrize("kind", BROKERS)
def test_java_with_keys_and_token_in_files(kind: str, tmp_path: Path) -> None:
    need_java()
    keys, login = tmp_path / "keys.json", tmp_path / "token"
    keys.write_bytes(KEYS)
    login.write_text(token())
    broker, bootstrap = secured(kind, settings(keys.as_uri()))
    client = client_file(
        tmp_path, "java", "OAUTHBEARER", f"{OAUTH_MODULE} required;",
        sasl_oauthbearer_token_endpoint_url=login.as_uri(),
        sasl_login_callback_handler_class=f"{HANDLER}.OAuthBearerLoginCallbackHandler",
    )  # fmt: skip
    with broker:
        assert produced_and_consumed(bootstrap, client, f"orders-{kind}") == ["one", "two"]


@pytest.mark.parametrize("kind", BROKERS)
def test_java_with_unsecured_tokens_where_they_are_named(kind: str, tmp_path: Path) -> None:
    need_java()
    # Apache Kafka asks for a token of the broker, too.
    options = 'unsecuredLoginStringClaim_sub="broker" unsecuredValidatorRequiredScope="kafka"'
    given = {
        f"{CLIENTS}.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{CLIENTS}.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required {options};",
    }
    broker, bootstrap = secured(kind, given)
    claims = 'unsecuredLoginStringClaim_sub="alice" unsecuredLoginListClaim_scope=",kafka,more"'
    client = client_file(tmp_path, "java", "OAUTHBEARER", f"{OAUTH_MODULE} required {claims};")
    with broker:
        assert produced_and_consumed(bootstrap, client, f"orders-{kind}") == ["one", "two"]
