<?php

declare(strict_types=1);

namespace Drover\Streaming\Metrics;

/** The page in the Prometheus text format, version 0.0.4, with all metrics, including those that are still zero. */
final class Page
{
    /** The only backend of this daemon. */
    private const BACKEND = 'backend="mock"';

    private string $text = '';

    public static function render(Metrics $metrics): string
    {
        $page = new self();
        $page->gauges($metrics);
        $page->counters($metrics);
        $page->histograms($metrics);
        return $page->text;
    }

    private function gauges(Metrics $metrics): void
    {
        $this->add('daemon_active_connections', 'gauge', 'Accepted handoff connections whose client is not finished yet.', ['' => $metrics->activeConnections]);
        $this->add('daemon_active_streams', 'gauge', 'Open streams.', ['' => $metrics->activeStreams]);
        $this->add('daemon_peak_streams', 'gauge', 'Maximum number of streams open at once.', ['' => $metrics->peakStreams]);
    }

    private function counters(Metrics $metrics): void
    {
        $backend = '{' . self::BACKEND . '}';
        $this->add('daemon_connections_total', 'counter', 'Handoff connections accepted.', ['' => $metrics->connections]);
        $this->add('daemon_connections_rejected_total', 'counter', 'Clients answered with 503 because the limit was reached.', ['' => $metrics->rejected]);
        $this->add('daemon_handoffs_total', 'counter', 'Client sockets received.', ['' => $metrics->handoffs]);
        $this->add('daemon_handoff_errors_total', 'counter', 'Handoff errors, by reason.', self::byReason($metrics->handoffErrors));
        $this->add('daemon_stream_errors_total', 'counter', 'Streams that ended early, by reason.', self::byReason($metrics->streamErrors));
        $this->add('daemon_bytes_sent_total', 'counter', 'Bytes written to clients.', ['' => $metrics->bytes]);
        $this->add('daemon_chunks_sent_total', 'counter', 'Events written to clients.', ['' => $metrics->chunks]);
        $this->add('daemon_backend_requests_total', 'counter', 'Requests to the backend.', [$backend => $metrics->streams]);
        // The mock backend cannot fail; the metric exists so that queries for it work.
        $this->add('daemon_backend_errors_total', 'counter', 'Requests that the backend failed.', [$backend => 0]);
    }

    private function histograms(Metrics $metrics): void
    {
        $this->addHistogram('daemon_handoff_duration_seconds', 'Time from accepting a handoff to receiving its client socket.', '', $metrics->handoffDuration);
        $this->addHistogram('daemon_stream_duration_seconds', 'Time from receiving the client socket to the last byte of a complete stream.', '', $metrics->streamDuration);
        // The request to the mock backend begins when the client socket is received, and ends with the stream.
        $this->addHistogram('daemon_backend_duration_seconds', 'Time from the request to the backend to its last event.', self::BACKEND, $metrics->streamDuration);
        $this->addHistogram('daemon_backend_ttfb_seconds', 'Time from the request to the backend to its first event.', self::BACKEND, $metrics->firstEvent);
    }

    /** @param array<string, int> $samples values by labels */
    private function add(string $name, string $kind, string $help, array $samples): void
    {
        $this->addHeader($name, $kind, $help);
        foreach ($samples as $labels => $value) {
            $this->text .= "$name$labels $value\n";
        }
    }

    private function addHistogram(string $name, string $help, string $labels, Histogram $histogram): void
    {
        $this->addHeader($name, 'histogram', $help);
        $this->text .= $histogram->render($name, $labels);
    }

    private function addHeader(string $name, string $kind, string $help): void
    {
        $this->text .= "# HELP $name $help\n# TYPE $name $kind\n";
    }

    /**
     * @param array<string, int> $counts
     * @return array<string, int>
     */
    private static function byReason(array $counts): array
    {
        $labels = array_map(static fn (string $reason) => "{reason=\"$reason\"}", array_keys($counts));
        return array_combine($labels, array_values($counts));
    }
}
