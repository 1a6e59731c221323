"""Share groups: records acquired and acknowledged, and the states that brokers have stored (KIP-932)."""
