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

/** Takes handoffs, and makes streams of them. */
final class Intake
{
    /** So many handoffs are taken before writes get a turn. */
    private const BATCH = 64;
    /** While more than a batch waits, accepting takes most of the time: the accept queue is short, and a full one
     * refuses handoffs, while a write can be late. */
    private const SLICE_IN_A_RUSH = 16;
    /** How long a sender may take for its payload, in milliseconds. */
    private const RECEIVE_TIMEOUT = 5_000;
    /** How long nothing is accepted after the process ran out of descriptors, in milliseconds: to try again at once
     * would spin, for the connection stays in the queue. */
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

    /** Refuses further handoffs; those that wait in the accept queue are still taken. */
    public function stop(): void
    {
        $this->isStopping = true;
        $this->listener->refuseFurther();
    }

    /** Whether it was stopped and nothing waits any more. */
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
        $isRush = true;
        for ($taken = 0; $taken < self::BATCH && $isRush && $this->watcher !== null; $taken++) {
            $connection = $this->system->accept($this->listener->descriptor);
            if ($connection >= 0) {
                $this->metrics->connectionOpened();
                $this->read(new Incoming($this->system, $connection, hrtime(true)));
            } else {
                $isRush = $this->acceptFailed(-$connection);
            }
        }
        // From 31/32 of the places on, streams have to end before more begin: it is better to leave senders in the
        // accept queue than to turn their clients away.
        $isCrowded = $this->metrics->activeStreams > $this->capacity - intdiv($this->capacity, 32);
        $this->queue->slice = match (true) {
            $isCrowded => 4 * DueQueue::SLICE,
            $isRush => self::SLICE_IN_A_RUSH,
            default => DueQueue::SLICE,
        };
    }

    /** Returns whether to try again at once. */
    private function acceptFailed(int $error): bool
    {
        switch ($error) {
            case System::EINTR:
            case System::ECONNABORTED:
                return true;
            case System::EAGAIN:
            case System::EINVAL:
                // A listener that was shut down stays readable. Its last answer depends on the kernel.
                if ($this->isStopping) {
                    $this->unwatch();
                    $this->isOver = true;
                }
                return false;
            default:
                $failure = HandoffFailure::OutOfDescriptors;
                $this->metrics->handoffFlaw($failure);
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

    /** Reads a handoff connection. The message is mostly there already. */
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

    /** Waits for a sender, and keeps nobody else waiting. */
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

    /** A client that came without its whole payload is served with the defaults. */
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
     * Begins the stream of a whole handoff, if it is in order and there is a place for it.
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
            $this->flaw(HandoffFailure::SurplusDescriptors);
        }
        $request = $this->request($incoming->payload);
        $now = hrtime(true);
        $this->metrics->handoffDone($now - $incoming->accepted);
        if ($this->metrics->tryStartStream($this->capacity)) {
            $head = $this->answer->head($request);
            $greeting = $this->answer->greeting($request);
            $this->queue->soon(new Stream($this->engine, $client, $request->userId, $now, $head, $greeting));
        } else {
            // A fresh socket takes it at once; to one that does not, the close has to say it.
            $this->system->send($client, Head::REFUSAL);
            $this->system->close($client);
        }
    }

    /** The request of a payload; the default one, counted and logged, if there is none in it. */
    private function request(string $payload): Request
    {
        try {
            $request = Payload::parse($payload);
            $reason = 'it ends in the middle';
        } catch (InvalidPayload $invalid) {
            $request = null;
            $reason = $invalid->getMessage();
        }
        if ($request === null) {
            $this->flaw(HandoffFailure::InvalidJson, ": $reason");
        }
        return $request ?? new Request();
    }

    private function flaw(HandoffFailure $failure, string $reason = ''): void
    {
        $this->metrics->handoffFlaw($failure);
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
