<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

use Closure;
use Drover\Streaming\Loop\Loop;
use Fiber;
use SplMinHeap;

/**
 * Whatever waits for a time, in one queue with one timer.
 *
 * A timer of the event loop for each stream would cost a watcher (about 1 KB) and two sifts through a heap. Here a due
 * time is rounded up to its slot, and putting a turn into a slot is one append; only the slots are kept sorted. So no
 * turn comes early, and each comes up to a slot late; lateness never adds up, because due times do not move.
 */
final class DueQueue
{
    /** So many turns are made before the event loop may look at other things: about half a millisecond. */
    public const SLICE = 64;

    private const MILLISECOND = 1_000_000;

    public int $slice = self::SLICE;

    /** @var array<int, list<Fiber|Turn>> by slot */
    private array $slots = [];
    /** @var SplMinHeap<int> the numbers of the slots */
    private readonly SplMinHeap $order;
    /** @var list<Fiber|Turn|null> the slot that is being served, and how far that has come */
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
    public function __construct(private readonly Loop $loop, private readonly int $slot)
    {
        $this->order = new SplMinHeap();
        $this->slotLength = $slot * self::MILLISECOND;
        $this->run = $this->run(...);
        $this->wake = $this->wake(...);
    }

    /**
     * The slot for a delay between two events: 1/500 of it, but no less than 1 ms and no more than 5 ms, in
     * milliseconds.
     */
    public static function slotFor(int $delay): int
    {
        return max(1, min(5, intdiv($delay, 500 * self::MILLISECOND)));
    }

    /** Resumes a turn when it is due, in nanoseconds of CLOCK_MONOTONIC. */
    public function add(int $due, Fiber|Turn $turn): void
    {
        $slot = intdiv($due + $this->slotLength - 1, $this->slotLength);
        $this->slots[$slot][] = $turn;
        if (count($this->slots[$slot]) === 1) {
            $this->order->insert($slot);
            if ($slot < $this->armedFor && !$this->isScheduled) {
                $this->arm();
            }
        }
    }

    /** Resumes a turn as soon as those have been that were due before. */
    public function soon(Turn|Fiber $turn): void
    {
        // The end of the last slot: it is due, and the latest that is.
        $this->schedule();
        $this->add(intdiv(hrtime(true), $this->slotLength) * $this->slotLength, $turn);
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

    /** Makes a slice of the turns that are due, and sees to it that the rest comes. */
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

    /** Returns whether everything was served that is due. */
    private function serve(int $budget): bool
    {
        $turns = 0;
        while (isset($this->current[$this->position]) || $this->advance()) {
            if ($turns++ >= $budget) {
                return false;
            }
            $turn = $this->current[$this->position];
            // The queue holds what waits, and nothing that is over.
            $this->current[$this->position++] = null;
            $turn->resume();
        }
        return true;
    }

    /** Goes on to the next slot that is due, if there is one. */
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
