# One image for every service of docker-compose.yaml; docs/decisions/0041-one-image-and-a-stream-runner.md
ARG BASE=python:3.11.13-slim-bookworm
FROM ${BASE}

RUN apt-get update -q \
 && apt-get install -y -q --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*

# Packages and Delta's jars by the same set-up as anywhere else: only a change of the pins repeats it.
WORKDIR /opt/penstock
COPY bin/setup bin/
COPY jars/fetch.py jars/SHA256SUMS jars/
COPY Makefile requirements.txt ./
RUN PIP_NO_CACHE_DIR=1 bin/setup && cd jars && sha256sum --check SHA256SUMS

COPY dags dags
COPY plugins plugins
COPY spark_jobs spark_jobs
COPY include include
RUN .venv/bin/python -m compileall -q dags plugins spark_jobs include

# Everything above belongs to root: what runs can change neither the code nor its packages.
# Docker gives a new volume the owner and mode of the folder it is mounted over.
ARG UID=1000
RUN useradd --uid ${UID} --no-create-home --home-dir /var/lib/penstock penstock \
 && install -d -o penstock -m 0700 /var/lib/penstock \
    /var/lib/penstock/airflow /var/lib/penstock/sockets /var/lib/penstock/spark /var/tmp/spark
USER penstock
ENV PATH=/opt/penstock/.venv/bin:$PATH \
    PYTHONPATH=/opt/penstock/include:/opt/penstock/plugins \
    PYTHONUNBUFFERED=1 \
    PENSTOCK_HOME=/var/lib/penstock \
    SPARK_CONF_DIR=/var/lib/penstock/spark \
    SPARK_LOCAL_DIRS=/var/tmp/spark \
    GX_ANALYTICS_ENABLED=false
ENTRYPOINT ["python", "-m", "penstock.runtime.containers"]
