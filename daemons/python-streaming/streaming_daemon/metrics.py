"""The counters of the daemon, and their collector for the Prometheus client.

The counters are plain integers: adding to a metric of the client library takes a lock and about a microsecond, and a
stream adds about fifty times. The library reads them through a collector when the page is requested.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from streaming_daemon.failure import HANDOFF_FAILURES, STREAM_FAILURES

_BACKEND = {"backend": "mock"}


class Histogram:
    """Counts durations by bucket, from 10 µs to 10 min."""

    ENDS_NS = tuple(
        round(seconds * 1e9)
        for seconds in (
            *(0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01),
            *(0.05, 0.1, 0.5, 1, 2.5, 5, 10, 60, 120, 600),
        )
    )
    _LABELS = (*(floatToGoString(end / 1e9) for end in ENDS_NS), "+Inf")  # type: ignore[no-untyped-call]

    def __init__(self) -> None:
        # Each duration is counted in one bucket only. The last one has no upper bound.
        self._counts = [0] * len(self._LABELS)
        self._sum_ns = 0

    def record(self, nanos: int) -> None:
        """Counts one duration."""
        self._counts[bisect_left(self.ENDS_NS, nanos)] += 1
        self._sum_ns += nanos

    def family(self, name: str, help_text: str, labels: dict[str, str]) -> HistogramMetricFamily:
        """Returns the histogram as a metric of the client library."""
        family = HistogramMetricFamily(name, help_text, labels=list(labels))
        buckets = list(zip(self._LABELS, accumulate(self._counts), strict=True))
        family.add_metric(list(labels.values()), buckets, self._sum_ns / 1e9)
        return family


class Metrics(Collector):
    """The metrics of one daemon."""

    def __init__(self) -> None:
        self.active_connections = 0
        self.active_streams = 0
        self.peak_streams = 0
        self.connections = 0
        self.rejected = 0
        self.handoffs = 0
        self.streams = 0
        self.completed = 0
        self.bytes_sent = 0
        self.chunks_sent = 0
        self.handoff_errors = dict.fromkeys(HANDOFF_FAILURES, 0)
        self.stream_errors = dict.fromkeys(STREAM_FAILURES, 0)
        self.handoff_duration = Histogram()
        self.stream_duration = Histogram()
        self.backend_ttfb = Histogram()
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def connection_opened(self) -> None:
        """Counts an accepted handoff connection."""
        self.connections += 1
        self.active_connections += 1

    def handoff_failed(self, reason: str) -> None:
        """Counts a handoff connection that ended before it became a stream."""
        self.handoff_errors[reason] += 1
        self.active_connections -= 1

    def handoff_done(self, took_ns: int) -> None:
        """Counts a received client socket."""
        self.handoffs += 1
        self.handoff_duration.record(took_ns)

    def stream_rejected(self) -> None:
        """Counts a client that was turned away because the limit is reached."""
        self.rejected += 1
        self.active_connections -= 1

    def stream_started(self) -> None:
        """Counts a started stream."""
        self.streams += 1
        self.active_streams += 1
        self.peak_streams = max(self.peak_streams, self.active_streams)

    def stream_completed(self, took_ns: int) -> None:
        """Counts a complete stream."""
        self.completed += 1
        self.stream_duration.record(took_ns)
        self._stream_closed()

    def stream_failed(self, reason: str) -> None:
        """Counts a stream that ended early."""
        self.stream_errors[reason] += 1
        self._stream_closed()

    def _stream_closed(self) -> None:
        self.active_streams -= 1
        self.active_connections -= 1

    def summary(self) -> str:
        """Returns the lines of `--benchmark`, printed at the end. Streams that are still open count as failed."""
        return (
            f"peak concurrent: {self.peak_streams}\nstarted: {self.streams}\ncompleted: {self.completed}\n"
            f"failed: {self.streams - self.completed}\nbytes: {self.bytes_sent}\n"
        )

    def collect(self) -> Iterator[Metric]:
        """Yields every metric, including those that are still zero."""
        yield from self._gauges()
        yield from self._counters()
        yield from self._histograms()

    def _gauges(self) -> Iterator[Metric]:
        for name, help_text, value in (
            (
                "daemon_active_connections",
                "Accepted handoff connections whose client is not finished yet.",
                self.active_connections,
            ),
            ("daemon_active_streams", "Open streams.", self.active_streams),
            ("daemon_peak_streams", "Maximum number of streams open at once.", self.peak_streams),
        ):
            yield GaugeMetricFamily(name, help_text, value=value)

    def _counters(self) -> Iterator[Metric]:
        yield _counter("daemon_connections", "Handoff connections accepted.", self.connections)
        help_text = "Clients answered with 503 because the limit was reached."
        yield _counter("daemon_connections_rejected", help_text, self.rejected)
        yield _counter("daemon_handoffs", "Client sockets received.", self.handoffs)
        yield _reasons("daemon_handoff_errors", "Handoff errors, by reason.", self.handoff_errors)
        yield _reasons("daemon_stream_errors", "Streams that ended early, by reason.", self.stream_errors)
        yield _counter("daemon_bytes_sent", "Bytes written to clients.", self.bytes_sent)
        yield _counter("daemon_chunks_sent", "Events written to clients.", self.chunks_sent)
        yield _counter("daemon_backend_requests", "Requests to the backend.", self.streams, _BACKEND)
        # The mock backend cannot fail; the metric exists so that queries for it work.
        yield _counter("daemon_backend_errors", "Requests that the backend failed.", 0, _BACKEND)

    def _histograms(self) -> Iterator[Metric]:
        for name, help_text, labels, histogram in (
            (
                "daemon_handoff_duration_seconds",
                "Time from accepting a handoff to receiving its client socket.",
                {},
                self.handoff_duration,
            ),
            (
                "daemon_stream_duration_seconds",
                "Time from receiving the client socket to the last byte of a complete stream.",
                {},
                self.stream_duration,
            ),
            # The mock backend is the stream itself: the same durations under the name that queries use.
            (
                "daemon_backend_duration_seconds",
                "Time from the request to the backend to its last event.",
                _BACKEND,
                self.stream_duration,
            ),
            (
                "daemon_backend_ttfb_seconds",
                "Time from the request to the backend to its first event.",
                _BACKEND,
                self.backend_ttfb,
            ),
        ):
            yield histogram.family(name, help_text, labels)


def _counter(name: str, help_text: str, value: int, labels: dict[str, str] | None = None) -> CounterMetricFamily:
    labels = labels or {}
    family = CounterMetricFamily(name, help_text, labels=list(labels))
    family.add_metric(list(labels.values()), value)
    return family


def _reasons(name: str, help_text: str, counts: dict[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, help_text, labels=["reason"])
    for reason, count in counts.items():
        family.add_metric([reason], count)
    return family
