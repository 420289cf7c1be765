<?php

declare(strict_types=1);

namespace Drover\Streaming\Loop;

use Amp\Loop as Amp;
use Closure;
use Drover\Streaming\System\System;

/** The event loop of AMP 2, as packaged by Debian, with an `EpollDriver`. */
final class AmpLoop implements Loop
{
    public function __construct(System $system)
    {
        Amp::set(new EpollDriver($system));
    }

    public function run(): void
    {
        Amp::run();
    }

    public function stop(): void
    {
        Amp::stop();
    }

    public function defer(Closure $callback): void
    {
        Amp::defer(self::plain($callback));
    }

    public function delay(int $milliseconds, Closure $callback): string
    {
        return Amp::delay($milliseconds, self::plain($callback));
    }

    public function repeat(int $milliseconds, Closure $callback): string
    {
        return Amp::repeat($milliseconds, self::plain($callback));
    }

    public function onReadable(int $descriptor, Closure $callback, Closure $refused): string
    {
        return Amp::onReadable($descriptor, self::plain($callback), $refused);
    }

    public function onWritable(int $descriptor, Closure $callback, Closure $refused): string
    {
        return Amp::onWritable($descriptor, self::plain($callback), $refused);
    }

    public function onSignal(int $signal, Closure $callback): string
    {
        // The driver also does this, but not before its first iteration.
        pcntl_sigprocmask(SIG_BLOCK, [$signal]);
        return Amp::onSignal($signal, self::plain($callback));
    }

    public function cancel(string $id): void
    {
        Amp::cancel($id);
    }

    /** Hides the arguments and results of AMP 2 from a callback. */
    private static function plain(Closure $callback): Closure
    {
        return static function () use ($callback): void {
            $callback();
        };
    }
}
