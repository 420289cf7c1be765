<?php

declare(strict_types=1);

namespace Drover\Streaming\Metrics;

use Drover\Streaming\Handoff\HandoffFailure;
use Drover\Streaming\Stream\StreamFailure;

/** The counters of the daemon. Durations are in nanoseconds. */
final class Metrics
{
    public int $activeConnections = 0;
    public int $activeStreams = 0;
    public int $peakStreams = 0;
    public int $connections = 0;
    public int $rejected = 0;
    public int $handoffs = 0;
    public int $streams = 0;
    public int $completed = 0;
    public int $bytes = 0;
    public int $chunks = 0;
    /** @var array<string, int> by reason */
    public array $handoffErrors;
    /** @var array<string, int> by reason */
    public array $streamErrors;
    public readonly Histogram $handoffDuration;
    public readonly Histogram $streamDuration;
    public readonly Histogram $firstEvent;

    public function __construct()
    {
        $this->handoffErrors = array_fill_keys(array_column(HandoffFailure::cases(), 'value'), 0);
        $this->streamErrors = array_fill_keys(array_column(StreamFailure::cases(), 'value'), 0);
        $this->handoffDuration = new Histogram();
        $this->streamDuration = new Histogram();
        $this->firstEvent = new Histogram();
    }

    /** Counts an accepted handoff connection. */
    public function connectionOpened(): void
    {
        $this->connections++;
        $this->activeConnections++;
    }

    /** Counts a handoff connection that ended before it became a stream. */
    public function handoffFailed(HandoffFailure $failure): void
    {
        $this->handoffAnomaly($failure);
        $this->activeConnections--;
    }

    /** Counts an error of a handoff, or of accepting, that did not end a connection. */
    public function handoffAnomaly(HandoffFailure $failure): void
    {
        $this->handoffErrors[$failure->value]++;
    }

    /** Counts a received client socket. `$took` is the duration of the handoff. */
    public function handoffDone(int $took): void
    {
        $this->handoffs++;
        $this->handoffDuration->record($took);
    }

    /** Counts a new stream if fewer than `$capacity` are open. Otherwise counts a rejected client and returns false. */
    public function tryStartStream(int $capacity): bool
    {
        if ($this->activeStreams >= $capacity) {
            $this->rejected++;
            $this->activeConnections--;
            return false;
        }
        $this->streams++;
        $this->peakStreams = max($this->peakStreams, ++$this->activeStreams);
        return true;
    }

    /** Counts a complete stream. `$took` is its duration. */
    public function streamCompleted(int $took): void
    {
        $this->completed++;
        $this->streamDuration->record($took);
        $this->streamClosed();
    }

    /** Counts a stream that ended early. */
    public function streamFailed(StreamFailure $failure): void
    {
        $this->streamErrors[$failure->value]++;
        $this->streamClosed();
    }

    private function streamClosed(): void
    {
        $this->activeStreams--;
        $this->activeConnections--;
    }

    /** Counts all open streams and handoffs as canceled. */
    public function cancelAll(): void
    {
        $this->streamErrors[StreamFailure::Canceled->value] += $this->activeStreams;
        $this->handoffErrors[HandoffFailure::Canceled->value] += $this->activeConnections - $this->activeStreams;
        $this->activeStreams = 0;
        $this->activeConnections = 0;
    }

    /** Returns the lines that `--benchmark` prints at the end, when everything is closed. */
    public function summary(): string
    {
        $failed = $this->streams - $this->completed;
        return "peak concurrent: {$this->peakStreams}\nstarted: {$this->streams}\ncompleted: {$this->completed}\n"
            . "failed: $failed\nbytes: {$this->bytes}\n";
    }
}
