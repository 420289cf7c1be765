<?php

declare(strict_types=1);

namespace Drover\Streaming\Loop;

use Drover\Streaming\StartFailed;
use Drover\Streaming\System\System;
use Revolt\EventLoop;

/** Which event loop there is. */
final class Loops
{
    private const EXTENSIONS = ['ffi', 'pcntl', 'posix'];

    /** @throws StartFailed without any */
    public static function make(System $system): Loop
    {
        return self::isRevolt() ? new RevoltLoop($system) : new AmpLoop($system);
    }

    /**
     * What the loop is, for people.
     *
     * @throws StartFailed without any, or without an extension that it needs
     */
    public static function describe(): string
    {
        foreach (self::EXTENSIONS as $extension) {
            if (!extension_loaded($extension)) {
                throw new StartFailed("PHP lacks the extension $extension: install php8.2-common and php8.2-cli");
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
