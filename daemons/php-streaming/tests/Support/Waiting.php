<?php

declare(strict_types=1);

namespace Drover\Streaming\Tests\Support;

/** Waits for a condition, with a generous limit. */
final class Waiting
{
    private const LIMIT_S = 30;

    public static function until(string $what, \Closure $condition): void
    {
        $deadline = hrtime(true) + self::LIMIT_S * 1_000_000_000;
        while (!$condition()) {
            if (hrtime(true) > $deadline) {
                throw new \RuntimeException("timed out waiting for $what");
            }
            usleep(2_000);
        }
    }
}
