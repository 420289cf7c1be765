<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

use Closure;
use Fiber;

/**
 * A fiber for each stream, which reads like a program for one client.
 *
 * A fiber that waits costs a page of C stack, a page of PHP's stack, about 1 KB of objects, and two memory mappings.
 * One that has finished takes the next stream, which spares 10 µs and more for its mappings and page faults.
 */
final class FiberEngine implements Engine
{
    /** So many fibers are kept for later streams. */
    private const SPARE = 1024;

    /** @var list<Fiber> */
    private array $spare = [];
    private readonly Closure $body;

    public function __construct(
        private readonly Answer $answer,
        private readonly DueQueue $queue,
        private readonly Writer $writer,
    ) {
        $this->body = $this->live(...);
    }

    public function serve(Stream $stream, ?StreamFailure $failure = null): void
    {
        $fiber = array_pop($this->spare);
        if ($fiber === null) {
            (new Fiber($this->body))->start($stream);
        } else {
            $fiber->resume($stream);
        }
    }

    /** The life of a fiber: one stream after another. */
    private function live(?Stream $stream): void
    {
        while ($stream !== null) {
            try {
                $this->answer($stream);
                $this->writer->complete($stream);
            } catch (StreamFailed $failed) {
                $this->writer->fail($stream, $failed->failure);
            }
            $stream = $failed = null;
            if (count($this->spare) < self::SPARE) {
                $this->spare[] = Fiber::getCurrent();
                $stream = Fiber::suspend();
            }
        }
    }

    /** @throws StreamFailed */
    private function answer(Stream $stream): void
    {
        $this->write($stream->client, $stream->head);
        $stream->head = '';
        $inARow = 0;
        for ($number = 1; $number <= $this->answer->messages; $number++) {
            $due = $stream->started + $this->answer->offset($number);
            if ($due > hrtime(true)) {
                $this->queue->add($due, Fiber::getCurrent());
                Fiber::suspend();
                $inARow = 0;
            } elseif (++$inARow === self::WRITES_IN_A_ROW) {
                $this->queue->soon(Fiber::getCurrent());
                Fiber::suspend();
                $inARow = 0;
            }
            $this->write($stream->client, $this->answer->write($number, $stream->greeting, $stream->userId));
            $this->writer->countEvent($stream, $number);
        }
    }

    /**
     * Writes everything, waiting for the client as long as it may take.
     *
     * @throws StreamFailed
     */
    private function write(int $client, string $bytes): void
    {
        $rest = $this->writer->send($client, $bytes);
        if ($rest === '') {
            return;
        }
        $deadline = $this->writer->deadline();
        do {
            $this->writer->awaitRoom($client, $deadline, Fiber::getCurrent());
            $failure = Fiber::suspend();
            if ($failure !== null) {
                throw new StreamFailed($failure);
            }
            $rest = $this->writer->send($client, $rest);
        } while ($rest !== '');
    }
}
