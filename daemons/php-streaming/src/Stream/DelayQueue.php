<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

use Closure;
use Drover\Streaming\Loop\EpollDriver;
use SplMinHeap;

/**
 * A queue of streams by the due time of their next write, with one timer.
 *
 * A timer of the event loop for each stream would cost a watcher (about 1 KB) and two sifts through a heap. Here a due
 * time is rounded up to its slot, and adding a stream to a slot is one append; only the slots are sorted. No stream is
 * resumed early, and each is at most one slot late. Lateness does not accumulate, because due times do not move.
 */
final class DelayQueue
{
    /** The maximum number of streams resumed before the event loop does anything else: about half a millisecond. */
    public const SLICE = 64;

    private const MILLISECOND = 1_000_000;

    public int $slice = self::SLICE;

    /** @var array<int, list<Stream>> by slot */
    private array $slots = [];
    /** @var SplMinHeap<int> the numbers of the slots */
    private readonly SplMinHeap $order;
    /** @var list<Stream|null> the current slot; $position is the next entry */
    private array $current = [];
    private int $position = 0;
    private ?string $timer = null;
    /** The slot that the timer waits for. */
    private int $armedFor = PHP_INT_MAX;
    private bool $isScheduled = false;
    private readonly int $slotLength;
    private readonly Closure $run;
    private readonly Closure $wake;

    /** @param int $slot the length of a slot in milliseconds */
    public function __construct(private readonly EpollDriver $loop, private readonly int $slot)
    {
        $this->order = new SplMinHeap();
        $this->slotLength = $slot * self::MILLISECOND;
        $this->run = $this->run(...);
        $this->wake = $this->wake(...);
    }

    /**
     * Returns the length of a slot for a delay between two events: 1/500 of it, but at least 1 ms and at most 5 ms, in
     * milliseconds.
     */
    public static function slotFor(int $delay): int
    {
        return max(1, min(5, intdiv($delay, 500 * self::MILLISECOND)));
    }

    /** Resumes a stream at its due time, in nanoseconds of CLOCK_MONOTONIC. */
    public function add(int $due, Stream $stream): void
    {
        $slot = intdiv($due + $this->slotLength - 1, $this->slotLength);
        $this->slots[$slot][] = $stream;
        if (count($this->slots[$slot]) === 1) {
            $this->order->insert($slot);
            if ($slot < $this->armedFor && !$this->isScheduled) {
                $this->arm();
            }
        }
    }

    /** Resumes a stream after those that are already due. */
    public function addNow(Stream $stream): void
    {
        // The end of the last slot, the latest time that is already due.
        $this->schedule();
        $this->add(intdiv(hrtime(true), $this->slotLength) * $this->slotLength, $stream);
    }

    private function schedule(): void
    {
        if (!$this->isScheduled) {
            $this->isScheduled = true;
            $this->loop->defer($this->run);
        }
    }

    private function wake(): void
    {
        $this->timer = null;
        $this->armedFor = PHP_INT_MAX;
        if (!$this->isScheduled) {
            $this->isScheduled = true;
            $this->run();
        }
    }

    /** Resumes a slice of the due streams, and schedules the rest. */
    private function run(): void
    {
        $servedAll = $this->serve($this->slice);
        $this->isScheduled = false;
        if ($servedAll) {
            $this->arm();
        } else {
            $this->schedule();
        }
    }

    /** Resumes up to `$budget` due streams. Returns true if no more are due. */
    private function serve(int $budget): bool
    {
        $resumed = 0;
        while (isset($this->current[$this->position]) || $this->advance()) {
            if ($resumed++ >= $budget) {
                return false;
            }
            $stream = $this->current[$this->position];
            // Cleared, so that the queue does not keep ended streams in memory.
            $this->current[$this->position++] = null;
            $stream->resume();
        }
        return true;
    }

    /** Moves to the next due slot. Returns false if there is none. */
    private function advance(): bool
    {
        if ($this->order->isEmpty() || $this->order->top() > intdiv(hrtime(true), $this->slotLength)) {
            $this->current = [];
            $this->position = 0;
            return false;
        }
        $slot = $this->order->extract();
        $this->current = $this->slots[$slot];
        $this->position = 0;
        unset($this->slots[$slot]);
        return true;
    }

    private function arm(): void
    {
        $next = $this->order->isEmpty() ? PHP_INT_MAX : $this->order->top();
        if ($next === $this->armedFor) {
            return;
        }
        if ($this->timer !== null) {
            $this->loop->cancel($this->timer);
            $this->timer = null;
        }
        $this->armedFor = $next;
        if ($next < PHP_INT_MAX) {
            $milliseconds = $next * $this->slot - intdiv(hrtime(true), self::MILLISECOND);
            $this->timer = $this->loop->delay(max(0, $milliseconds), $this->wake);
        }
    }
}
