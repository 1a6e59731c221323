"""The page docs/metrics.md, written from the tables: `python -m broker.observability.document > docs/metrics.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from broker.observability.metric_table import METRICS
from broker.observability.not_kept import NOT_KEPT, OTHER_LABELS
from runtime.monitoring.metric import Kind, Metric

_HEAD = """\
# Metrics

Written by `make docs` from the tables in `broker/observability/`; edit those.

`barnabas.http.port=8080` opens `/metrics` in Prometheus' text form (`barnabas.http.host` says for whom), and `/metrics/clients`
with what clients have pushed ([client-metrics.md](client-metrics.md)). Names, labels and
types are those that [jmx_exporter](https://github.com/prometheus/jmx_exporter) 0.20 gives for Apache Kafka 3.9.1 with its
example `kafka-2_0_0.yml`, so that dashboards and alerts made for it work; jmx_exporter 1.0 names the counters `..._count` of
that file `..._count_total`. [Where each MBean went](#kafkas-mbeans) and [what there is
not](#what-apache-kafka-has-and-this-broker-has-not) stand below.

## How to scrape

```yaml
scrape_configs:
  - job_name: barnabas
    scrape_interval: 15s
    static_configs:
      - targets: [broker1:8080, broker2:8080, broker3:8080]
        labels: {cluster: main}
```

[deploy/](../deploy/) has this with recording rules, alerts and Grafana dashboards. A scrape of a broker with 10,000
partitions is a page of megabytes; it is written in slices between which the broker serves clients, and simultaneous scrapes
share one.

## What to look at first

| metric | healthy | otherwise |
|---|---|---|
"""

_ALERTS = {
    "`kafka_controller_kafkacontroller_activecontrollercount`": (
        "1, summed over all brokers",
        "0: no election is possible; check ZooKeeper",
    ),
    "`kafka_controller_kafkacontroller_offlinepartitionscount`": ("0", "partitions without a leader"),
    "`kafka_server_replicamanager_underminisrpartitioncount`": ("0", "acks=all is refused for these partitions"),
    "`kafka_server_replicamanager_underreplicatedpartitions`": ("0", "a broker is down or slow"),
    "`kafka_controller_controllerstats_uncleanleaderelections_total`": ("does not increase", "records were lost"),
    "`kafka_log_logmanager_logdirectoryoffline`": ("0", "a log directory has failed"),
    "`barnabas_log_directory_refusing`": ("0", "a disk is full: records are refused until there is room"),
    '`kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"}`': (
        "as usual",
        "compare `localtimems` (this broker's work) with `remotetimems` (other brokers)",
    ),
    "`barnabas_event_loop_delay_seconds`": (
        "a few milliseconds",
        "something holds the event loop up: the processor is overloaded, or a disk is slow",
    ),
    "`kafka_network_socketserver_networkprocessoravgidlepercent`": ("above 0.3", "the broker needs all of one core"),
    "`kafka_server_replicafetchermanager_maxlag`": ("near 0", "this broker's replicas do not keep up"),
    "`kafka_consumergroup_lag_seconds`": ("as usual", "a consumer does not keep up: `barnabas groups describe`"),
    "`barnabas_group_status`": ("`ok`", "`stalled` or `stopped`: a consumer reads, or commits, no more"),
    "`kafka_server_sessionexpirelistener_zookeeperexpires_total`": ("does not increase", "long pauses, or no network"),
    "`kafka_server_socket_server_metrics_failed_authentication_total`": ("does not increase", "wrong passwords"),
    "`kafka_server_replicamanager_partitionswithlatetransactionscount`": ("0", "`barnabas transactions` names it"),
    "`process_open_fds`": ("below 0.8 of `process_max_fds`", "new connections are refused"),
}

_RULES = """
## What the numbers mean

- Counters (`..._total`, `..._count`, `..._sum`) grow from the start of the broker; rates are `rate(...[5m])`. Kafka's own
  rates over one, five and fifteen minutes are not there, as with that file.
- `kafka_server_brokertopicmetrics_*` with the label `topic` are of one topic, without it of all topics, deleted ones
  included: a sum is made over one of both, `sum(...{topic!=""})`.
- `kafka_server_brokertopicmetrics_totalfetchrequests_total` counts partitions whose records were read for clients. Apache
  Kafka also counts reads of followers, and those that found nothing; here a fetch reads only partitions that have news.
- `kafka_network_requestmetrics_errors_total` counts what clients were told: an error for each partition, topic or group of an
  answer, and `NONE` for each that went well. `kafka_server_brokertopicmetrics_failedproducerequests_total` has, as in Apache
  Kafka, no appends that were refused for a common reason: a leader that moved, a batch that is too large or damaged, a disk.
- A metric of times or sizes has a gauge for each `quantile` (0.50 to 0.999), `..._count` and `..._sum`. Apache Kafka keeps a
  sample of 1,028 values, in which recent ones are favoured; this broker counts every value in one of a hundred buckets, at
  most a third wider than where they begin, and lets their weight fall by half in 46 s, as Apache Kafka's sample does.
  Between two scrapes all values weigh the same, and those that none followed stay as they were. Quantiles of several brokers
  cannot be added up; histograms can.
- `barnabas_request_seconds{request,phase}` is a Prometheus histogram of the same times: `histogram_quantile(0.99, sum by
  (le, request) (rate(barnabas_request_seconds_bucket{phase="total"}[5m])))`. Times are counted to 4 microseconds.
- A request's time begins with its decoding. `local` (`LocalTimeMs`) ends when its handler has returned, `remote`
  (`RemoteTimeMs`) is what it waits then: for replicas, for records, for members of its group, for a disk. It is sent in the
  same turn of the event loop.
- `request="Fetch"` counts every fetch, `FetchConsumer` and `FetchFollower` part of them.
- One event loop does the work of Kafka's network threads and request handlers: `networkprocessoravgidlepercent`,
  `processor_idlepercent` and `requesthandleravgidlepercent_count` (nanoseconds) are its idle time, in which its thread uses
  no processor.
- A name that a client made up never becomes a label of `/metrics`: topics, APIs, error codes and groups that exist are labels.
  Client ids and users are in the metrics of quotas, and names of client software in
  `kafka_server_socket_server_metrics_connections`: at most 1,000 of a kind.

"""


def page() -> str:
    parts = [_HEAD.rstrip("\n")]
    parts += [f"| {name} | {healthy} | {otherwise} |" for name, (healthy, otherwise) in _ALERTS.items()]
    parts += [_RULES.rstrip("\n"), "", "## Kafka's MBeans", ""]
    parts += _table(metric for metric in METRICS if not metric.own)
    parts += ["", "Labels that are not those of jmx_exporter:", ""]
    parts += [f"- `{name}`: {reason}." for name, reason in OTHER_LABELS.items()]
    parts += ["", "## Metrics of this broker only", "", "| metric | type | labels | |", "|---|---|---|---|"]
    parts += [
        f"| {_names(metric)} | {_kind(metric)} | {_labels(metric)} | {metric.doc} |" for metric in METRICS if metric.own
    ]
    parts += ["", "`process_*` are those of Prometheus' client libraries.", ""]
    parts += ["## What Apache Kafka has and this broker has not", ""]
    parts += ["`*` stands for anything; words without a value are keys of the MBean.", ""]
    for reason, mbeans in NOT_KEPT.items():
        parts += [f"- {reason}", *(f"  - `{mbean}`" for mbean in mbeans)]
    return "\n".join(parts) + "\n"


def _table(metrics: Iterable[Metric]) -> list[str]:
    lines = ["| MBean | metric | type | labels | |", "|---|---|---|---|---|"]
    for metric in metrics:
        attribute = f" {metric.name}" if metric.attribute else ""
        mbeans = "<br>".join(f"`{pattern}`{attribute}" for pattern in metric.patterns)
        lines.append(f"| {mbeans} | {_names(metric)} | {_kind(metric)} | {_labels(metric)} | {metric.doc} |")
    return lines


def _names(metric: Metric) -> str:
    name = metric.prometheus_name
    match metric.kind:
        case Kind.SUMMARY:
            return f"`{name}`, `..._count`, `..._sum`"
        case Kind.HISTOGRAM:
            return f"`{name}_bucket`, `..._count`, `..._sum`"
        case _:
            return f"`{name}`"


def _kind(metric: Metric) -> str:
    return "gauge by `quantile`, counters" if metric.kind is Kind.SUMMARY else metric.kind.value


def _labels(metric: Metric) -> str:
    return ", ".join(f"`{label}`" for label in metric.label_names)


if __name__ == "__main__":
    sys.stdout.write(page())
