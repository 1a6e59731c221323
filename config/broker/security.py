"""Who may connect and what they may do: TLS, SASL, tokens, authorisation.

Source: Kafka BrokerSecurityConfigs, SslConfigs, SaslConfigs.
"""

from __future__ import annotations

from config.definition import (
    BOOLEAN,
    CLASS,
    DAY_MS,
    DOUBLE,
    HOUR_MS,
    INT,
    LIST,
    LONG,
    PASSWORD,
    PER_BROKER,
    SHORT,
    STRING,
    KiB,
    Password,
    SettingTable,
    setting,
)
from config.validators import NON_NULL, at_least, one_of


class SecuritySettings(SettingTable):
    authorizer_class_name: str = setting("authorizer.class.name", STRING, "", NON_NULL, effective=True,
        doc="What grants or denies operations: empty for everything to everybody, or "
            "kafka.security.authorizer.AclAuthorizer, which reads super.users and allow.everyone.if.no.acl.found.")
    principal_builder_class: str = setting(
        "principal.builder.class", CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder", None, PER_BROKER,
        effective=True,
        doc="Java class that names the user of a connection: only the default is there.")
    security_providers: str | None = setting("security.providers", STRING, None, effective=True,
        doc="Java security providers: must be unset.")
    client_quota_callback_class: str | None = setting("client.quota.callback.class", CLASS, None, effective=True,
        doc="Java class that decides about quotas: must be unset.")
    delegation_token_master_key: Password | None = setting("delegation.token.master.key", PASSWORD, None,
        effective=True,
        doc="Old name of delegation.token.secret.key.")
    delegation_token_secret_key: Password | None = setting("delegation.token.secret.key", PASSWORD, None,
        effective=True,
        doc="Secret that signs delegation tokens, the same on every broker; without it there are none.")
    delegation_token_expiry_check_interval_ms: int = setting(
        "delegation.token.expiry.check.interval.ms", LONG, HOUR_MS, at_least(1), effective=True,
        doc="Time between checks for expired tokens.")
    delegation_token_expiry_time_ms: int = setting("delegation.token.expiry.time.ms", LONG, DAY_MS, at_least(1),
        effective=True,
        doc="Time a token lives without renewal.")
    delegation_token_max_lifetime_ms: int = setting("delegation.token.max.lifetime.ms", LONG, 7 * DAY_MS, at_least(1),
        effective=True,
        doc="Time a token lives at most.")
    password_encoder_secret: Password | None = setting("password.encoder.secret", PASSWORD, None,
        effective=True,
        doc="Secret that encrypts passwords among dynamic settings; without it there can be none.")
    password_encoder_old_secret: Password | None = setting("password.encoder.old.secret", PASSWORD, None,
        effective=True,
        doc="Former password.encoder.secret, while it is being changed: at the start stored passwords are encrypted again.")
    password_encoder_cipher_algorithm: str = setting(
        "password.encoder.cipher.algorithm", STRING, "AES/CBC/PKCS5Padding", effective=True,
        doc="Cipher for passwords among dynamic settings: AES/CBC/PKCS5Padding, AES/GCM/NoPadding or AES/CTR/NoPadding.")
    password_encoder_iterations: int = setting("password.encoder.iterations", INT, 4096, at_least(1024),
        effective=True,
        doc="Iterations of the key derivation for passwords among dynamic settings.")
    password_encoder_key_length: int = setting("password.encoder.key.length", INT, 128, at_least(8),
        effective=True,
        doc="Key length in bits for passwords among dynamic settings: 128, 192 or 256.")
    password_encoder_keyfactory_algorithm: str | None = setting("password.encoder.keyfactory.algorithm", STRING, None,
        effective=True,
        doc="Key derivation for passwords among dynamic settings: PBKDF2WithHmacSHA512, unless another PBKDF2 is named.")
    sasl_client_callback_handler_class: str | None = setting("sasl.client.callback.handler.class", CLASS, None,
        effective=True,
        doc="Java class of the callback handler of this broker's login to others; only the defaults are there.")
    sasl_enabled_mechanisms: tuple[str, ...] = setting("sasl.enabled.mechanisms", LIST, ("GSSAPI",), None, PER_BROKER,
        effective=True,
        doc="SASL mechanisms that are offered. A listener with SASL needs others than GSSAPI: PLAIN, SCRAM-SHA-256, "
            "SCRAM-SHA-512, OAUTHBEARER.")
    sasl_jaas_config: Password | None = setting("sasl.jaas.config", PASSWORD, None, None, PER_BROKER,
        effective=True,
        doc="Login module and its options in JAAS form. It is read of a mechanism of a listener only: "
            "listener.name.<listener>.<mechanism>.sasl.jaas.config, both in lower case.")
    sasl_kerberos_kinit_cmd: str = setting("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", None, PER_BROKER,
        doc="Path of kinit.")
    sasl_kerberos_min_time_before_relogin: int = setting(
        "sasl.kerberos.min.time.before.relogin", LONG, 60_000, None, PER_BROKER,
        doc="Time between Kerberos logins at least, in milliseconds.")
    sasl_kerberos_principal_to_local_rules: tuple[str, ...] = setting(
        "sasl.kerberos.principal.to.local.rules", LIST, ("DEFAULT",), None, PER_BROKER,
        doc="Rules from Kerberos principals to short names.")
    sasl_kerberos_service_name: str | None = setting("sasl.kerberos.service.name", STRING, None, None, PER_BROKER,
        doc="Kerberos service name of the broker.")
    sasl_kerberos_ticket_renew_jitter: float = setting(
        "sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, None, PER_BROKER,
        doc="Random share added to the renewal time.")
    sasl_kerberos_ticket_renew_window_factor: float = setting(
        "sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8, None, PER_BROKER,
        doc="Share of a ticket's life after which it is renewed.")
    sasl_login_callback_handler_class: str | None = setting("sasl.login.callback.handler.class", CLASS, None,
        effective=True,
        doc="Java class of a login's callback handler, of a mechanism of a listener; only the defaults are there.")
    sasl_login_class: str | None = setting("sasl.login.class", CLASS, None,
        effective=True,
        doc="Java class of the login, of a mechanism of a listener; only the default is there.")
    sasl_login_connect_timeout_ms: int | None = setting("sasl.login.connect.timeout.ms", INT, None,
        doc="Time to connect to an authentication provider.")
    sasl_login_read_timeout_ms: int | None = setting("sasl.login.read.timeout.ms", INT, None,
        effective=True,
        doc="Time to wait for an authentication provider's response.")
    sasl_login_refresh_buffer_seconds: int = setting(
        "sasl.login.refresh.buffer.seconds", SHORT, 300, None, PER_BROKER,
        effective=True,
        doc="Time before expiry in which a login is not refreshed any more.")
    sasl_login_refresh_min_period_seconds: int = setting(
        "sasl.login.refresh.min.period.seconds", SHORT, 60, None, PER_BROKER,
        effective=True,
        doc="Time between refreshes at least.")
    sasl_login_refresh_window_factor: float = setting(
        "sasl.login.refresh.window.factor", DOUBLE, 0.8, None, PER_BROKER,
        effective=True,
        doc="Share of a login's life after which it is refreshed.")
    sasl_login_refresh_window_jitter: float = setting(
        "sasl.login.refresh.window.jitter", DOUBLE, 0.05, None, PER_BROKER,
        doc="Random share added to the refresh time of a login.")
    sasl_login_retry_backoff_max_ms: int = setting("sasl.login.retry.backoff.max.ms", LONG, 10_000,
        effective=True,
        doc="Longest pause between login attempts.")
    sasl_login_retry_backoff_ms: int = setting("sasl.login.retry.backoff.ms", LONG, 100,
        effective=True,
        doc="First pause between login attempts.")
    sasl_mechanism_controller_protocol: str = setting("sasl.mechanism.controller.protocol", STRING, "GSSAPI",
        doc="SASL mechanism towards a quorum controller.")
    sasl_mechanism_inter_broker_protocol: str = setting(
        "sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI", None, PER_BROKER, effective=True,
        doc="SASL mechanism among brokers, one of their listener's sasl.enabled.mechanisms. Username and password are "
            "options of its login module.")
    sasl_oauthbearer_clock_skew_seconds: int = setting("sasl.oauthbearer.clock.skew.seconds", INT, 30,
        effective=True,
        doc="Difference of clocks that is tolerated in tokens.")
    sasl_oauthbearer_expected_audience: tuple[str, ...] | None = setting(
        "sasl.oauthbearer.expected.audience", LIST, None,
        effective=True,
        doc="Audiences a token must be for.")
    sasl_oauthbearer_expected_issuer: str | None = setting("sasl.oauthbearer.expected.issuer", STRING, None,
        effective=True,
        doc="Issuer a token must be from.")
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, HOUR_MS,
        effective=True,
        doc="Time between reads of the provider's keys.")
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10_000,
        effective=True,
        doc="Longest pause between attempts to read the keys.")
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, 100,
        effective=True,
        doc="First pause between attempts to read the keys.")
    sasl_oauthbearer_jwks_endpoint_url: str | None = setting("sasl.oauthbearer.jwks.endpoint.url", STRING, None,
        effective=True,
        doc="Where the keys that sign clients' tokens are read (JWKS): a URL of a file, http or https.")
    sasl_oauthbearer_scope_claim_name: str = setting("sasl.oauthbearer.scope.claim.name", STRING, "scope",
        effective=True,
        doc="Claim that holds the scope.")
    sasl_oauthbearer_sub_claim_name: str = setting("sasl.oauthbearer.sub.claim.name", STRING, "sub",
        effective=True,
        doc="Claim that holds the subject.")
    sasl_oauthbearer_token_endpoint_url: str | None = setting("sasl.oauthbearer.token.endpoint.url", STRING, None,
        effective=True,
        doc="Where this broker gets the token with which it logs in to others: a file, or http, https with client credentials.")
    sasl_server_callback_handler_class: str | None = setting("sasl.server.callback.handler.class", CLASS, None,
        effective=True,
        doc="Java class of a SASL server's callback handler, of a mechanism of a listener: the defaults, and for OAUTHBEARER "
            "Kafka's own.")
    sasl_server_max_receive_size: int = setting("sasl.server.max.receive.size", INT, 512 * KiB, effective=True,
        doc="Largest SASL message, in bytes.")
    ssl_allow_dn_changes: bool = setting("ssl.allow.dn.changes", BOOLEAN, False, effective=True,
        doc="Whether a new certificate may have another name.")
    ssl_allow_san_changes: bool = setting("ssl.allow.san.changes", BOOLEAN, False, effective=True,
        doc="Whether a new certificate may have other alternative names.")
    ssl_cipher_suites: tuple[str, ...] = setting("ssl.cipher.suites", LIST, (), None, PER_BROKER, effective=True,
        doc="TLS cipher suites that are allowed, in Java's names. Those of TLS 1.3 are allowed together or not at all.")
    ssl_client_auth: str = setting(
        "ssl.client.auth", STRING, "none", one_of("required", "requested", "none"), PER_BROKER, effective=True,
        doc="Whether clients show a certificate: required, requested or none. On SASL_SSL only with the listener's prefix.")
    ssl_enabled_protocols: tuple[str, ...] = setting(
        "ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"), None, PER_BROKER, effective=True,
        doc="TLS versions that are allowed: TLSv1.2, TLSv1.3.")
    ssl_endpoint_identification_algorithm: str = setting(
        "ssl.endpoint.identification.algorithm", STRING, "https", None, PER_BROKER, effective=True,
        doc="How another broker's host name is checked: https, or empty for no check.")
    ssl_engine_factory_class: str | None = setting("ssl.engine.factory.class", CLASS, None, None, PER_BROKER,
        effective=True,
        doc="Java class that makes TLS engines: only the default is there.")
    ssl_key_password: Password | None = setting("ssl.key.password", PASSWORD, None, None, PER_BROKER, effective=True,
        doc="Password of the private key.")
    ssl_keymanager_algorithm: str = setting("ssl.keymanager.algorithm", STRING, "SunX509", None, PER_BROKER,
        doc="Java key manager.")
    ssl_keystore_certificate_chain: Password | None = setting(
        "ssl.keystore.certificate.chain", PASSWORD, None, None, PER_BROKER, effective=True,
        doc="Certificate chain in PEM form.")
    ssl_keystore_key: Password | None = setting("ssl.keystore.key", PASSWORD, None, None, PER_BROKER, effective=True,
        doc="Private key in PEM form.")
    ssl_keystore_location: str | None = setting("ssl.keystore.location", STRING, None, None, PER_BROKER,
        effective=True,
        doc="File with key and certificate.")
    ssl_keystore_password: Password | None = setting("ssl.keystore.password", PASSWORD, None, None, PER_BROKER,
        effective=True,
        doc="Password of the key store.")
    ssl_keystore_type: str = setting("ssl.keystore.type", STRING, "JKS", None, PER_BROKER, effective=True,
        doc="Type of the key store: JKS, PKCS12 or PEM. The content of a file decides what it is read as.")
    ssl_principal_mapping_rules: str = setting("ssl.principal.mapping.rules", STRING, "DEFAULT", effective=True,
        doc="Rules from certificate names to users.")
    ssl_protocol: str = setting("ssl.protocol", STRING, "TLSv1.3", None, PER_BROKER, effective=True,
        doc="Newest TLS version if ssl.enabled.protocols is empty: TLSv1.3, TLSv1.2, TLS.")
    ssl_provider: str | None = setting("ssl.provider", STRING, None, None, PER_BROKER, effective=True,
        doc="Java provider of TLS: must be empty.")
    ssl_secure_random_implementation: str | None = setting(
        "ssl.secure.random.implementation", STRING, None, None, PER_BROKER, effective=True,
        doc="Java random source for TLS: must be empty.")
    ssl_trustmanager_algorithm: str = setting("ssl.trustmanager.algorithm", STRING, "PKIX", None, PER_BROKER,
        effective=True,
        doc="Java trust manager: PKIX, or another name of the JDK for it.")
    ssl_truststore_certificates: Password | None = setting(
        "ssl.truststore.certificates", PASSWORD, None, None, PER_BROKER, effective=True,
        doc="Trusted certificates in PEM form.")
    ssl_truststore_location: str | None = setting("ssl.truststore.location", STRING, None, None, PER_BROKER,
        effective=True,
        doc="File with trusted certificates; without it the authorities of the operating system are trusted.")
    ssl_truststore_password: Password | None = setting("ssl.truststore.password", PASSWORD, None, None, PER_BROKER,
        effective=True,
        doc="Password of the trust store.")
    ssl_truststore_type: str = setting("ssl.truststore.type", STRING, "JKS", None, PER_BROKER, effective=True,
        doc="Type of the trust store: JKS, PKCS12 or PEM. The content of a file decides what it is read as.")
