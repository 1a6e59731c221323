"""Settings of brokers and topics: tables of rows, values, sources and layers. Pure."""
