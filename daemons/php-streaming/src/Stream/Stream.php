<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

/** The response to one client. Fibers of the pool make its writes. */
final class Stream
{
    /** The number of the next write; 0 is the head. */
    public int $next = 0;

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

    /** Makes the due writes. */
    public function resume(): void
    {
        $this->fibers->serve($this);
    }
}
