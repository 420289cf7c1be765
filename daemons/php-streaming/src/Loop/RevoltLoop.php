<?php

declare(strict_types=1);

namespace Drover\Streaming\Loop;

use Closure;
use Drover\Streaming\System\System;
use Revolt\EventLoop;

/**
 * The event loop of AMP 3, which is Revolt, with any of its drivers.
 *
 * Revolt sees a single descriptor: an epoll instance that watches all others. An epoll instance is itself readable when
 * one of its descriptors is ready. The limits of the drivers therefore do not matter, such as the 1,024 descriptors of
 * `stream_select`.
 */
final class RevoltLoop implements Loop
{
    private const STACK_BYTES = '524288';

    private readonly Epoll $epoll;
    /** @var resource the epoll instance as a PHP stream, which Revolt requires */
    private $stream;
    /** @var array<int, array<string, array{int, Closure}>> interest and callback, by descriptor and watcher */
    private array $watchers = [];
    /** @var array<string, int> the descriptor of each watcher */
    private array $descriptors = [];
    private int $lastId = 0;

    public function __construct(System $system)
    {
        // Revolt runs callbacks in fibers, and they need more stack than a stream.
        ini_set('fiber.stack_size', self::STACK_BYTES);
        $this->epoll = new Epoll($system);
        $stream = fopen("php://fd/{$this->epoll->descriptor}", 'r');
        $this->stream = $stream !== false ? $stream : throw new \RuntimeException('cannot open the epoll instance');
        EventLoop::onReadable($this->stream, $this->dispatch(...));
    }

    public function run(): void
    {
        EventLoop::run();
    }

    public function stop(): void
    {
        EventLoop::getDriver()->stop();
    }

    public function defer(Closure $callback): void
    {
        EventLoop::defer(self::plain($callback));
    }

    public function delay(int $milliseconds, Closure $callback): string
    {
        return EventLoop::delay($milliseconds / 1e3, self::plain($callback));
    }

    public function repeat(int $milliseconds, Closure $callback): string
    {
        return EventLoop::repeat($milliseconds / 1e3, self::plain($callback));
    }

    public function onReadable(int $descriptor, Closure $callback, Closure $refused): string
    {
        return $this->watch($descriptor, Epoll::READABLE, $callback, $refused);
    }

    public function onWritable(int $descriptor, Closure $callback, Closure $refused): string
    {
        return $this->watch($descriptor, Epoll::WRITABLE, $callback, $refused);
    }

    public function onSignal(int $signal, Closure $callback): string
    {
        // Revolt installs its handler in its first iteration; until then the signal stays pending.
        pcntl_sigprocmask(SIG_BLOCK, [$signal]);
        EventLoop::defer(static fn () => pcntl_sigprocmask(SIG_UNBLOCK, [$signal]));
        return EventLoop::onSignal($signal, self::plain($callback));
    }

    public function cancel(string $id): void
    {
        $descriptor = $this->descriptors[$id] ?? null;
        if ($descriptor === null) {
            EventLoop::cancel($id);
            return;
        }
        unset($this->descriptors[$id], $this->watchers[$descriptor][$id]);
        $this->update($descriptor);
    }

    private function watch(int $descriptor, int $interest, Closure $callback, Closure $refused): string
    {
        // Revolt's own identifiers consist of letters.
        $id = 'epoll-' . ++$this->lastId;
        $this->watchers[$descriptor][$id] = [$interest, $callback];
        $this->descriptors[$id] = $descriptor;
        if (!$this->update($descriptor)) {
            EventLoop::defer(function () use ($id, $refused): void {
                // The watcher may have been cancelled meanwhile.
                if (isset($this->descriptors[$id])) {
                    $refused();
                }
            });
        }
        return $id;
    }

    /** Passes the current interest to the kernel. Returns false if the kernel refuses. */
    private function update(int $descriptor): bool
    {
        $interest = 0;
        foreach ($this->watchers[$descriptor] as [$wanted]) {
            $interest |= $wanted;
        }
        if ($interest === 0) {
            unset($this->watchers[$descriptor]);
        }
        return $this->epoll->watch($descriptor, $interest);
    }

    private function dispatch(): void
    {
        foreach ($this->epoll->wait(0) as $descriptor => $what) {
            foreach ($this->watchers[$descriptor] ?? [] as $id => [$wanted, $callback]) {
                // One callback may have cancelled another.
                if (($wanted & $what) !== 0 && isset($this->descriptors[$id])) {
                    $callback();
                }
            }
        }
    }

    /** Hides the arguments of Revolt from a callback. */
    private static function plain(Closure $callback): Closure
    {
        return static function () use ($callback): void {
            $callback();
        };
    }
}
