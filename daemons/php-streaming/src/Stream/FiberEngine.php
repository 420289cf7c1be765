<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

use Closure;
use Fiber;

/**
 * One fiber per stream, which reads like a program for one client.
 *
 * A waiting fiber costs a page of C stack, a page of PHP's stack, about 1 KB of objects, and two memory mappings. A
 * finished fiber is reused for the next stream, which saves at least 10 µs for mappings and page faults.
 */
final class FiberEngine implements Engine
{
    /** The maximum number of finished fibers kept for later streams. */
    private const SPARE = 1024;

    /** @var list<Fiber> */
    private array $spare = [];
    private readonly Closure $body;

    public function __construct(
        private readonly Answer $answer,
        private readonly DueQueue $queue,
        private readonly Writer $writer,
    ) {
        $this->body = $this->runFiber(...);
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

    /** The body of a fiber, which serves one stream after another. */
    private function runFiber(?Stream $stream): void
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
        $consecutive = 0;
        for ($number = 1; $number <= $this->answer->messages; $number++) {
            $due = $stream->started + $this->answer->offset($number);
            if ($due > hrtime(true)) {
                $this->queue->add($due, Fiber::getCurrent());
                Fiber::suspend();
                $consecutive = 0;
            } elseif (++$consecutive === self::MAX_CONSECUTIVE_WRITES) {
                $this->queue->addNow(Fiber::getCurrent());
                Fiber::suspend();
                $consecutive = 0;
            }
            $this->write($stream->client, $this->answer->write($number, $stream->greeting, $stream->userId));
            $this->writer->countEvent($stream, $number);
        }
    }

    /**
     * Writes everything, and waits for the client within the write timeout.
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
            $this->writer->awaitWritable($client, $deadline, Fiber::getCurrent());
            $failure = Fiber::suspend();
            if ($failure !== null) {
                throw new StreamFailed($failure);
            }
            $rest = $this->writer->send($client, $rest);
        } while ($rest !== '');
    }
}
