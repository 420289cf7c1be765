<?php

declare(strict_types=1);

// A fake of Revolt for machines without it: the calls that the daemon makes, as described in Revolt's documentation. It
// keeps the relevant behaviour: callbacks get an identifier as the first argument, run in their own fiber, which must
// not stay suspended, and start in the iteration after their creation. Streams are real, watched with stream_select.

namespace Revolt;

use Closure;
use Fiber;

final class EventLoop
{
    private static string $nextId = 'a';
    private static bool $isRunning = false;
    /** @var array<string, Closure> activated with the next iteration */
    private static array $activations = [];
    /** @var array<string, Closure> */
    private static array $deferred = [];
    /** @var array<string, array{float, ?float, Closure}> due time, interval */
    private static array $timers = [];
    /** @var array<string, array{resource, Closure}> */
    private static array $readers = [];
    /** @var list<Closure> the callbacks of received signals */
    private static array $signals = [];

    public static function defer(Closure $closure): string
    {
        return self::make(static function (string $id) use ($closure): void {
            self::$deferred[$id] = $closure;
        });
    }

    public static function delay(float $delay, Closure $closure): string
    {
        $due = self::now() + $delay;
        return self::make(static function (string $id) use ($due, $closure): void {
            self::$timers[$id] = [$due, null, $closure];
        });
    }

    public static function repeat(float $interval, Closure $closure): string
    {
        $due = self::now() + $interval;
        return self::make(static function (string $id) use ($due, $interval, $closure): void {
            self::$timers[$id] = [$due, $interval, $closure];
        });
    }

    public static function onReadable(mixed $stream, Closure $closure): string
    {
        is_resource($stream) || throw new \TypeError('a stream is wanted');
        return self::make(static function (string $id) use ($stream, $closure): void {
            self::$readers[$id] = [$stream, $closure];
        });
    }

    public static function onSignal(int $signal, Closure $closure): string
    {
        return self::make(static function (string $id) use ($signal, $closure): void {
            pcntl_signal($signal, static function () use ($id, $signal, $closure): void {
                self::$signals[] = static fn () => self::call($closure, $id, $signal);
            });
        });
    }

    public static function cancel(string $id): void
    {
        unset(self::$activations[$id], self::$deferred[$id], self::$timers[$id], self::$readers[$id]);
    }

    public static function getDriver(): self
    {
        return new self();
    }

    public function stop(): void
    {
        self::$isRunning = false;
    }

    public static function run(): void
    {
        self::$isRunning = true;
        while (self::$isRunning) {
            self::round();
        }
    }

    private static function round(): void
    {
        foreach (self::$activations as $id => $activate) {
            $activate($id);
        }
        self::$activations = [];
        foreach (self::$deferred as $id => $closure) {
            unset(self::$deferred[$id]);
            self::call($closure, $id);
        }
        self::select();
        pcntl_signal_dispatch();
        foreach (self::$signals as $number => $call) {
            unset(self::$signals[$number]);
            $call();
        }
        uasort(self::$timers, static fn (array $one, array $other): int => $one[0] <=> $other[0]);
        foreach (self::$timers as $id => [$due, $interval, $closure]) {
            if ($due <= self::now() && isset(self::$timers[$id])) {
                if ($interval === null) {
                    unset(self::$timers[$id]);
                } else {
                    self::$timers[$id][0] += $interval;
                }
                self::call($closure, $id);
            }
        }
    }

    private static function select(): void
    {
        $dues = array_column(self::$timers, 0);
        $left = self::$activations === [] && self::$isRunning ? 1.0 : 0.0;
        $left = $dues === [] ? $left : max(0.0, min($left, min($dues) - self::now()));
        $read = array_column(self::$readers, 0);
        $write = $except = null;
        // stream_select warns when a signal interrupts it.
        if ($read === [] || (int) @stream_select($read, $write, $except, 0, (int) ($left * 1e6)) === 0) {
            return;
        }
        foreach (self::$readers as $id => [$stream, $closure]) {
            if (in_array($stream, $read, true) && isset(self::$readers[$id])) {
                self::call($closure, $id, $stream);
            }
        }
    }

    private static function make(Closure $activate): string
    {
        $id = self::$nextId++;
        self::$activations[$id] = $activate;
        return $id;
    }

    private static function call(Closure $closure, mixed ...$arguments): void
    {
        $fiber = new Fiber($closure);
        $fiber->start(...$arguments);
        $fiber->isTerminated() || throw new \Error('a callback was left suspended');
    }

    private static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
