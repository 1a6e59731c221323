"""One module per API, named after it: the request, the response and their structs, with the history of the versions."""
