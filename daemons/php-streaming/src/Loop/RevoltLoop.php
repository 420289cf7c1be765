<?php

declare(strict_types=1);

namespace Drover\Streaming\Loop;

use Closure;
use Drover\Streaming\System\System;
use Revolt\EventLoop;

/**
 * The loop of AMP 3, which is Revolt, on whatever driver it has.
 *
 * Revolt sees a single descriptor, that of an epoll instance which watches all the others; an epoll instance is
 * readable itself when one of those is ready. So no driver's limit matters, not even the 1,024 of `stream_select`.
 */
final class RevoltLoop implements Loop
{
    private const STACK_BYTES = '524288';

    private readonly Epoll $epoll;
    /** @var resource the epoll instance as a PHP stream, because Revolt takes nothing else */
    private $stream;
    /** @var array<int, array<string, array{int, Closure}>> interest and callback, by descriptor and watcher */
    private array $watchers = [];
    /** @var array<string, int> the descriptor of each watcher */
    private array $descriptors = [];
    private int $lastId = 0;

    public function __construct(System $system)
    {
        // Revolt runs callbacks in fibers, and they do more than a stream does.
        ini_set('fiber.stack_size', self::STACK_BYTES);
        $this->epoll = new Epoll($system);
        $stream = fopen("php://fd/{$this->epoll->descriptor}", 'r');
        $this->stream = $stream !== false ? $stream : throw new \RuntimeException('opening the epoll instance');
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
        // Revolt sets its handler in its first round; until then the signal waits.
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
        // Revolt's own identifiers are letters.
        $id = 'epoll-' . ++$this->lastId;
        $this->watchers[$descriptor][$id] = [$interest, $callback];
        $this->descriptors[$id] = $descriptor;
        if (!$this->update($descriptor)) {
            EventLoop::defer(function () use ($id, $refused): void {
                // It may have been cancelled meanwhile.
                if (isset($this->descriptors[$id])) {
                    $refused();
                }
            });
        }
        return $id;
    }

    /** Tells the kernel what is watched for now. Returns false if it refuses. */
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
                // One of them may have cancelled another.
                if (($wanted & $what) !== 0 && isset($this->descriptors[$id])) {
                    $callback();
                }
            }
        }
    }

    /** Keeps the arguments of Revolt away from a callback. */
    private static function plain(Closure $callback): Closure
    {
        return static function () use ($callback): void {
            $callback();
        };
    }
}
