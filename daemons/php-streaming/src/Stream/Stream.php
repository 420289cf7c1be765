<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

/** The response to one client. A fiber of the pool writes it. */
final class Stream
{
    public function __construct(
        private readonly FiberPool $fibers,
        public readonly int $client,
        public readonly int $userId,
        /** The start time, in nanoseconds of CLOCK_MONOTONIC. Due times count from here. */
        public readonly int $started,
        /** Both are emptied after they are sent, so that an idle stream does not keep its prompt in memory. */
        public string $head,
        public string $greeting,
    ) {
    }

    /** Starts the stream. The queue calls it as it calls `Fiber::resume`. */
    public function resume(): void
    {
        $this->fibers->serve($this);
    }
}
