"""The counters, and the metrics page."""

from dataclasses import dataclass

_PAGE = (
    ("connections_open", "gauge", "Connections that are open"),
    ("members", "gauge", "Members of rooms"),
    ("joins_total", "counter", "Joins that were accepted"),
    ("heartbeats_total", "counter", "Heartbeats that were accepted"),
    ("leaves_total", "counter", "Members that left, for any reason"),
    ("events_total", "counter", "Events that were published"),
    ("deliveries_total", "counter", "Events that were sent to a client, one for each client"),
)


@dataclass(slots=True)
class Metrics:
    """Counts since the start."""

    joins_total: int = 0
    heartbeats_total: int = 0
    leaves_total: int = 0
    events_total: int = 0
    deliveries_total: int = 0

    def render(self, *, connections_open: int, members: int) -> str:
        """Returns the page in the Prometheus text format."""
        gauges = {"connections_open": connections_open, "members": members}
        lines = []
        for name, kind, text in _PAGE:
            value = gauges[name] if name in gauges else getattr(self, name)
            lines.append(f"# HELP presence_{name} {text}\n# TYPE presence_{name} {kind}\npresence_{name} {value}\n")
        return "".join(lines)
