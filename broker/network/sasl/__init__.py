"""How clients of listeners with SASL authenticate, and how this broker does with other brokers."""
