<?php

declare(strict_types=1);

namespace Drover\Streaming\Options;

/** The configuration of the daemon, after validation of the options. Durations are in nanoseconds. */
final class Config
{
    /** @param ?array{string, int} $metricsAddress the address in binary and the port; null: serve no metrics */
    public function __construct(
        public readonly string $socketPath,
        public readonly int $socketMode,
        public readonly SocketType $socketType,
        public readonly int $backlog,
        public readonly int $maxConnections,
        public readonly ?array $metricsAddress,
        public readonly int $messageCount,
        public readonly int $messageDelay,
        public readonly int $writeTimeout,
        public readonly int $shutdownGrace,
        public readonly bool $isBenchmark,
    ) {
    }
}
