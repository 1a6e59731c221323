"""Readers of the forms that a store of keys and certificates has. `security.tls.key_store` chooses among them."""
