<?php

declare(strict_types=1);

namespace Drover\Streaming\Loop;

use Drover\Streaming\StartFailed;
use Drover\Streaming\System\System;
use Revolt\EventLoop;

/** Which event loop there is. */
final class Loops
{
    /** @throws StartFailed without any */
    public static function make(System $system): Loop
    {
        return match (true) {
            class_exists(EventLoop::class) => new RevoltLoop($system),
            class_exists(\Amp\Loop::class) => new AmpLoop($system),
            default => throw new StartFailed(
                'no event loop: install the Debian package php-amphp-amp, or run `composer install` in ' . dirname(__DIR__, 2),
            ),
        };
    }
}
