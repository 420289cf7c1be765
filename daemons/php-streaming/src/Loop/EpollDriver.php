<?php

declare(strict_types=1);

namespace Drover\Streaming\Loop;

use Amp\Loop\Driver;
use Amp\Loop\Internal\TimerQueue;
use Amp\Loop\Watcher;
use Drover\Streaming\System\System;

/**
 * A driver for the event loop of AMP 2, with epoll and signalfd. Descriptors are bare numbers, not PHP streams.
 *
 * A watcher must be cancelled before its descriptor is closed. A reader or writer is also called if the other end has
 * closed. Its data is a second callback: if the kernel refuses to watch the descriptor, mainly for lack of memory, that
 * one is called once instead, and the watcher must be cancelled nevertheless. Callbacks are plain functions, not
 * coroutines of AMP.
 *
 * The clock counts whole milliseconds of CLOCK_MONOTONIC, and timers fire as soon as their millisecond begins.
 */
final class EpollDriver extends Driver
{
    private const NANOSECONDS = 1_000_000;

    private readonly Epoll $epoll;
    private readonly TimerQueue $timers;
    /** @var array<int, array<string, Watcher>> by descriptor */
    private array $readers = [];
    /** @var array<int, array<string, Watcher>> by descriptor */
    private array $writers = [];
    /** @var array<int, array<string, Watcher>> by signal */
    private array $signals = [];
    /** A signalfd, so that a signal that arrives just before the wait still ends it. */
    private ?int $signalDescriptor = null;

    public function __construct(private readonly System $system)
    {
        $this->epoll = new Epoll($system);
        $this->timers = new TimerQueue();
    }

    public function now(): int
    {
        return intdiv(hrtime(true), self::NANOSECONDS);
    }

    public function getHandle(): int
    {
        return $this->epoll->descriptor;
    }

    /** Calls back for each such signal. Blocks the signal at once, so that none is lost before the loop runs. */
    public function onSignal(int $signo, callable $callback, $data = null): string
    {
        pcntl_sigprocmask(SIG_BLOCK, [$signo]);
        return parent::onSignal($signo, $callback, $data);
    }

    /** @param Watcher[] $watchers */
    protected function activate(array $watchers): void
    {
        foreach ($watchers as $watcher) {
            match ($watcher->type) {
                Watcher::READABLE => $this->readers[self::descriptor($watcher)][$watcher->id] = $watcher,
                Watcher::WRITABLE => $this->writers[self::descriptor($watcher)][$watcher->id] = $watcher,
                Watcher::SIGNAL => $this->signals[$watcher->value][$watcher->id] = $watcher,
                default => $this->timers->insert($watcher),
            };
            if (!$this->update($watcher)) {
                // Deferred: the callback may create watchers, which the loop would lose at this point.
                $this->defer(fn () => $this->refuse($watcher));
            }
        }
    }

    /** Reports that the kernel refuses a watcher, unless the watcher has been cancelled meanwhile. */
    private function refuse(Watcher $watcher): void
    {
        $watchers = $watcher->type === Watcher::READABLE ? $this->readers : $this->writers;
        if (isset($watchers[$watcher->value][$watcher->id])) {
            ($watcher->data)();
        }
    }

    protected function deactivate(Watcher $watcher): void
    {
        switch ($watcher->type) {
            case Watcher::READABLE:
                unset($this->readers[$watcher->value][$watcher->id]);
                break;
            case Watcher::WRITABLE:
                unset($this->writers[$watcher->value][$watcher->id]);
                break;
            case Watcher::SIGNAL:
                unset($this->signals[$watcher->value][$watcher->id]);
                break;
            default:
                $this->timers->remove($watcher);
        }
        $this->update($watcher);
    }

    protected function dispatch(bool $blocking): void
    {
        foreach ($this->epoll->wait($blocking ? $this->timeToNextTimer() : 0) as $descriptor => $what) {
            if ($descriptor === $this->signalDescriptor) {
                $this->dispatchSignal();
                continue;
            }
            if (($what & Epoll::READABLE) !== 0) {
                $this->callAll($this->readers, $descriptor);
            }
            if (($what & Epoll::WRITABLE) !== 0) {
                $this->callAll($this->writers, $descriptor);
            }
        }
        $this->dispatchTimers($this->now());
    }

    private static function descriptor(Watcher $watcher): int
    {
        return is_int($watcher->value)
            ? $watcher->value
            : throw new \Error('this driver watches descriptors by number, not streams');
    }

    /** Passes the current interest to the kernel. Returns false if the kernel refuses. */
    private function update(Watcher $watcher): bool
    {
        if ($watcher->type === Watcher::SIGNAL) {
            $this->watchSignals();
        } elseif (($watcher->type & Watcher::IO) !== 0) {
            $descriptor = $watcher->value;
            $reads = empty($this->readers[$descriptor]) ? 0 : Epoll::READABLE;
            $writes = empty($this->writers[$descriptor]) ? 0 : Epoll::WRITABLE;
            if ($reads === 0) {
                unset($this->readers[$descriptor]);
            }
            if ($writes === 0) {
                unset($this->writers[$descriptor]);
            }
            return $this->epoll->watch($descriptor, $reads | $writes);
        }
        return true;
    }

    private function watchSignals(): void
    {
        $wanted = array_keys(array_filter($this->signals));
        $this->signalDescriptor = $this->system->signals($wanted, $this->signalDescriptor);
        if (!$this->epoll->watch($this->signalDescriptor, Epoll::READABLE)) {
            throw new \RuntimeException('the kernel refuses to watch for signals');
        }
    }

    private function dispatchSignal(): void
    {
        $signal = $this->system->nextSignal((int) $this->signalDescriptor);
        if ($signal !== null) {
            $this->callAll($this->signals, $signal);
        }
    }

    private function dispatchTimers(int $now): void
    {
        while (($watcher = $this->timers->extract($now)) !== null) {
            if ($watcher->type === Watcher::REPEAT) {
                $watcher->enabled = false;
                $this->enable($watcher->id);
            } else {
                $this->cancel($watcher->id);
            }
            ($watcher->callback)();
        }
    }

    /** Returns the time until the next timer in nanoseconds; `null` without timers. */
    private function timeToNextTimer(): ?int
    {
        $next = $this->timers->peek();
        return $next === null ? null : max(0, $next * self::NANOSECONDS - hrtime(true));
    }

    /** @param array<int, array<string, Watcher>> $watchers */
    private function callAll(array &$watchers, int $key): void
    {
        foreach ($watchers[$key] ?? [] as $watcher) {
            // One callback may have cancelled another.
            if (isset($watchers[$key][$watcher->id])) {
                ($watcher->callback)();
            }
        }
    }
}
