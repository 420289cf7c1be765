<?php

declare(strict_types=1);

namespace Drover\Streaming\Tests;

use Drover\Streaming\Loop\EpollDriver;
use Drover\Streaming\Metrics\Metrics;
use Drover\Streaming\Stream\StreamFailure;
use Drover\Streaming\Stream\Writer;
use Drover\Streaming\System\System;
use Fiber;
use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/bootstrap.php';

/** The behaviour of the event loop that the daemon relies on. */
final class EpollDriverTest extends TestCase
{
    private System $system;
    private EpollDriver $loop;

    protected function setUp(): void
    {
        $this->system = new System(1_024);
        $this->loop = new EpollDriver($this->system);
    }

    /** @return array{int, int} the descriptors of both ends of a connection */
    private function connection(): array
    {
        $path = sys_get_temp_dir() . '/php-streaming-' . bin2hex(random_bytes(6));
        $listener = $this->system->unixSocket(System::STREAM);
        $this->system->bindUnix($listener, $path);
        $this->system->listen($listener, 8);
        $ours = $this->system->unixSocket(System::STREAM);
        $this->system->connectUnix($ours, $path);
        $theirs = $this->system->accept($listener);
        $this->system->close($listener);
        unlink($path);
        return [$ours, $theirs];
    }

    public function testTimersFireInOrderAndNotEarlyUnlessTheyAreCancelled(): void
    {
        $loop = $this->loop;
        $start = hrtime(true);
        $seen = [];
        $note = static function (string $what) use (&$seen, $start): \Closure {
            return static function () use (&$seen, $what, $start): void {
                $seen[$what][] = intdiv(hrtime(true) - $start, 1_000_000);
            };
        };
        // Stops a loop that has lost a timer.
        $timeLimit = $loop->delay(10_000, static fn () => $loop->stop());
        $loop->delay(20, $note('second'));
        $loop->delay(10, $note('first'));
        $cancelled = $loop->delay(15, $note('cancelled'));
        $repeated = $loop->repeat(10, static function () use ($loop, $note, &$seen): void {
            $note('repeated')();
            if (count($seen['repeated']) > 2 && isset($seen['second'])) {
                $loop->stop();
            }
        });
        $loop->defer($note('deferred'));
        $loop->cancel($cancelled);
        $loop->run();
        $loop->cancel($timeLimit);
        $loop->cancel($repeated);
        self::assertSame(['deferred', 'first', 'repeated', 'second'], array_keys($seen));
        // A timer counts whole milliseconds of its clock, so a started millisecond may count as one.
        self::assertGreaterThanOrEqual(9, $seen['first'][0]);
        self::assertGreaterThanOrEqual(19, $seen['second'][0]);
        self::assertGreaterThan(2, count($seen['repeated']));
    }

    public function testSeveralDescriptorsThatAreReadyAtOnceEachCallBack(): void
    {
        $loop = $this->loop;
        $heard = [];
        $watchers = [];
        for ($number = 0; $number < 5; $number++) {
            [$ours, $theirs] = $this->connection();
            $this->system->send($ours, "message $number");
            $watchers[$number] = $loop->onReadable($theirs, function () use (&$heard, &$watchers, $number, $theirs, $loop): void {
                $heard[$number] = $this->system->receive($theirs)->payload;
                $loop->cancel($watchers[$number]);
                if (count($heard) === 5) {
                    $loop->stop();
                }
            }, self::unexpected());
        }
        $loop->delay(5_000, $loop->stop(...));
        $loop->run();
        ksort($heard);
        self::assertSame(['message 0', 'message 1', 'message 2', 'message 3', 'message 4'], $heard);
    }

    public function testADescriptorIsWatchedForBothDirectionsAndForItsEnd(): void
    {
        $loop = $this->loop;
        [$ours, $theirs] = $this->connection();
        $seen = [];
        $writable = $loop->onWritable($theirs, function () use (&$seen, &$writable, $loop, $ours): void {
            $seen[] = 'room';
            $loop->cancel($writable);
            $this->system->close($ours);
        }, self::unexpected());
        $readable = $loop->onReadable($theirs, function () use (&$seen, &$readable, $loop, $theirs): void {
            $seen[] = $this->system->receive($theirs)->isEnd() ? 'end' : 'data';
            $loop->cancel($readable);
            $loop->stop();
        }, self::unexpected());
        $loop->delay(5_000, $loop->stop(...));
        $loop->run();
        self::assertSame(['room', 'end'], $seen);
    }

    private static function unexpected(): \Closure
    {
        return static fn () => self::fail('the kernel refuses to watch');
    }

    public function testADescriptorThatTheKernelRefusesToWatchIsReportedAndTheLoopContinues(): void
    {
        $loop = $this->loop;
        $seen = [];
        $note = static function (string $what) use (&$seen): \Closure {
            return static function () use (&$seen, $what): void {
                $seen[] = $what;
            };
        };
        // These descriptors do not exist.
        $reader = $loop->onReadable(1_000_000, self::unexpected(), $note('no reader'));
        $cancelled = $loop->onWritable(1_000_001, self::unexpected(), self::unexpected());
        $loop->cancel($cancelled);
        $writer = new Writer($this->system, $loop, new Metrics(), 3_600_000_000_000);
        $fiber = new Fiber(static fn () => $writer->awaitWritable(1_000_002, PHP_INT_MAX));
        $fiber->start();
        $loop->delay(20, $note('later'));
        $loop->delay(40, $loop->stop(...));
        $loop->run();
        $loop->cancel($reader);
        self::assertSame(['no reader', 'later'], $seen);
        self::assertSame(StreamFailure::Other, $fiber->getReturn());
    }

    public function testASignalThatArrivesBeforeTheLoopRunsIsHandled(): void
    {
        $loop = $this->loop;
        $heard = 0;
        $loop->onSignal(SIGUSR1, static function () use (&$heard, $loop): void {
            $heard++;
            $loop->stop();
        });
        posix_kill(posix_getpid(), SIGUSR1);
        $loop->delay(5_000, $loop->stop(...));
        $loop->run();
        self::assertSame(1, $heard);
    }
}
