"""What a process reports about itself: log lines that carry repo, diamond and split; metrics; traces.

Metrics are the SDK's own (`temporal_…`) and ours, which workflows and activities count:

    datamon_splits{repo, state}          splits that entered a state
    datamon_files{repo}                  files that were uploaded
    datamon_stored_bytes{repo}           bytes that were new to the store
    datamon_deduplicated_bytes{repo}     bytes that it had already
    datamon_commit_seconds{repo}         from the end of all waiting to the bundle
    datamon_conflicts{repo}              versions that lost and differ
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Interceptor
from temporalio.runtime import LoggingConfig, PrometheusConfig, Runtime, TelemetryConfig, TelemetryFilter

from datamon.core.errors import BadUsage
from datamon.settings.settings import Settings
from datamon.workflows.common.names import named_by

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
SERVICE = "datamon"
SEND_SECONDS = 2  # that a collector may take


def write_logs(settings: Settings) -> None:
    """Write what happens to stderr, one line each: for people, or as JSON."""
    level = settings.log_level.upper()
    if level not in _LEVELS:
        raise BadUsage(f"the log level is {settings.log_level!r}; use {', '.join(_LEVELS).lower()}")
    if settings.log_format not in ("text", "json"):
        raise BadUsage(f"the log format is {settings.log_format!r}; use text or json")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if settings.log_format == "json" else _Text())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for ours in ("datamon", "temporalio.workflow", "temporalio.activity"):
        logging.getLogger(ours).setLevel(level)
    workflow.logger.workflow_info_on_message = False
    activity.logger.activity_info_on_message = False


def about(record: logging.LogRecord) -> dict[str, str]:
    """Which repo, diamond and split a line is about: the id of the workflow says so."""
    context = getattr(record, "temporal_workflow", None) or getattr(record, "temporal_activity", None) or {}
    return named_by(str(context.get("workflow_id", "")))


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": self._time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **about(record),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)

    @staticmethod
    def _time(record: logging.LogRecord) -> str:
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z"


class _Text(_Json):
    def format(self, record: logging.LogRecord) -> str:
        names = " ".join(f"{name}={value}" for name, value in about(record).items())
        error = "\n" + self.formatException(record.exc_info) if record.exc_info else ""
        where = f" [{names}]" if names else ""
        return f"{self._time(record)} {record.levelname:7} {record.getMessage()}{where}{error}"


@cache
def runtime(metrics: str = "") -> Runtime:
    """Temporal's runtime without its log: what matters in it is raised as well. At an address, it serves metrics."""
    quiet = LoggingConfig(filter=TelemetryFilter(core_level="OFF", other_level="OFF"))
    if not metrics:
        return Runtime(telemetry=TelemetryConfig(logging=quiet))
    prometheus = PrometheusConfig(bind_address=metrics, counters_total_suffix=True, durations_as_seconds=True)
    try:
        return Runtime(telemetry=TelemetryConfig(logging=quiet, metrics=prometheus, attach_service_name=False))
    except (RuntimeError, ValueError) as error:
        raise BadUsage(f"metrics cannot be served at {metrics!r}: {error}") from error


def interceptors(settings: Settings) -> Sequence[Interceptor]:
    """What a client, and the workers it makes, pass their calls through."""
    if not settings.tracing:
        return []
    try:
        from temporalio.contrib.opentelemetry import TracingInterceptor
    except ImportError:
        raise BadUsage("tracing needs more packages; install them with `pip install 'datamon[tracing]'`") from None
    return [TracingInterceptor(_provider(settings.tracing).get_tracer(SERVICE))]


@cache
def _provider(endpoint: str) -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": SERVICE}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint, timeout=SEND_SECONDS)))
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # a collector that is gone must not fill our log
    return provider


def flush(settings: Settings) -> None:
    """Send the traces that have not been sent yet."""
    if settings.tracing:
        _provider(settings.tracing).force_flush(1_000 * SEND_SECONDS)
