<?php

declare(strict_types=1);

namespace Drover\Streaming\Metrics;

/** The page in the Prometheus text format, version 0.0.4: every metric, also those that are still zero. */
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
        $this->add('daemon_active_connections', 'gauge', 'Handoff connections that were accepted and whose client is not finished yet.', ['' => $metrics->activeConnections]);
        $this->add('daemon_active_streams', 'gauge', 'Streams that are open.', ['' => $metrics->activeStreams]);
        $this->add('daemon_peak_streams', 'gauge', 'The most streams that were open at once.', ['' => $metrics->peakStreams]);
    }

    private function counters(Metrics $metrics): void
    {
        $backend = '{' . self::BACKEND . '}';
        $this->add('daemon_connections_total', 'counter', 'Handoff connections accepted.', ['' => $metrics->connections]);
        $this->add('daemon_connections_rejected_total', 'counter', 'Clients answered with 503 because the limit was reached.', ['' => $metrics->rejected]);
        $this->add('daemon_handoffs_total', 'counter', 'Client sockets received.', ['' => $metrics->handoffs]);
        $this->add('daemon_handoff_errors_total', 'counter', 'What was wrong with handoffs.', self::byReason($metrics->handoffErrors));
        $this->add('daemon_stream_errors_total', 'counter', 'Why streams ended early.', self::byReason($metrics->streamErrors));
        $this->add('daemon_bytes_sent_total', 'counter', 'Bytes written to clients.', ['' => $metrics->bytes]);
        $this->add('daemon_chunks_sent_total', 'counter', 'Events written to clients.', ['' => $metrics->chunks]);
        $this->add('daemon_backend_requests_total', 'counter', 'Requests to the backend.', [$backend => $metrics->streams]);
        // The mock backend cannot fail; the name stands here so that no query breaks.
        $this->add('daemon_backend_errors_total', 'counter', 'Requests that the backend failed.', [$backend => 0]);
    }

    private function histograms(Metrics $metrics): void
    {
        $this->addHistogram('daemon_handoff_duration_seconds', 'From accepting a handoff to holding its client socket.', '', $metrics->handoffDuration);
        $this->addHistogram('daemon_stream_duration_seconds', 'From holding the client socket to the last byte of a complete stream.', '', $metrics->streamDuration);
        // The mock backend is asked when the client is there, and has answered when the stream is over.
        $this->addHistogram('daemon_backend_duration_seconds', 'From the request to the backend to its last event.', self::BACKEND, $metrics->streamDuration);
        $this->addHistogram('daemon_backend_ttfb_seconds', 'From the request to the backend to its first event.', self::BACKEND, $metrics->firstEvent);
    }

    /** @param array<string, int> $samples values by labels */
    private function add(string $name, string $kind, string $help, array $samples): void
    {
        $this->introduce($name, $kind, $help);
        foreach ($samples as $labels => $value) {
            $this->text .= "$name$labels $value\n";
        }
    }

    private function addHistogram(string $name, string $help, string $labels, Histogram $histogram): void
    {
        $this->introduce($name, 'histogram', $help);
        $this->text .= $histogram->render($name, $labels);
    }

    private function introduce(string $name, string $kind, string $help): void
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
