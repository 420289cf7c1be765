<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

use Drover\Streaming\Loop\Loop;
use Drover\Streaming\Metrics\Metrics;
use Drover\Streaming\System\System;
use Fiber;

/** Writes to clients, counts the bytes, and waits for clients that do not read. */
final class Writer
{
    /** @param int $timeout the time limit of one write, in nanoseconds */
    public function __construct(
        private readonly System $system,
        private readonly Loop $loop,
        private readonly Metrics $metrics,
        private readonly int $timeout,
    ) {
    }

    /**
     * Sends without blocking. Returns the unsent rest.
     *
     * @throws StreamFailed
     */
    public function send(int $client, string $bytes): string
    {
        $sent = $this->system->send($client, $bytes);
        if ($sent < 0) {
            if ($sent === -System::EAGAIN || $sent === -System::EINTR) {
                return $bytes;
            }
            throw new StreamFailed(StreamFailure::fromErrno(-$sent));
        }
        $this->metrics->bytes += $sent;
        return $sent === strlen($bytes) ? '' : substr($bytes, $sent);
    }

    /** Returns the deadline of a write that starts to wait now. */
    public function deadline(): int
    {
        return hrtime(true) + $this->timeout;
    }

    /** Resumes with null when the client is writable, or with the failure that ends the stream, usually a timeout. */
    public function awaitWritable(int $client, int $deadline, Fiber|Resumable $resumable): void
    {
        $watcher = $timer = '';
        $resume = function (?StreamFailure $failure) use (&$watcher, &$timer, $resumable): void {
            $this->loop->cancel($watcher);
            $this->loop->cancel($timer);
            $resumable->resume($failure);
        };
        $left = intdiv(max(0, $deadline - hrtime(true)), 1_000_000) + 1;
        $watcher = $this->loop->onWritable(
            $client,
            static fn () => $resume(null),
            static fn () => $resume(StreamFailure::Other),
        );
        $timer = $this->loop->delay($left, static fn () => $resume(StreamFailure::Timeout));
    }

    /** Counts a sent event. The first one also gives the time to the first event of the backend. */
    public function countEvent(Stream $stream, int $number): void
    {
        $this->metrics->chunks++;
        if ($number === 1) {
            $this->metrics->firstEvent->record(hrtime(true) - $stream->started);
            $stream->greeting = '';
        }
    }

    /** Ends a complete stream. It is counted before it is closed: when the client sees the end, the page includes it. */
    public function complete(Stream $stream): void
    {
        $this->metrics->streamCompleted(hrtime(true) - $stream->started);
        $this->system->close($stream->client);
    }

    public function fail(Stream $stream, StreamFailure $failure): void
    {
        $this->metrics->streamFailed($failure);
        $this->system->close($stream->client);
    }
}
