<?php

declare(strict_types=1);

namespace Drover\Streaming\Loop;

use Closure;

/**
 * What the daemon needs of an event loop. Descriptors are bare numbers: none of them is a PHP stream.
 *
 * Callbacks get no arguments. Before a watched descriptor is closed, its watcher is cancelled. Where the kernel refuses
 * to watch one, which it does for want of memory above all, `$refused` is called once in place of the callback; the
 * watcher has to be cancelled even so.
 */
interface Loop
{
    /** Runs until `stop`. */
    public function run(): void;

    public function stop(): void;

    /** Has the loop call back in its next round. */
    public function defer(Closure $callback): void;

    /** Calls back once, no earlier than after so many milliseconds. */
    public function delay(int $milliseconds, Closure $callback): string;

    /** Calls back again and again. */
    public function repeat(int $milliseconds, Closure $callback): string;

    /** Calls back as long as there is something to read, or the other end has closed. */
    public function onReadable(int $descriptor, Closure $callback, Closure $refused): string;

    /** Calls back as long as there is room to write, or the other end has closed. */
    public function onWritable(int $descriptor, Closure $callback, Closure $refused): string;

    /** Calls back for each such signal. From now on it does nothing else, even before the loop runs. */
    public function onSignal(int $signal, Closure $callback): string;

    /** Ends a timer or a watcher; one that has ended already is no error. */
    public function cancel(string $id): void;
}
