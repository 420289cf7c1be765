<?php

declare(strict_types=1);

namespace Drover\Streaming\Handoff;

use Closure;
use Drover\Streaming\Log;
use Drover\Streaming\Loop\Loop;
use Drover\Streaming\Metrics\Metrics;
use Drover\Streaming\Options\SocketType;
use Drover\Streaming\Stream\Answer;
use Drover\Streaming\Stream\DueQueue;
use Drover\Streaming\Stream\Engine;
use Drover\Streaming\Stream\Head;
use Drover\Streaming\Stream\Stream;
use Drover\Streaming\System\System;

/** Accepts handoffs, and makes streams of them. */
final class Intake
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

    private ?string $watcher = null;
    private ?string $pause = null;
    private bool $isStopping = false;
    private bool $isOver = false;

    public function __construct(
        private readonly System $system,
        private readonly Loop $loop,
        private readonly Listener $listener,
        private readonly SocketType $type,
        private readonly Answer $answer,
        private readonly Engine $engine,
        private readonly DueQueue $queue,
        private readonly Metrics $metrics,
        private readonly Log $log,
        private readonly int $capacity,
    ) {
        $this->watch();
    }

    /** Refuses new handoffs. Those in the accept queue are still accepted. */
    public function stop(): void
    {
        $this->isStopping = true;
        $this->listener->refuseFurther();
    }

    /** Returns whether the intake is stopped and the accept queue is empty. */
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
                $this->read(new Incoming($this->system, $connection, hrtime(true)));
            } else {
                $hasBacklog = $this->acceptFailed(-$connection);
            }
        }
        // Above 31/32 of the capacity, streams must end before more start: leaving senders in the accept queue is
        // better than turning their clients away.
        $isNearCapacity = $this->metrics->activeStreams > $this->capacity - intdiv($this->capacity, 32);
        $this->queue->slice = match (true) {
            $isNearCapacity => 4 * DueQueue::SLICE,
            $hasBacklog => self::SLICE_UNDER_BACKLOG,
            default => DueQueue::SLICE,
        };
    }

    /** Handles an error of accept. Returns whether to retry at once. */
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
    private function read(Incoming $incoming): void
    {
        try {
            if ($incoming->read($this->type)) {
                $this->finish($incoming);
            } else {
                $this->await($incoming);
            }
        } catch (HandoffRefused $refused) {
            $this->refuse($incoming, $refused->failure);
        }
    }

    /** Waits for the rest of a message, without blocking other handoffs. */
    private function await(Incoming $incoming): void
    {
        $watcher = $timer = '';
        $once = function (Closure $then) use (&$watcher, &$timer, $incoming): void {
            $this->loop->cancel($watcher);
            $this->loop->cancel($timer);
            $then($incoming);
        };
        $left = self::RECEIVE_TIMEOUT - intdiv(hrtime(true) - $incoming->accepted, 1_000_000);
        $watcher = $this->loop->onReadable(
            $incoming->connection,
            fn () => $once($this->read(...)),
            fn () => $once(fn (Incoming $incoming) => $this->refuse($incoming, HandoffFailure::Other)),
        );
        $timer = $this->loop->delay(max(0, $left), fn () => $once($this->giveUp(...)));
    }

    /** Handles the timeout of a handoff. A client whose payload is incomplete is served with the defaults. */
    private function giveUp(Incoming $incoming): void
    {
        if ($incoming->client === null) {
            $this->refuse($incoming, HandoffFailure::Timeout);
            return;
        }
        try {
            $this->finish($incoming);
        } catch (HandoffRefused $refused) {
            $this->refuse($incoming, $refused->failure);
        }
    }

    /**
     * Starts the stream of a complete handoff if it is valid and a slot is free.
     *
     * @throws HandoffRefused
     */
    private function finish(Incoming $incoming): void
    {
        $client = $incoming->client ?? throw new HandoffRefused(HandoffFailure::NoDescriptor);
        if (!$this->system->isStreamSocket($client)) {
            throw new HandoffRefused(HandoffFailure::NotAStreamSocket);
        }
        // Without this the second event would wait for the acknowledgement of the first, up to 40 ms.
        $this->system->setNoDelay($client);
        $incoming->client = null;
        $incoming->close();
        if ($incoming->hasSurplus) {
            $this->anomaly(HandoffFailure::SurplusDescriptors);
        }
        $request = $this->request($incoming->payload);
        $now = hrtime(true);
        $this->metrics->handoffDone($now - $incoming->accepted);
        if ($this->metrics->tryStartStream($this->capacity)) {
            $head = $this->answer->head($request);
            $greeting = $this->answer->greeting($request);
            $this->queue->addNow(new Stream($this->engine, $client, $request->userId, $now, $head, $greeting));
        } else {
            // A fresh socket takes the answer at once; if it does not, the client only sees the close.
            $this->system->send($client, Head::REFUSAL);
            $this->system->close($client);
        }
    }

    /** Returns the request of a payload. An invalid payload is counted and logged, and gives the default request. */
    private function request(string $payload): Request
    {
        try {
            $request = Payload::parse($payload);
            $reason = 'it is incomplete';
        } catch (InvalidPayload $invalid) {
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

    private function refuse(Incoming $incoming, HandoffFailure $failure): void
    {
        $incoming->close();
        $this->metrics->handoffFailed($failure);
        if ($failure !== HandoffFailure::Empty) {
            $this->log->warn("handoff refused: {$failure->explain()}");
        }
        if ($failure === HandoffFailure::Truncated) {
            $this->pause();
        }
    }
}
