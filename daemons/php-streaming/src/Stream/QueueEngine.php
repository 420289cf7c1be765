<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

/** Streams as objects in a queue, without fibers. Each step makes the due writes and stores the position. */
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
            if ($this->makeDueWrites($stream)) {
                $this->writer->complete($stream);
            }
        } catch (StreamFailed $failed) {
            $this->writer->fail($stream, $failed->failure);
        }
    }

    /**
     * Makes the due writes. Returns whether the stream has ended; if not, it is queued.
     *
     * @throws StreamFailed
     */
    private function makeDueWrites(Stream $stream): bool
    {
        for ($consecutive = 0; $consecutive <= self::MAX_CONSECUTIVE_WRITES; $consecutive++) {
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
        $this->queue->addNow($stream);
        return false;
    }

    private function bytes(Stream $stream): string
    {
        return $stream->write === 0
            ? $stream->head
            : $this->answer->write($stream->write, $stream->greeting, $stream->userId);
    }

    /**
     * Sends the rest of the current write. Returns whether it is complete; if not, the stream waits for the client.
     *
     * @throws StreamFailed
     */
    private function write(Stream $stream): bool
    {
        $stream->rest = $this->writer->send($stream->client, $stream->rest);
        if ($stream->rest !== '') {
            $stream->deadline = $stream->deadline !== 0 ? $stream->deadline : $this->writer->deadline();
            $this->writer->awaitWritable($stream->client, $stream->deadline, $stream);
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
