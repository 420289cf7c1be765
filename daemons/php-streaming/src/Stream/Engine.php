<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

/** Makes the writes of streams. */
interface Engine
{
    /**
     * The maximum number of consecutive due writes of one stream, before other streams continue.
     */
    public const MAX_CONSECUTIVE_WRITES = 32;

    /**
     * Makes the due writes of a stream, and queues it for the rest. Without fibers this is called for each step of a
     * stream, with fibers only for the first.
     *
     * @param ?StreamFailure $failure the reason to end the stream, if waiting for the client has failed
     */
    public function serve(Stream $stream, ?StreamFailure $failure = null): void;
}
