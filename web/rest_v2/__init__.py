"""Confluent's REST v2: produce, read as a consumer that lives in this process, see topics and brokers.

Rules: forms, numbers of errors and defaults are those of Confluent's REST Proxy as published; whatever changes the cluster, and
a consumer changes its group, needs `barnabas.web.write.enable`.
Source: Confluent REST Proxy API reference, v2.
"""
