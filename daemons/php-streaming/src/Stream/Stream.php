<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

/** One client that is being answered. Its turns go to the engine. */
final class Stream implements Turn
{
    /** The number of the next write, and what the client has not taken of it yet: for engines without fibers. */
    public int $write = 0;
    public string $rest = '';
    /** When the write that the client does not take is given up; 0 if there is none. */
    public int $deadline = 0;

    public function __construct(
        private readonly Engine $engine,
        public readonly int $client,
        public readonly int $userId,
        /** When it began, in nanoseconds of CLOCK_MONOTONIC: due times count from here. */
        public readonly int $started,
        /** Both are emptied when they have been sent: a held stream does not pay for its prompt. */
        public string $head,
        public string $greeting,
    ) {
    }

    public function resume(mixed $value = null): mixed
    {
        $this->engine->serve($this, $value);
        return null;
    }
}
