<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

/** The answer to one client. The engine makes its writes. */
final class Stream implements Resumable
{
    /** The number of the next write, and the unsent rest of the current one, for engines without fibers. */
    public int $write = 0;
    public string $rest = '';
    /** The deadline of a blocked write; 0 if no write is blocked. */
    public int $deadline = 0;

    public function __construct(
        private readonly Engine $engine,
        public readonly int $client,
        public readonly int $userId,
        /** The start time, in nanoseconds of CLOCK_MONOTONIC. Due times count from here. */
        public readonly int $started,
        /** Both are emptied after they are sent, so that an idle stream does not keep its prompt in memory. */
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
