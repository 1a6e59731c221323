"""Dead letters of a topic: which are meant, which were brought back, and the work on them over a plain client."""
