"""The broker process: connections, dispatch, one handler module per API, metrics, and the composition of everything."""
