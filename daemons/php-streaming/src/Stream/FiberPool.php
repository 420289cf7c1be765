<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

use Closure;
use Drover\Streaming\Handoff\Request;
use Drover\Streaming\Metrics\Metrics;
use Fiber;

/**
 * The streams, and the fibers that write them. A fiber makes the due writes of one stream after another. They read like a
 * program for one client.
 *
 * A fiber costs a page of C stack, a page of PHP's stack, about 1 KB of objects, and two memory mappings. So only a
 * stream whose client does not read keeps one; a stream that waits for its time is an entry of the queue, which costs
 * less than 1 KB.
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

    /** Passes a stream with a due write to an idle fiber, or to a new one. */
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
            $this->makeDueWrites($stream);
            $stream = null;
            if (count($this->idle) < self::MAX_IDLE) {
                $this->idle[] = Fiber::getCurrent();
                $stream = Fiber::suspend();
            }
        }
    }

    /** Makes the due writes of a stream, and queues it for the next one, or ends it. */
    private function makeDueWrites(Stream $stream): void
    {
        $failure = null;
        for ($writes = 0; $failure === null && $stream->next <= $this->response->messages; $writes++) {
            $due = $stream->started + $this->response->offset($stream->next);
            if ($due > hrtime(true)) {
                $this->queue->add($due, $stream);
                return;
            }
            if ($writes === self::MAX_CONSECUTIVE_WRITES) {
                $this->queue->addNow($stream);
                return;
            }
            $failure = $this->writer->write($stream->client, $this->response->bytes($stream));
            if ($failure === null) {
                $this->countWrite($stream);
            }
        }
        $this->end($stream, $failure);
    }

    private function end(Stream $stream, ?StreamFailure $failure): void
    {
        // Counted before the close: when the client sees the end, the metrics page includes it.
        if ($failure === null) {
            $this->metrics->streamCompleted(hrtime(true) - $stream->started);
        } else {
            $this->metrics->streamFailed($failure);
        }
        $this->closer->close($stream->client);
    }

    /** Counts a write, unless it is the head. The first event also gives the time to the first event of the backend. */
    private function countWrite(Stream $stream): void
    {
        match ($stream->next) {
            0 => $stream->head = '',
            1 => $this->countFirstEvent($stream),
            default => $this->metrics->chunks++,
        };
        $stream->next++;
    }

    private function countFirstEvent(Stream $stream): void
    {
        $this->metrics->chunks++;
        $this->metrics->firstEvent->record(hrtime(true) - $stream->started);
        $stream->greeting = '';
    }
}
