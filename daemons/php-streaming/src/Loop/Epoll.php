<?php

declare(strict_types=1);

namespace Drover\Streaming\Loop;

use Drover\Streaming\System\System;
use FFI\CData;

/** A level-triggered epoll instance. Unlike `stream_select` it is not limited to 1,024 descriptors. */
final class Epoll
{
    public const READABLE = 0x001;
    public const WRITABLE = 0x004;
    /** Errors and hang-ups, which wake both readers and writers; their next call returns the error. */
    private const ENDED = 0x008 | 0x010;

    private const EVENTS_AT_ONCE = 256;
    private const CTL_ADD = 1;
    private const CTL_DEL = 2;
    private const CTL_MOD = 3;

    public readonly int $descriptor;
    private readonly CData $events;
    private readonly CData $event;
    private readonly CData $timeout;
    /** @var array<int, int> the watched events, by descriptor */
    private array $interests = [];

    public function __construct(private readonly System $system)
    {
        $descriptor = $system->libc->epoll_create1(System::CLOEXEC);
        $this->descriptor = $system->check($descriptor, 'cannot create an epoll instance');
        $this->events = $system->libc->new('struct epoll_event[' . self::EVENTS_AT_ONCE . ']');
        $this->event = $system->libc->new('struct epoll_event');
        $this->timeout = $system->libc->new('struct timespec');
    }

    /**
     * Watches a descriptor for `READABLE`, `WRITABLE` or both; 0 stops watching. Returns false if the kernel refuses;
     * the previous interest then remains.
     */
    public function watch(int $descriptor, int $interest): bool
    {
        $before = $this->interests[$descriptor] ?? 0;
        if ($interest === $before) {
            return true;
        }
        $operation = match (true) {
            $interest === 0 => self::CTL_DEL,
            $before === 0 => self::CTL_ADD,
            default => self::CTL_MOD,
        };
        $this->event->events = $interest;
        $this->event->descriptor = $descriptor;
        $result = $this->system->libc->epoll_ctl(
            $this->descriptor,
            $operation,
            $descriptor,
            \FFI::addr($this->event),
        );
        if ($interest === 0) {
            unset($this->interests[$descriptor]);
        } elseif ($result >= 0) {
            $this->interests[$descriptor] = $interest;
        }
        return $result >= 0;
    }

    /**
     * Waits for events for up to `$nanoseconds`, or without a limit if that is `null`.
     *
     * @return array<int, int> the events of each ready descriptor
     */
    public function wait(?int $nanoseconds): array
    {
        $timeout = null;
        if ($nanoseconds !== null) {
            $this->timeout->seconds = intdiv($nanoseconds, 1_000_000_000);
            $this->timeout->nanoseconds = $nanoseconds % 1_000_000_000;
            $timeout = \FFI::addr($this->timeout);
        }
        $count = $this->system->libc->epoll_pwait2(
            $this->descriptor,
            $this->events,
            self::EVENTS_AT_ONCE,
            $timeout,
            null,
        );
        // The only possible error is EINTR: a signal, which its own handler processes.
        $ready = [];
        for ($index = 0; $index < $count; $index++) {
            $event = $this->events[$index];
            $what = $event->events;
            $ready[$event->descriptor] = ($what & self::ENDED) === 0 ? $what : self::READABLE | self::WRITABLE;
        }
        return $ready;
    }
}
