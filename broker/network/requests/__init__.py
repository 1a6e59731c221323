"""From the bytes of a connection to requests that start: frames, their memory, headers, and what waits to be decoded."""
