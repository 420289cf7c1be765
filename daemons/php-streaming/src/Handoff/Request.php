<?php

declare(strict_types=1);

namespace Drover\Streaming\Handoff;

/** The decoded payload of a handoff. */
final class Request
{
    /** @param array<string> $responseHeaders values by name */
    public function __construct(
        public readonly int $userId = 0,
        public readonly string $prompt = '',
        public readonly array $responseHeaders = [],
    ) {
    }
}
