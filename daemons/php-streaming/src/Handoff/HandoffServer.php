<?php

declare(strict_types=1);

namespace Drover\Streaming\Handoff;

use Closure;
use Drover\Streaming\Log;
use Drover\Streaming\Loop\EpollDriver;
use Drover\Streaming\Metrics\Metrics;
use Drover\Streaming\Options\SocketType;
use Drover\Streaming\Stream\Closer;
use Drover\Streaming\Stream\DelayQueue;
use Drover\Streaming\Stream\FiberPool;
use Drover\Streaming\Stream\ResponseHead;
use Drover\Streaming\System\System;
use UnexpectedValueException;

/** The server of the handoff socket. It accepts connections, reads handoffs, and starts their streams. */
final class HandoffServer
{
    /** The maximum number of handoffs accepted before the due writes are made. */
    private const BATCH = 64;
    /** The slice of writes while more than a batch of handoffs waits. Accepting has priority then: the accept queue is
     * short and refuses handoffs when it is full, while a write can be late. */
    private const SLICE_UNDER_BACKLOG = 16;
    /** The time limit for the payload of a sender, in milliseconds. */
    private const RECEIVE_TIMEOUT = 5_000;
    /** The pause in accepting after the process ran out of descriptors, in milliseconds. Retrying at once would spin,
     * because the connection stays in the queue. */
    private const PAUSE = 10;

    private readonly Log $log;
    private ?string $watcher = null;
    private ?string $pause = null;
    private bool $isStopping = false;
    private bool $isOver = false;

    public function __construct(
        private readonly System $system,
        private readonly EpollDriver $loop,
        private readonly Listener $listener,
        private readonly SocketType $type,
        private readonly FiberPool $fibers,
        private readonly Closer $closer,
        private readonly DelayQueue $queue,
        private readonly Metrics $metrics,
        /** The maximum number of open streams. */
        private readonly int $capacity,
    ) {
        $this->log = new Log();
        $this->watch();
    }

    /** Refuses new handoffs. Those in the accept queue are still accepted. */
    public function stop(): void
    {
        $this->isStopping = true;
        $this->listener->refuseFurther();
    }

    /** Returns true once the server is stopped and the accept queue is empty. */
    public function isOver(): bool
    {
        return $this->isOver;
    }

    private function watch(): void
    {
        $this->pause = null;
        $this->watcher = $this->loop->onReadable($this->listener->descriptor, $this->accept(...), $this->pause(...));
    }

    private function unwatch(): void
    {
        $this->loop->cancel((string) $this->watcher);
        $this->watcher = null;
    }

    private function accept(): void
    {
        $hasBacklog = true;
        for ($taken = 0; $taken < self::BATCH && $hasBacklog && $this->watcher !== null; $taken++) {
            $connection = $this->system->accept($this->listener->descriptor);
            if ($connection >= 0) {
                $this->metrics->connectionOpened();
                $this->read(new HandoffConnection($this->system, $connection, hrtime(true)));
            } else {
                $hasBacklog = $this->acceptFailed(-$connection);
            }
        }
        // Above 31/32 of the capacity, streams must end before more start: leaving senders in the accept queue is
        // better than turning their clients away.
        $isNearCapacity = $this->metrics->activeStreams > $this->capacity - intdiv($this->capacity, 32);
        $this->queue->slice = match (true) {
            $isNearCapacity => 4 * DelayQueue::SLICE,
            $hasBacklog => self::SLICE_UNDER_BACKLOG,
            default => DelayQueue::SLICE,
        };
    }

    /** Handles an error of accept. Returns true if accepting can be retried at once. */
    private function acceptFailed(int $error): bool
    {
        switch ($error) {
            case System::EINTR:
            case System::ECONNABORTED:
                return true;
            case System::EAGAIN:
            case System::EINVAL:
                // A listener stays readable after its shutdown. The error then depends on the kernel.
                if ($this->isStopping) {
                    $this->unwatch();
                    $this->isOver = true;
                }
                return false;
            default:
                $failure = HandoffFailure::OutOfDescriptors;
                $this->metrics->handoffAnomaly($failure);
                $this->log->warn("accepting: {$failure->explain()} (" . posix_strerror($error) . ')');
                $this->pause();
                return false;
        }
    }

    private function pause(): void
    {
        if ($this->pause === null && $this->watcher !== null) {
            $this->unwatch();
            $this->pause = $this->loop->delay(self::PAUSE, $this->watch(...));
        }
    }

    /** Reads a handoff connection. Its message has usually arrived. */
    private function read(HandoffConnection $connection): void
    {
        $result = $connection->read($this->type);
        if ($result === true) {
            $this->finish($connection);
        } elseif ($result === false) {
            $this->await($connection);
        } else {
            $this->refuse($connection, $result);
        }
    }

    /** Waits for the rest of a message, without blocking other handoffs. */
    private function await(HandoffConnection $connection): void
    {
        $watcher = $timer = '';
        $once = function (Closure $then) use (&$watcher, &$timer, $connection): void {
            $this->loop->cancel($watcher);
            $this->loop->cancel($timer);
            $then($connection);
        };
        $left = self::RECEIVE_TIMEOUT - intdiv(hrtime(true) - $connection->accepted, 1_000_000);
        $watcher = $this->loop->onReadable(
            $connection->descriptor,
            fn () => $once($this->read(...)),
            fn () => $once(fn () => $this->refuse($connection, HandoffFailure::Other)),
        );
        $timer = $this->loop->delay(max(0, $left), fn () => $once($this->timeOut(...)));
    }

    /** Handles the timeout of a handoff. A client whose payload is incomplete is served with the defaults. */
    private function timeOut(HandoffConnection $connection): void
    {
        if ($connection->client === null) {
            $this->refuse($connection, HandoffFailure::Timeout);
        } else {
            $this->finish($connection);
        }
    }

    /** Starts the stream of a complete handoff if it is valid and a slot is free. */
    private function finish(HandoffConnection $connection): void
    {
        $client = $connection->client;
        if ($client === null || !$this->system->isStreamSocket($client)) {
            $failure = $client === null ? HandoffFailure::NoDescriptor : HandoffFailure::NotAStreamSocket;
            $this->refuse($connection, $failure);
            return;
        }
        // Without this the second event would wait for the acknowledgement of the first, up to 40 ms.
        $this->system->setNoDelay($client);
        $connection->client = null;
        $connection->close();
        if ($connection->hasSurplus) {
            $this->anomaly(HandoffFailure::SurplusDescriptors);
        }
        $request = $this->request($connection->payload);
        $now = hrtime(true);
        $this->metrics->handoffDone($now - $connection->accepted);
        if ($this->metrics->tryStartStream($this->capacity)) {
            $this->fibers->add($client, $request, $now);
        } else {
            // A fresh socket takes the response at once; if it does not, the client only sees the close. More may be on
            // its way from a client that has just connected.
            $this->system->send($client, ResponseHead::REFUSAL);
            $this->closer->linger($client);
        }
    }

    /** Returns the request of a payload. An invalid payload is counted and logged, and gives the default request. */
    private function request(string $payload): Request
    {
        try {
            $request = Request::parse($payload);
            $reason = 'it is incomplete';
        } catch (UnexpectedValueException $invalid) {
            $request = null;
            $reason = $invalid->getMessage();
        }
        if ($request === null) {
            $this->anomaly(HandoffFailure::InvalidJson, ": $reason");
        }
        return $request ?? new Request();
    }

    /** Counts and logs an irregularity of a handoff that leads to a stream nevertheless. */
    private function anomaly(HandoffFailure $failure, string $reason = ''): void
    {
        $this->metrics->handoffAnomaly($failure);
        $this->log->warn($failure->explain() . $reason);
    }

    private function refuse(HandoffConnection $connection, HandoffFailure $failure): void
    {
        $connection->close();
        $this->metrics->handoffFailed($failure);
        if ($failure !== HandoffFailure::Empty) {
            $this->log->warn("handoff refused: {$failure->explain()}");
        }
        if ($failure === HandoffFailure::Truncated) {
            $this->pause();
        }
    }
}
