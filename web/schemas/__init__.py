"""Keys and values that a schema registry describes: Confluent's framing, the registry, and decoders for Avro, JSON Schema and
Protobuf.

    registry = SchemaRegistry(http, ["http://registry:8081"], clock)
    decoded = await registry.decode(record.value)         RegistryValue(value, schema_id, kind, name)
    decoded = registry.decode_known(record.value)         at once; None while its schema has not been asked for

Rules: decoders are pure, and what they return is JSON that any client reads: no NaN, no infinity. A record and a schema may be
hostile: neither makes the process fall, run without end or take memory out of proportion to the record.
Errors: DecodeError for a record that cannot be decoded, RegistryUnavailable when nobody says how.
"""
