"""Records over HTTP: `POST .../topics/{topic_name}/records` with one record, or a stream of them that is answered while it
comes.

json_stream   divides what comes into JSON objects. Pure
record        an object as a record, and the report about it. Pure
sending       gives records to the producer of the user, and says what became of them
stream        reads the request and writes reports side by side: an ASGI response
large         how many large records are in memory
routes        the endpoints
"""
