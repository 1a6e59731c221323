"""The names of a client's settings: those with an effect here, other names of the same, what is refused, and the rest. Pure.

Rules: one table for Kafka's names and librdkafka's. What would change how a connection is secured or where it goes, and is not
built, is refused: a setting that has no effect there is worse than none. All other names that such clients know are in
`WITHOUT_EFFECT`, so that only an unknown name is called so.
Source: Kafka CommonClientConfigs, SslConfigs, SaslConfigs, and the ConfigDefs of AdminClientConfig, ProducerConfig and
ConsumerConfig, of 3.9.1 and 4.3.0; librdkafka 2.16 `rd_kafka_conf_properties_show`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

CONNECTION: Final = (
    "bootstrap.servers", "client.id", "default.api.timeout.ms", "receive.buffer.bytes", "reconnect.backoff.max.ms",
    "reconnect.backoff.ms", "request.timeout.ms", "retry.backoff.max.ms", "retry.backoff.ms", "security.protocol",
    "socket.connection.setup.timeout.ms",
)  # fmt: skip
STORES: Final = (
    "ssl.certificate.location", "ssl.key.location", "ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key",
    "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type", "ssl.truststore.certificates",
    "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type",
)  # fmt: skip
TLS: Final = (
    *STORES, "enable.ssl.certificate.verification", "ssl.cipher.suites", "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm", "ssl.protocol",
)  # fmt: skip
LOGIN: Final = (
    "https.ca.location", "https.ca.pem", "sasl.jaas.config", "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms",
    "sasl.mechanism", "sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.config", "sasl.oauthbearer.extensions", "sasl.oauthbearer.header.urlencode", "sasl.oauthbearer.scope",
    "sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.token.endpoint.url", "sasl.password", "sasl.username",
)  # fmt: skip
WITH_EFFECT: Final = frozenset((*CONNECTION, *TLS, *LOGIN))

SAME: Final[Mapping[str, str]] = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.timeout.ms": "request.timeout.ms",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}
"""Other names, and what they are called here."""
WEAKER: Final = frozenset(("socket.receive.buffer.bytes", "socket.timeout.ms"))
"""Of these: names that a client may have beside the other one, which then counts."""


@dataclass(frozen=True, slots=True)
class RefusedSetting:
    """Why a setting is refused, and the values that change nothing and are accepted."""

    reason: str
    accepted: frozenset[str] = frozenset()


_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"
_JAVA: Final = "it names a part of Java, which this client does not have"
_OPENSSL: Final = "it configures the OpenSSL of librdkafka, which this client does not use"
_ASSERTIONS: Final = "tokens are asked for with a client's secret only, not with a signed assertion"
REFUSED: Final[Mapping[str, RefusedSetting]] = {
    "bootstrap.controllers": RefusedSetting("brokers are asked, not controllers: bootstrap.servers names them"),
    "sasl.client.callback.handler.class": RefusedSetting(_JAVA),
    "sasl.login.callback.handler.class": RefusedSetting(
        _JAVA + "; tokens come from sasl.oauthbearer.token.endpoint.url",
        frozenset((
            f"{_OAUTH}.OAuthBearerLoginCallbackHandler", f"{_OAUTH}.secured.OAuthBearerLoginCallbackHandler",
            f"{_OAUTH}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
        )),
    ),
    "sasl.login.class": RefusedSetting(_JAVA),
    "sasl.oauthbearer.assertion.file": RefusedSetting(_ASSERTIONS),
    "sasl.oauthbearer.assertion.private.key.file": RefusedSetting(_ASSERTIONS),
    "sasl.oauthbearer.assertion.private.key.pem": RefusedSetting(_ASSERTIONS),
    "sasl.oauthbearer.grant.type": RefusedSetting(_ASSERTIONS, frozenset(("client_credentials",))),
    "sasl.oauthbearer.jwt.retriever.class": RefusedSetting(
        _JAVA + "; tokens come from sasl.oauthbearer.token.endpoint.url",
        frozenset(f"{_OAUTH}.{name}JwtRetriever" for name in ("Default", "File", "ClientCredentials")),
    ),
    "sasl.oauthbearer.jwt.validator.class": RefusedSetting(
        _JAVA, frozenset((f"{_OAUTH}.DefaultJwtValidator", f"{_OAUTH}.ClientJwtValidator"))
    ),
    "sasl.oauthbearer.metadata.authentication.type": RefusedSetting(
        "tokens of a cloud's metadata service are not asked for; sasl.oauthbearer.token.endpoint.url names an endpoint",
        frozenset(("none",)),
    ),
    "security.providers": RefusedSetting(_JAVA),
    "ssl.crl.location": RefusedSetting("lists of revoked certificates are not read"),
    "ssl.curves.list": RefusedSetting(_OPENSSL),
    "ssl.engine.factory.class": RefusedSetting(_JAVA),
    "ssl.engine.location": RefusedSetting(_OPENSSL),
    "ssl.provider": RefusedSetting(_JAVA),
    "ssl.providers": RefusedSetting(_OPENSSL),
    "ssl.secure.random.implementation": RefusedSetting(_JAVA),
    "ssl.sigalgs.list": RefusedSetting(_OPENSSL),
}  # fmt: skip

WITHOUT_EFFECT: Final = frozenset(
    """
    acks allow.auto.create.topics api.version.fallback.ms api.version.request api.version.request.timeout.ms
    auto.commit.enable auto.commit.interval.ms auto.include.jmx.reporter auto.offset.reset batch.num.messages batch.size
    broker.address.family broker.address.ttl broker.version.fallback buffer.memory builtin.features check.crcs
    client.dns.lookup client.rack compression.codec compression.gzip.level compression.level compression.lz4.level
    compression.type compression.zstd.level config.providers connections.max.idle.ms consume.callback.max.messages
    coordinator.query.interval.ms debug delivery.report.only.error delivery.timeout.ms enable.auto.commit
    enable.auto.offset.store enable.gapless.guarantee enable.idempotence enable.metrics.push enable.partition.eof
    enable.random.seed enable.sasl.oauthbearer.unsecure.jwt exclude.internal.topics fetch.error.backoff.ms
    fetch.max.bytes fetch.max.wait.ms fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms fetch.wait.max.ms
    group.id group.instance.id group.protocol group.protocol.type group.remote.assignor heartbeat.interval.ms
    interceptor.classes interceptors internal.leave.group.on.close internal.termination.signal
    internal.throw.on.fetch.stable.offset.unsupported isolation.level key.deserializer key.serializer linger.ms
    log.connection.close log.queue log.thread.name log_level max.block.ms max.in.flight
    max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms max.poll.records
    max.request.size message.copy.max.bytes message.max.bytes message.send.max.retries message.timeout.ms
    metadata.max.age.ms metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
    metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms offset.store.method
    offset.store.path offset.store.sync.interval.ms opaque partition.assignment.strategy partitioner
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
    partitioner.ignore.keys plugin.library.paths produce.offset.report queue.buffering.backpressure.threshold
    queue.buffering.max.kbytes queue.buffering.max.messages queue.buffering.max.ms queued.max.messages.kbytes
    queued.min.messages queuing.strategy receive.message.max.bytes reconnect.backoff.jitter.ms
    request.required.acks retries sasl.kerberos.keytab sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.principal sasl.kerberos.service.name
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.oauthbearer.assertion.algorithm
    sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
    sasl.oauthbearer.assertion.jwt.template.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
    sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
    sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.method sasl.oauthbearer.scope.claim.name send.buffer.bytes
    session.timeout.ms share.acknowledgement.mode share.acquire.mode socket.blocking.max.ms
    socket.connection.setup.timeout.max.ms socket.keepalive.enable socket.max.fails socket.nagle.disable
    socket.send.buffer.bytes ssl.ca.certificate.stores ssl.engine.id ssl.keymanager.algorithm ssl.trustmanager.algorithm
    statistics.interval.ms sticky.partitioning.linger.ms topic.blacklist topic.metadata.propagation.max.ms
    topic.metadata.refresh.fast.cnt topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms
    topic.metadata.refresh.sparse transaction.timeout.ms transaction.two.phase.commit.enable transactional.id
    value.deserializer value.serializer
    """.split()  # noqa: SIM905  a paragraph of words
)
"""What clients know besides: it has no effect on how they connect."""
_KNOWN: Final = (*sorted(WITH_EFFECT), *SAME, *REFUSED, *sorted(WITHOUT_EFFECT))


def is_known(name: str) -> bool:
    return name in WITH_EFFECT or name in SAME or name in REFUSED or name in WITHOUT_EFFECT


def nearest(name: str) -> str | None:
    """Return the name that is meant where `name` is a slip, None where none is near."""
    from runtime.suggestions import nearest as nearest_of  # noqa: PLC0415  only for a slip

    return nearest_of(name.lower(), _KNOWN)
