<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

use Drover\Streaming\Loop\Loop;
use Drover\Streaming\Metrics\Metrics;
use Drover\Streaming\System\System;
use Fiber;

/** Writes to clients, counts it, and waits for clients that do not read. */
final class Writer
{
    /** @param int $timeout how long one write may take, in nanoseconds */
    public function __construct(
        private readonly System $system,
        private readonly Loop $loop,
        private readonly Metrics $metrics,
        private readonly int $timeout,
    ) {
    }

    /**
     * Sends what the client takes at once. Returns the rest.
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
            throw new StreamFailed(StreamFailure::of(-$sent));
        }
        $this->metrics->bytes += $sent;
        return $sent === strlen($bytes) ? '' : substr($bytes, $sent);
    }

    /** When a write that begins to wait now is given up. */
    public function deadline(): int
    {
        return hrtime(true) + $this->timeout;
    }

    /** Resumes a turn with null when the client has room, or with the failure that ends it: the deadline, mostly. */
    public function awaitRoom(int $client, int $deadline, Fiber|Turn $turn): void
    {
        $watcher = $timer = '';
        $resume = function (?StreamFailure $failure) use (&$watcher, &$timer, $turn): void {
            $this->loop->cancel($watcher);
            $this->loop->cancel($timer);
            $turn->resume($failure);
        };
        $left = intdiv(max(0, $deadline - hrtime(true)), 1_000_000) + 1;
        $watcher = $this->loop->onWritable(
            $client,
            static fn () => $resume(null),
            static fn () => $resume(StreamFailure::Other),
        );
        $timer = $this->loop->delay($left, static fn () => $resume(StreamFailure::Timeout));
    }

    /** An event has been sent. The first one tells how fast the backend was. */
    public function countEvent(Stream $stream, int $number): void
    {
        $this->metrics->chunks++;
        if ($number === 1) {
            $this->metrics->firstEvent->record(hrtime(true) - $stream->started);
            $stream->greeting = '';
        }
    }

    /** Ends a stream. It is counted before it is closed: what a client has seen to its end is on the page. */
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
