<?php

declare(strict_types=1);

namespace Drover\Streaming\Tests;

use Drover\Streaming\Tests\Support\DaemonProcess;
use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/bootstrap.php';

/** The command itself: signals, exit codes, the socket file, the limit of open files. */
final class ProcessTest extends TestCase
{
    public function testSigtermUnderLoadLosesNoHandoffAndLetsStreamsFinish(): void
    {
        $daemon = new DaemonProcess(['BENCHMARK' => '1', 'MESSAGE_DELAY' => '20ms', 'SHUTDOWN_GRACE' => '1h']);
        $clients = [];
        $refused = 0;
        // The signal arrives under load, which continues until the daemon refuses connections.
        while ($refused === 0 && count($clients) < 5_000) {
            $sender = socket_create(AF_UNIX, SOCK_SEQPACKET, 0);
            if (!@socket_connect($sender, $daemon->socket)) {
                $refused = socket_last_error($sender);
                break;
            }
            [$ours, $theirs] = DaemonProcess::client();
            DaemonProcess::pass($sender, DaemonProcess::PAYLOAD, [$theirs]);
            unset($theirs);
            $clients[] = $ours;
            if (count($clients) === 200) {
                $daemon->signal(SIGTERM);
            }
        }
        self::assertContains($refused, [SOCKET_ECONNREFUSED, 2]);
        self::assertFileDoesNotExist($daemon->socket);
        foreach ($clients as $client) {
            self::assertSame(1226, strlen(DaemonProcess::readAll($client)));
        }
        [$code, $printed] = $daemon->wait();
        self::assertSame(0, $code);
        $count = count($clients);
        $bytes = 1226 * $count;
        self::assertStringContainsString("started: $count\ncompleted: $count\nfailed: 0\nbytes: $bytes\n", $printed);
    }

    public function testStreamsThatExceedTheGracePeriodAreClosedAndCounted(): void
    {
        $daemon = new DaemonProcess(
            ['BENCHMARK' => '1', 'MESSAGE_DELAY' => '1h', 'SHUTDOWN_GRACE' => '100ms'],
        );
        $client = $daemon->handOver();
        DaemonProcess::readExactly($client, 119);
        $daemon->signal(SIGTERM);
        [$code, $printed] = $daemon->wait();
        self::assertSame(0, $code);
        self::assertStringContainsString("peak concurrent: 1\nstarted: 1\ncompleted: 0\nfailed: 1\n", $printed);
        self::assertSame(1, substr_count(DaemonProcess::readAll($client), '"content"'));
    }

    /** Otherwise SIGTERM would be the second signal, which ends the stream. */
    public function testAHangUpThatIsIgnoredAtTheStartStaysIgnored(): void
    {
        $daemon = new DaemonProcess(['BENCHMARK' => '1', 'MESSAGE_DELAY' => '20ms'], "trap '' HUP;");
        $client = $daemon->handOver();
        DaemonProcess::readExactly($client, 119);
        $daemon->signal(SIGHUP);
        $daemon->signal(SIGTERM);
        [$code, $printed] = $daemon->wait();
        self::assertSame(0, $code);
        self::assertStringContainsString("completed: 1\n", $printed);
    }

    public function testASecondSignalEndsAtOnce(): void
    {
        $daemon = new DaemonProcess(['BENCHMARK' => '1', 'MESSAGE_DELAY' => '1h', 'SHUTDOWN_GRACE' => '1h']);
        DaemonProcess::readExactly($daemon->handOver(), 119);
        $client = $daemon->handOver();
        DaemonProcess::readExactly($client, 119);
        $daemon->signal(SIGINT);
        DaemonProcess::waitUntil('the end of the socket file', function () use ($daemon): bool {
            clearstatcache();
            return !file_exists($daemon->socket);
        });
        self::assertTrue($daemon->isRunning());
        $daemon->signal(SIGINT);
        [$code, $printed] = $daemon->wait();
        self::assertSame(0, $code);
        self::assertStringContainsString("started: 2\ncompleted: 0\nfailed: 2\n", $printed);
    }

    public function testTheMetricsAreServedDuringShutdown(): void
    {
        $daemon = new DaemonProcess(['MESSAGE_DELAY' => '100ms', 'SHUTDOWN_GRACE' => '1h']);
        $client = $daemon->handOver();
        DaemonProcess::readExactly($client, 119);
        $daemon->signal(SIGTERM);
        DaemonProcess::waitUntil('refusal', fn () => $daemon->tryConnect() !== 0);
        self::assertSame(1.0, $daemon->metric('daemon_active_streams'));
        self::assertSame(1226 - 119, strlen(DaemonProcess::readAll($client)));
        self::assertSame(0, $daemon->wait()[0]);
    }

    public function testTheSocketHasTheConfiguredModeForEveryUmask(): void
    {
        foreach (['0666' => 'umask 0077;', '0600' => 'umask 0;', '0660' => 'umask 0;'] as $mode => $umask) {
            $daemon = new DaemonProcess(['SOCKET_MODE' => $mode], $umask);
            self::assertSame(octdec((string) $mode), fileperms($daemon->socket) & 0o7777, (string) $mode);
        }
    }

    public function testASocketInUseIsKeptAndAStaleOneIsReplaced(): void
    {
        $first = new DaemonProcess(['MESSAGE_DELAY' => '1ms']);
        [$code, , $errors] = DaemonProcess::call(['--socket', $first->socket, '--benchmark']);
        self::assertSame(1, $code);
        self::assertStringContainsString('another process is listening on', $errors);
        self::assertSame(1226, strlen($first->ask()));
        $first->signal(SIGKILL);
        $first->wait();
        self::assertFileExists($first->socket);
        $second = new DaemonProcess(['MESSAGE_DELAY' => '1ms'], socket: $first->socket);
        self::assertSame(1226, strlen($second->ask()));
    }

    public function testAFileThatReplacedTheSocketIsNotRemoved(): void
    {
        $daemon = new DaemonProcess();
        unlink($daemon->socket);
        file_put_contents($daemon->socket, 'precious');
        $daemon->signal(SIGTERM);
        self::assertSame(0, $daemon->wait()[0]);
        self::assertStringEqualsFile($daemon->socket, 'precious');
    }

    public function testAnUnusableSocketOrAddressIsNamed(): void
    {
        $long = '/tmp/' . str_repeat('x', 200);
        $calls = [
            [['--socket', $long, '--benchmark'], '107 bytes'],
            [['--socket', '/no/such/folder/a.sock', '--benchmark'], '/no/such/folder'],
            [['--socket', '/dev/null', '--benchmark'], 'is not a socket'],
            [['--socket', '/no/such/a.sock', '--metrics-addr', '192.0.2.1:1'], 'DAEMON_METRICS_ADDR'],
        ];
        foreach ($calls as [$arguments, $word]) {
            [$code, , $errors] = DaemonProcess::call($arguments);
            self::assertSame(1, $code, $errors);
            self::assertStringContainsString($word, $errors);
        }
    }

    public function testAUsageErrorExitsWith2AndHelpAndVersionWith0(): void
    {
        [$code, , $errors] = DaemonProcess::call([], ['DAEMON_MESSAGE_DELAY' => '5']);
        self::assertSame(2, $code);
        self::assertStringContainsString('--message-delay (DAEMON_MESSAGE_DELAY)', $errors);
        [$code, $printed] = DaemonProcess::call(['--help']);
        self::assertSame(0, $code);
        self::assertStringContainsString('DAEMON_SHUTDOWN_GRACE', $printed);
        [$code, $printed] = DaemonProcess::call(['--version']);
        self::assertSame(0, $code);
        self::assertStringStartsWith('php-streaming ', $printed);
    }

    public function testAcceptingPausesWhileNoDescriptorIsFree(): void
    {
        $daemon = new DaemonProcess(['MESSAGE_DELAY' => '1ms'], 'ulimit -n 80;');
        $start = hrtime(true);
        $silent = [];
        for ($number = 0; $number < 100; $number++) {
            $silent[] = $daemon->connect();
        }
        // The shell may have passed on a descriptor above the limit.
        $free = fn (): array => array_diff(range(0, 79), scandir("/proc/{$daemon->pid()}/fd"));
        DaemonProcess::waitUntil('running out', fn () => $free() === []);
        // An accepted sender sends: no descriptor is free for its client, and both are closed.
        [$ours, $theirs] = DaemonProcess::client();
        DaemonProcess::pass($silent[0], DaemonProcess::PAYLOAD, [$theirs]);
        unset($theirs);
        self::assertSame('', DaemonProcess::readAll($ours));
        // Long enough for thousands of attempts if accepting did not pause.
        usleep(300_000);
        $silent = [];
        self::assertSame(1226, strlen($daemon->ask()));
        self::assertSame(1, $daemon->handoffErrors('truncated'));
        $tries = $daemon->handoffErrors('out_of_descriptors');
        self::assertGreaterThan(0, $tries);
        self::assertLessThan(10 + (hrtime(true) - $start) / 10e6, $tries, 'it spins');
        self::assertStringContainsString('ulimit -n', $daemon->errors());
    }

    /** The limit of open files limits the streams if it is lower: 100 − 64. */
    public function testMoreStreamsThanDescriptorsGet503(): void
    {
        $daemon = new DaemonProcess(['MESSAGE_DELAY' => '1h'], 'ulimit -n 100;');
        $held = [];
        for ($number = 0; $number < 36; $number++) {
            $held[] = $daemon->handOver();
        }
        // A handoff whose message arrives late could be overtaken.
        foreach ($held as $client) {
            DaemonProcess::readExactly($client, 119);
        }
        self::assertStringStartsWith('HTTP/1.1 503 ', $daemon->ask());
        self::assertSame(36.0, $daemon->metric('daemon_active_streams'));
        self::assertStringContainsString('allows only 36 streams', $daemon->errors());
    }

    public function testTheSoftLimitOfOpenFilesIsRaised(): void
    {
        $daemon = new DaemonProcess([], 'ulimit -Sn 50;');
        preg_match('/open files\s+(\S+)\s+(\S+)/', (string) file_get_contents("/proc/{$daemon->pid()}/limits"), $limits);
        self::assertSame($limits[2], $limits[1]);
    }
}
