<?php

declare(strict_types=1);

namespace Drover\Streaming\System;

/** A received message. Its descriptors are open and belong to the owner of the message. */
final class Message
{
    /** @param list<int> $descriptors */
    public function __construct(
        public readonly string $payload,
        public readonly array $descriptors,
        /** True if the record was longer than the buffer. */
        public readonly bool $isPayloadCut,
        /** True if control data was lost: the buffer was too small, or this process had no free descriptor. */
        public readonly bool $isControlCut,
    ) {
    }

    /** Returns true at the end of the connection. An empty record looks the same. */
    public function isEnd(): bool
    {
        return $this->payload === '' && $this->descriptors === [];
    }
}
