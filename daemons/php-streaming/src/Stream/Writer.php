<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

use Drover\Streaming\Loop\EpollDriver;
use Drover\Streaming\Metrics\Metrics;
use Drover\Streaming\System\System;
use Fiber;

/** Writes to clients and counts the bytes. A client that does not read suspends only the fiber that writes to it. */
final class Writer
{
    /** @param int $timeout the time limit of one write, in nanoseconds */
    public function __construct(
        private readonly System $system,
        private readonly EpollDriver $loop,
        private readonly Metrics $metrics,
        private readonly int $timeout,
    ) {
    }

    /** Sends all bytes within the write timeout. Returns the failure that ends the stream, or null. */
    public function write(int $client, string $bytes): ?StreamFailure
    {
        $deadline = null;
        while (($sent = $this->system->send($client, $bytes)) !== strlen($bytes)) {
            if ($sent >= 0) {
                $this->metrics->bytes += $sent;
                $bytes = substr($bytes, $sent);
            } elseif ($sent !== -System::EAGAIN && $sent !== -System::EINTR) {
                return StreamFailure::fromErrno(-$sent);
            }
            $deadline ??= hrtime(true) + $this->timeout;
            $failure = $this->awaitWritable($client, $deadline);
            if ($failure !== null) {
                return $failure;
            }
        }
        $this->metrics->bytes += $sent;
        return null;
    }

    /**
     * Suspends the current fiber until the client is writable. Returns null then, or the failure that ends the stream,
     * usually a timeout. The deadline is in nanoseconds of CLOCK_MONOTONIC.
     */
    public function awaitWritable(int $client, int $deadline): ?StreamFailure
    {
        $fiber = Fiber::getCurrent();
        $left = intdiv(max(0, $deadline - hrtime(true)), 1_000_000) + 1;
        $watcher = $this->loop->onWritable(
            $client,
            static fn () => $fiber->resume(),
            static fn () => $fiber->resume(StreamFailure::Other),
        );
        $timer = $this->loop->delay($left, static fn () => $fiber->resume(StreamFailure::Timeout));
        $failure = Fiber::suspend();
        $this->loop->cancel($watcher);
        $this->loop->cancel($timer);
        return $failure;
    }
}
