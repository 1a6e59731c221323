# The broker's image, (--target web) that of the web process with the extra `web`, (--target zookeeper) a ZooKeeper from the jars of the
# pyspark package and (--target prometheus) Debian's Prometheus, for machines that can build images but pull none, and (--target spark)
# Spark with the extra `spark`. All run as a user of their own and keep their data in a volume.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
RUN command -v strip >/dev/null \
 || { apt-get update && apt-get install -y --no-install-recommends binutils && rm -rf /var/lib/apt/lists/*; }
WORKDIR /build
COPY requirements/cli.txt requirements/
# No pip in the environment, no symbols for debuggers in what is compiled. (Those of confluent-kafka have been patched: strip breaks
# such files.)
RUN python -m venv --without-pip /opt/barnabas \
 && python -m pip --python /opt/barnabas/bin/python install --no-cache-dir --disable-pip-version-check --no-compile \
    --require-hashes -r requirements/cli.txt \
 && find /opt/barnabas/lib -name '*.so' ! -path '*/confluent_kafka/*' -exec strip --strip-debug {} +
COPY . .
# Bytecode that is never compared with its source: nobody can write there.
RUN python -m pip --python /opt/barnabas/bin/python install --no-cache-dir --disable-pip-version-check --no-compile --no-deps . \
 && /opt/barnabas/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/barnabas/lib

FROM ${PYTHON_IMAGE} AS broker
LABEL org.opencontainers.image.title="Barnabas" \
      org.opencontainers.image.description="A Kafka-compatible broker in Python" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/barnabas /opt/barnabas
COPY docker/ready.py /opt/barnabas/ready.py
RUN groupadd --gid 1000 barnabas && useradd --uid 1000 --gid 1000 --no-create-home --shell /usr/sbin/nologin barnabas \
 && mkdir /var/lib/barnabas && chown barnabas:barnabas /var/lib/barnabas
ENV PATH=/opt/barnabas/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    KAFKA_LISTENERS=PLAINTEXT://:9092 \
    KAFKA_LOG_DIRS=/var/lib/barnabas/data \
    KAFKA_BARNABAS_HTTP_HOST=0.0.0.0 \
    KAFKA_BARNABAS_HTTP_PORT=8080
# As numbers: Kubernetes checks that they are not root's (runAsNonRoot).
USER 1000:1000
WORKDIR /var/lib/barnabas
VOLUME ["/var/lib/barnabas"]
EXPOSE 9092 8080
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 \
  CMD ["python", "-I", "-S", "/opt/barnabas/ready.py"]
ENTRYPOINT ["barnabas"]
CMD ["start"]

FROM build AS build-web
RUN python -m pip --python /opt/barnabas/bin/python install --no-cache-dir --disable-pip-version-check --no-compile \
    --require-hashes -r requirements/web.txt \
 && find /opt/barnabas/lib -name '*.so' ! -path '*/confluent_kafka/*' -exec strip --strip-debug {} + \
 && /opt/barnabas/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/barnabas/lib

FROM ${PYTHON_IMAGE} AS web
LABEL org.opencontainers.image.title="Barnabas: the web process" \
      org.opencontainers.image.description="A page about any Kafka cluster, and HTTP to read and write records" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build-web /opt/barnabas /opt/barnabas
RUN groupadd --gid 1000 barnabas && useradd --uid 1000 --gid 1000 --no-create-home --shell /usr/sbin/nologin barnabas
# It starts with TLS and login, or behind a proxy that barnabas.web.trusted.proxies names: other machines reach it.
ENV PATH=/opt/barnabas/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    KAFKA_BARNABAS_WEB_HOST=0.0.0.0
USER 1000:1000
EXPOSE 8082
# That it accepts connections: over TLS or not, and whoever may log in.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 \
  CMD ["python", "-I", "-S", "-c", "import socket; socket.create_connection(('127.0.0.1', 8082), 2).close()"]
ENTRYPOINT ["barnabas"]
CMD ["web"]

FROM ${PYTHON_IMAGE} AS zookeeper-jars
WORKDIR /build
COPY requirements/spark.txt requirements/
# pip checks the hash of the package; of its 400 MB only what ZooKeeper needs goes on.
RUN grep -A 1 '^pyspark==' requirements/spark.txt > pyspark.txt \
 && python -m pip download --no-cache-dir --disable-pip-version-check --no-deps --no-binary :all: --require-hashes -r pyspark.txt \
 && mkdir /opt/zookeeper \
 && tar -xzf pyspark-*.tar.gz -C /opt/zookeeper --strip-components=3 --wildcards \
    '*/jars/zookeeper*' '*/jars/netty-*' '*/jars/slf4j-api*' '*/jars/jcl-over-slf4j*' '*/jars/log4j-*' '*/jars/snappy-java*' \
    '*/jars/metrics-core*' '*/jars/commons-io*' '*/jars/commons-cli*' '*/jars/jackson-*' '*/jars/audience-annotations*' \
 && rm pyspark-*.tar.gz

FROM ${PYTHON_IMAGE} AS zookeeper
RUN command -v java >/dev/null \
 || { apt-get update && apt-get install -y --no-install-recommends default-jre-headless && rm -rf /var/lib/apt/lists/*; }
COPY --from=zookeeper-jars /opt/zookeeper /opt/zookeeper
COPY docker/zookeeper /usr/local/bin/zookeeper
RUN groupadd --gid 1000 zookeeper && useradd --uid 1000 --gid 1000 --no-create-home --shell /usr/sbin/nologin zookeeper \
 && mkdir /data /datalog && chown zookeeper:zookeeper /data /datalog
USER zookeeper
VOLUME ["/data", "/datalog"]
EXPOSE 2181 2888 3888
CMD ["sh", "/usr/local/bin/zookeeper"]

FROM ${PYTHON_IMAGE} AS prometheus
RUN apt-get update && apt-get install -y --no-install-recommends prometheus && rm -rf /var/lib/apt/lists/* \
 && mkdir /prometheus && chown prometheus:prometheus /prometheus
USER prometheus
VOLUME ["/prometheus"]
EXPOSE 9090
ENTRYPOINT ["prometheus", "--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]

# A master, a worker or a driver of Spark, by the command; jobs are started in it with `barnabas pipeline`.
FROM ${PYTHON_IMAGE} AS spark
RUN command -v java >/dev/null \
 || { apt-get update && apt-get install -y --no-install-recommends default-jre-headless && rm -rf /var/lib/apt/lists/*; }
WORKDIR /build
COPY requirements/spark.txt requirements/
RUN python -m venv /opt/barnabas \
 && /opt/barnabas/bin/python -m pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/spark.txt
COPY . .
RUN /opt/barnabas/bin/python -m pip install --no-cache-dir --disable-pip-version-check --no-deps . \
 && groupadd --gid 1000 spark && useradd --uid 1000 --gid 1000 --create-home --shell /usr/sbin/nologin spark \
 && mkdir /data && chown spark:spark /data \
 && ln -s "$(/opt/barnabas/bin/python -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')" /opt/spark
ENV PATH=/opt/barnabas/bin:/opt/spark/bin:$PATH \
    SPARK_HOME=/opt/spark \
    PYSPARK_PYTHON=/opt/barnabas/bin/python
USER spark
WORKDIR /data
VOLUME ["/data"]
CMD ["spark-class", "org.apache.spark.deploy.master.Master", "--port", "7077", "--webui-port", "8080"]

# What `docker build .` makes.
FROM broker
