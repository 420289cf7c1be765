<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

use Closure;
use Drover\Streaming\Handoff\Request;
use Drover\Streaming\Metrics\Metrics;
use Fiber;

/**
 * One fiber per open stream, which reads like a program for one client.
 *
 * A waiting fiber costs a page of C stack, a page of PHP's stack, about 1 KB of objects, and two memory mappings. A
 * finished fiber is reused for the next stream, which saves at least 10 µs for mappings and page faults.
 */
final class FiberPool
{
    /** The maximum number of finished fibers kept for later streams. */
    private const MAX_IDLE = 1024;
    /** The maximum number of consecutive due writes of one stream, before other streams continue. */
    private const MAX_CONSECUTIVE_WRITES = 32;

    /** @var list<Fiber> */
    private array $idle = [];
    private readonly Closure $body;

    public function __construct(
        private readonly Closer $closer,
        private readonly Metrics $metrics,
        private readonly Response $response,
        private readonly DelayQueue $queue,
        private readonly Writer $writer,
    ) {
        $this->body = $this->runFiber(...);
    }

    /** Queues a new stream. Its fiber starts with its first write. `$now` is in nanoseconds of CLOCK_MONOTONIC. */
    public function add(int $client, Request $request, int $now): void
    {
        $head = $this->response->head($request);
        $greeting = $this->response->greeting($request);
        $this->queue->addNow(new Stream($this, $client, $request->userId, $now, $head, $greeting));
    }

    /** Passes a stream to an idle fiber, or to a new one. */
    public function serve(Stream $stream): void
    {
        $fiber = array_pop($this->idle);
        if ($fiber === null) {
            (new Fiber($this->body))->start($stream);
        } else {
            $fiber->resume($stream);
        }
    }

    /** Serves one stream after another. This is the body of every fiber. */
    private function runFiber(?Stream $stream): void
    {
        while ($stream !== null) {
            $failure = $this->respond($stream);
            // Counted before the close: when the client sees the end, the metrics page includes it.
            if ($failure === null) {
                $this->metrics->streamCompleted(hrtime(true) - $stream->started);
            } else {
                $this->metrics->streamFailed($failure);
            }
            $this->closer->close($stream->client);
            $stream = null;
            if (count($this->idle) < self::MAX_IDLE) {
                $this->idle[] = Fiber::getCurrent();
                $stream = Fiber::suspend();
            }
        }
    }

    /** Makes all writes of a stream at their due times. Returns the failure that ends it early, or null. */
    private function respond(Stream $stream): ?StreamFailure
    {
        $failure = $this->writer->write($stream->client, $stream->head);
        $stream->head = '';
        $consecutive = 0;
        for ($number = 1; $failure === null && $number <= $this->response->messages; $number++) {
            $due = $stream->started + $this->response->offset($number);
            if ($due > hrtime(true)) {
                $this->queue->add($due, Fiber::getCurrent());
                Fiber::suspend();
                $consecutive = 0;
            } elseif (++$consecutive === self::MAX_CONSECUTIVE_WRITES) {
                $this->queue->addNow(Fiber::getCurrent());
                Fiber::suspend();
                $consecutive = 0;
            }
            $failure = $this->writer->write(
                $stream->client,
                $this->response->event($number, $stream->greeting, $stream->userId),
            );
            if ($failure === null) {
                $this->countEvent($stream, $number);
            }
        }
        return $failure;
    }

    /** Counts a sent event. The first one also gives the time to the first event of the backend. */
    private function countEvent(Stream $stream, int $number): void
    {
        $this->metrics->chunks++;
        if ($number === 1) {
            $this->metrics->firstEvent->record(hrtime(true) - $stream->started);
            $stream->greeting = '';
        }
    }
}
