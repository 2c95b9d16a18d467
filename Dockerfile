# One image for workers, Spark's master and workers, and the command: they must agree on Python and its packages.
FROM python:3.11.10-slim-bookworm

SHELL ["/bin/bash", "-o", "pipefail", "-c"]

# Debian's own updates are what is wanted of this one package, so its version is not pinned.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home datamon \
    && install --directory --owner datamon /var/lib/datamon

WORKDIR /usr/src/datamon
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY datamon datamon
COPY workflows workflows
COPY activities activities
COPY worker worker
COPY starter starter
# Every version is pinned in constraints.txt.
# hadolint ignore=DL3013
RUN PIP_CONSTRAINT=constraints.txt pip install --no-cache-dir '.[tracing]'

# Spark's own programs lie in the wheel.
ENV SPARK_HOME=/usr/local/lib/python3.11/site-packages/pyspark \
    SPARK_NO_DAEMONIZE=1 \
    PYTHONUNBUFFERED=1 \
    DATAMON_HOME=/var/lib/datamon
USER 10001
WORKDIR /var/lib/datamon
VOLUME /var/lib/datamon
CMD ["datamon", "worker"]
