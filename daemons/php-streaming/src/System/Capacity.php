<?php

declare(strict_types=1);

namespace Drover\Streaming\System;

/** The maximum number of open streams, and the limit that determines it. */
final class Capacity
{
    public function __construct(public readonly int $streams, public readonly ?string $limit)
    {
    }

    public function atMost(int $room, string $limit): self
    {
        return $room < $this->streams ? new self(max(1, $room), $limit) : $this;
    }
}
