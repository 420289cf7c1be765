<?php

declare(strict_types=1);

namespace Drover\Streaming\Loop;

use Closure;

/**
 * The event loop interface of the daemon. Descriptors are bare numbers, not PHP streams.
 *
 * Callbacks get no arguments. A watcher must be cancelled before its descriptor is closed. If the kernel refuses to
 * watch a descriptor, mainly for lack of memory, `$refused` is called once instead of the callback; the watcher must be
 * cancelled nevertheless.
 */
interface Loop
{
    /** Runs until `stop`. */
    public function run(): void;

    public function stop(): void;

    /** Calls back in the next iteration of the loop. */
    public function defer(Closure $callback): void;

    /** Calls back once, not before `$milliseconds` have passed. */
    public function delay(int $milliseconds, Closure $callback): string;

    /** Calls back repeatedly, every `$milliseconds`. */
    public function repeat(int $milliseconds, Closure $callback): string;

    /** Calls back while data can be read or the other end has closed. */
    public function onReadable(int $descriptor, Closure $callback, Closure $refused): string;

    /** Calls back while data can be written or the other end has closed. */
    public function onWritable(int $descriptor, Closure $callback, Closure $refused): string;

    /** Calls back for each such signal. The signal's default action is disabled at once, even before the loop runs. */
    public function onSignal(int $signal, Closure $callback): string;

    /** Cancels a timer or a watcher. Cancelling an ended one is allowed. */
    public function cancel(string $id): void;
}
