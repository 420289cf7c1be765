<?php

declare(strict_types=1);

namespace Drover\Streaming\Loop;

use Drover\Streaming\StartFailed;
use Drover\Streaming\System\System;
use Revolt\EventLoop;

/** Selects the installed event loop. */
final class Loops
{
    private const EXTENSIONS = ['ffi', 'pcntl', 'posix'];

    /** @throws StartFailed if no event loop is installed */
    public static function make(System $system): Loop
    {
        return self::isRevolt() ? new RevoltLoop($system) : new AmpLoop($system);
    }

    /**
     * Returns the name of the event loop, for the version output.
     *
     * @throws StartFailed if no event loop or not every required extension is installed
     */
    public static function describe(): string
    {
        foreach (self::EXTENSIONS as $extension) {
            if (!extension_loaded($extension)) {
                throw new StartFailed("the PHP extension $extension is missing: install php8.2-common and php8.2-cli");
            }
        }
        return self::isRevolt() ? 'AMP 3' : 'AMP 2';
    }

    private static function isRevolt(): bool
    {
        return match (true) {
            class_exists(EventLoop::class) => true,
            class_exists(\Amp\Loop::class) => false,
            default => throw new StartFailed('no event loop: install the Debian package php-amphp-amp, or run '
                . '`composer install` in ' . dirname(__DIR__, 2)),
        };
    }
}
