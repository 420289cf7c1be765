<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

/** Streams as objects in a queue, without fibers: each turn makes the writes that are due, and says where it stopped. */
final class QueueEngine implements Engine
{
    public function __construct(
        private readonly Answer $answer,
        private readonly DueQueue $queue,
        private readonly Writer $writer,
    ) {
    }

    public function serve(Stream $stream, ?StreamFailure $failure = null): void
    {
        try {
            if ($failure !== null) {
                throw new StreamFailed($failure);
            }
            if ($this->goOn($stream)) {
                $this->writer->complete($stream);
            }
        } catch (StreamFailed $failed) {
            $this->writer->fail($stream, $failed->failure);
        }
    }

    /**
     * Writes on. Returns whether the stream is over; if it is not, it waits somewhere.
     *
     * @throws StreamFailed
     */
    private function goOn(Stream $stream): bool
    {
        for ($inARow = 0; $inARow <= self::WRITES_IN_A_ROW; $inARow++) {
            if ($stream->rest === '') {
                if ($stream->write > $this->answer->messages) {
                    return true;
                }
                $due = $stream->started + $this->answer->offset($stream->write);
                if ($due > hrtime(true)) {
                    $this->queue->add($due, $stream);
                    return false;
                }
                $stream->rest = $this->bytes($stream);
            }
            if (!$this->write($stream)) {
                return false;
            }
        }
        $this->queue->soon($stream);
        return false;
    }

    private function bytes(Stream $stream): string
    {
        return $stream->write === 0
            ? $stream->head
            : $this->answer->write($stream->write, $stream->greeting, $stream->userId);
    }

    /**
     * Sends what is left of the current write. Returns whether that is done; if it is not, the stream waits.
     *
     * @throws StreamFailed
     */
    private function write(Stream $stream): bool
    {
        $stream->rest = $this->writer->send($stream->client, $stream->rest);
        if ($stream->rest !== '') {
            $stream->deadline = $stream->deadline !== 0 ? $stream->deadline : $this->writer->deadline();
            $this->writer->awaitRoom($stream->client, $stream->deadline, $stream);
            return false;
        }
        $stream->deadline = 0;
        if ($stream->write === 0) {
            $stream->head = '';
        } else {
            $this->writer->countEvent($stream, $stream->write);
        }
        $stream->write++;
        return true;
    }
}
