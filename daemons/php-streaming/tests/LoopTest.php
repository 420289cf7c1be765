<?php

declare(strict_types=1);

namespace Drover\Streaming\Tests;

use Drover\Streaming\Handoff\Payload;
use Drover\Streaming\Loop\AmpLoop;
use Drover\Streaming\Loop\Loop;
use Drover\Streaming\Loop\RevoltLoop;
use Drover\Streaming\Metrics\Metrics;
use Drover\Streaming\Stream\Resumable;
use Drover\Streaming\Stream\StreamFailure;
use Drover\Streaming\Stream\Writer;
use Drover\Streaming\System\System;
use Drover\Streaming\Tests\Support\DaemonProcess;
use Drover\Streaming\Tests\Support\Waiting;
use PHPUnit\Framework\TestCase;
use Revolt\EventLoop;

require_once __DIR__ . '/bootstrap.php';

/** The behaviour of both event loops that the daemon relies on, separately and within the whole daemon. */
final class LoopTest extends TestCase
{
    private const REVOLT = __DIR__ . '/Support/Revolt.php';

    private System $system;

    protected function setUp(): void
    {
        $this->system = new System(Payload::LIMIT + 1);
    }

    /** @return array<string, array{class-string<Loop>}> */
    public static function bothLoops(): array
    {
        return ['AMP 2' => [AmpLoop::class], 'AMP 3' => [RevoltLoop::class]];
    }

    /** @param class-string<Loop> $class */
    private function make(string $class): Loop
    {
        if ($class === RevoltLoop::class && !class_exists(EventLoop::class)) {
            require_once self::REVOLT;
        }
        return new $class($this->system);
    }

    /** @return array{int, int} a listening socket and its path's connection, both as numbers */
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

    /**
     * @dataProvider bothLoops
     * @param class-string<Loop> $class
     */
    public function testTimersComeInOrderAndNotEarlyAndCancelledOnesDoNotCome(string $class): void
    {
        $loop = $this->make($class);
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

    /**
     * @dataProvider bothLoops
     * @param class-string<Loop> $class
     */
    public function testSeveralDescriptorsThatAreReadyAtOnceAreEachHeard(string $class): void
    {
        $loop = $this->make($class);
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

    /**
     * @dataProvider bothLoops
     * @param class-string<Loop> $class
     */
    public function testADescriptorIsWatchedForBothDirectionsAndForItsEnd(string $class): void
    {
        $loop = $this->make($class);
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

    /**
     * @dataProvider bothLoops
     * @param class-string<Loop> $class
     */
    public function testWhatTheKernelRefusesToWatchIsSaidAndTheLoopGoesOn(string $class): void
    {
        $loop = $this->make($class);
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
        $resumable = new class implements Resumable {
            public mixed $got = 'nothing';

            public function resume(mixed $value = null): mixed
            {
                return $this->got = $value;
            }
        };
        $writer->awaitWritable(1_000_002, $writer->deadline(), $resumable);
        $loop->delay(20, $note('later'));
        $loop->delay(40, $loop->stop(...));
        $loop->run();
        $loop->cancel($reader);
        self::assertSame(['no reader', 'later'], $seen);
        self::assertSame(StreamFailure::Other, $resumable->got);
    }

    /**
     * @dataProvider bothLoops
     * @param class-string<Loop> $class
     */
    public function testASignalThatComesBeforeTheLoopRunsIsHeard(string $class): void
    {
        $loop = $this->make($class);
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

    /** Runs the whole daemon on the interface of AMP 3, with a fake of Revolt if Revolt is not installed. */
    public function testTheDaemonServesOverTheLoopOfAmp3(): void
    {
        $flags = class_exists(EventLoop::class) && !str_contains((new \ReflectionClass(EventLoop::class))->getFileName(), 'Support')
            ? ''
            : '-d auto_prepend_file=' . escapeshellarg(self::REVOLT);
        foreach (['fibers', 'queue'] as $engine) {
            $variables = ['ENGINE' => $engine, 'MESSAGE_DELAY' => '5ms', 'WRITE_TIMEOUT' => '300ms', 'MESSAGE_COUNT' => 100];
            $daemon = new DaemonProcess($variables, flags: $flags);
            $clients = [];
            for ($number = 0; $number < 1_200; $number++) {
                $clients[] = $daemon->handOver();
            }
            [$idle, $theirs] = DaemonProcess::client();
            socket_set_option($theirs, SOL_SOCKET, SO_SNDBUF, 1);
            DaemonProcess::pass($daemon->connect(), DaemonProcess::PAYLOAD, [$theirs]);
            unset($theirs);
            foreach ($clients as $client) {
                self::assertStringEndsWith("data: [DONE]\n\n", DaemonProcess::readAll($client));
            }
            Waiting::until('the write timeout', fn () => $daemon->streamErrors('timeout') === 1);
            self::assertSame(0.0, $daemon->metric('daemon_active_connections'));
            $daemon->signal(SIGTERM);
            self::assertSame(0, $daemon->wait()[0], $daemon->errors());
            unset($idle);
        }
    }
}
