<?php

declare(strict_types=1);

namespace Drover\Streaming\Metrics;

use Drover\Streaming\Handoff\HandoffFailure;
use Drover\Streaming\Stream\StreamFailure;

/** What the daemon counts. Durations are in nanoseconds. */
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

    /** A handoff connection was accepted. */
    public function connectionOpened(): void
    {
        $this->connections++;
        $this->activeConnections++;
    }

    /** A handoff connection ended before it became a stream. */
    public function handoffFailed(HandoffFailure $failure): void
    {
        $this->handoffFlaw($failure);
        $this->activeConnections--;
    }

    /** Something was wrong with a handoff, or with accepting, and yet no connection ended by it. */
    public function handoffFlaw(HandoffFailure $failure): void
    {
        $this->handoffErrors[$failure->value]++;
    }

    /** A client arrived, after so long. */
    public function handoffDone(int $took): void
    {
        $this->handoffs++;
        $this->handoffDuration->record($took);
    }

    /** Takes a place for a stream, if fewer than `$capacity` are open. */
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

    /** A stream ended well, after so long. */
    public function streamCompleted(int $took): void
    {
        $this->completed++;
        $this->streamDuration->record($took);
        $this->streamClosed();
    }

    /** A stream ended early. */
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

    /** Everything that is still open is closed. */
    public function cancelAll(): void
    {
        $this->streamErrors[StreamFailure::Canceled->value] += $this->activeStreams;
        $this->handoffErrors[HandoffFailure::Canceled->value] += $this->activeConnections - $this->activeStreams;
        $this->activeStreams = 0;
        $this->activeConnections = 0;
    }

    /** What `--benchmark` prints at the end, when everything is closed. */
    public function summary(): string
    {
        $failed = $this->streams - $this->completed;
        return "peak concurrent: {$this->peakStreams}\nstarted: {$this->streams}\ncompleted: {$this->completed}\n"
            . "failed: $failed\nbytes: {$this->bytes}\n";
    }
}
