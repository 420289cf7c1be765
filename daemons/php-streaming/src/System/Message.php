<?php

declare(strict_types=1);

namespace Drover\Streaming\System;

/** What one receive brought. The descriptors belong to whoever has the message, and are open. */
final class Message
{
    /** @param list<int> $descriptors */
    public function __construct(
        public readonly string $payload,
        public readonly array $descriptors,
        /** The record was longer than the room for it. */
        public readonly bool $isPayloadCut,
        /** Control data was lost: no room for it, or no free descriptor in this process. */
        public readonly bool $isControlCut,
    ) {
    }

    /** Whether this is the end of the connection; an empty record looks the same. */
    public function isEnd(): bool
    {
        return $this->payload === '' && $this->descriptors === [];
    }
}
