<?php

declare(strict_types=1);

namespace Drover\Streaming\Tests;

use Drover\Streaming\Tests\Support\DaemonProcess;
use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/bootstrap.php';

/** Valid and invalid handoffs. */
final class HandoffsTest extends TestCase
{
    /** @return array<string, array{string}> */
    public static function bothTypes(): array
    {
        return ['seqpacket' => ['seqpacket'], 'stream' => ['stream']];
    }

    /** Returns a payload of the given length in bytes. */
    private static function payloadOf(int $length): string
    {
        [$start, $end] = ['{"user_id":1,"prompt":"', '"}'];
        return $start . str_repeat('p', $length - strlen($start . $end)) . $end;
    }

    /** Sends in a separate process, because sending a long payload blocks until the daemon reads. */
    private static function send(\Socket $sender, string $bytes): void
    {
        for ($sent = 0; $sent < strlen($bytes); $sent += $count) {
            $count = @socket_send($sender, substr($bytes, $sent), strlen($bytes) - $sent, MSG_NOSIGNAL);
            if ($count === false) {
                return;
            }
        }
    }

    /** @dataProvider bothTypes */
    public function testTheHandoffConnectionIsClosedWithoutAReply(string $type): void
    {
        $daemon = new DaemonProcess(['SOCKET_TYPE' => $type, 'MESSAGE_DELAY' => '1h']);
        $sender = $daemon->connect();
        [, $theirs] = DaemonProcess::client();
        DaemonProcess::pass($sender, DaemonProcess::PAYLOAD, [$theirs]);
        // The sender keeps its end open: the daemon closes the connection, long before the stream ends.
        self::assertTrue(DaemonProcess::isHungUp($sender));
    }

    /** @dataProvider bothTypes */
    public function testPayloadsUpTo128KibAreAcceptedAndLongerOnesAreRefused(string $type): void
    {
        $daemon = new DaemonProcess(['SOCKET_TYPE' => $type, 'MESSAGE_DELAY' => '1ms']);
        foreach ([10_000, 65_536, 131_072] as $length) {
            $answer = $this->askInPieces($daemon, self::payloadOf($length), $type);
            self::assertStringContainsString('Prompt: ' . str_repeat('p', 50) . '...', $answer, (string) $length);
            self::assertStringEndsWith("data: [DONE]\n\n", $answer);
        }
        self::assertSame(0, $daemon->handoffErrors('invalid_json'));
        foreach ([131_073, 150_000] as $length) {
            self::assertSame('', $this->askInPieces($daemon, self::payloadOf($length), $type), (string) $length);
        }
        self::assertSame(2, $daemon->handoffErrors('too_large'));
        self::assertSame(0.0, $daemon->metric('daemon_active_connections'));
    }

    private function askInPieces(DaemonProcess $daemon, string $payload, string $type): string
    {
        [$ours, $theirs] = DaemonProcess::client();
        $sender = $daemon->connect();
        $first = $type === 'stream' ? substr($payload, 0, 1_000) : $payload;
        DaemonProcess::pass($sender, $first, [$theirs]);
        unset($theirs);
        self::send($sender, substr($payload, strlen($first)));
        return DaemonProcess::readAll($ours);
    }

    public function testAPayloadInPiecesIsReassembledOnAStreamSocket(): void
    {
        $daemon = new DaemonProcess(['SOCKET_TYPE' => 'stream', 'MESSAGE_DELAY' => '1ms']);
        [$ours, $theirs] = DaemonProcess::client();
        $sender = $daemon->connect();
        // The first piece ends within a string, with a character that could end the object.
        $payload = '{"prompt":"a } and {b}","user_id":7}';
        DaemonProcess::pass($sender, substr($payload, 0, 14), [$theirs]);
        unset($theirs);
        DaemonProcess::waitUntil('the first piece', fn () => $daemon->metric('daemon_connections_total') === 1.0);
        foreach (str_split(substr($payload, 14), 4) as $piece) {
            self::send($sender, $piece);
        }
        self::assertTrue(DaemonProcess::isHungUp($sender));
        $answer = DaemonProcess::readAll($ours);
        self::assertStringContainsString('Prompt: a } and {b}"', $answer);
        self::assertStringContainsString('User ID: 7"', $answer);
        self::assertSame(0, $daemon->handoffErrors('invalid_json'));
    }

    public function testAnIncompletePayloadGetsTheDefaultsWhenItsSenderCloses(): void
    {
        $daemon = new DaemonProcess(['SOCKET_TYPE' => 'stream', 'MESSAGE_DELAY' => '1ms']);
        self::assertStringContainsString('User ID: 0', $daemon->ask(substr(DaemonProcess::PAYLOAD, 0, 20)));
        self::assertSame(1, $daemon->handoffErrors('invalid_json'));
    }

    public function testASilentSenderTimesOutAfterFiveSecondsAndDelaysNoOther(): void
    {
        $daemon = new DaemonProcess(['SOCKET_TYPE' => 'stream', 'MESSAGE_DELAY' => '1ms']);
        $start = hrtime(true);
        [$silent, $halting] = [$daemon->connect(), $daemon->connect()];
        [$ours, $theirs] = DaemonProcess::client();
        DaemonProcess::pass($halting, substr(DaemonProcess::PAYLOAD, 0, 20), [$theirs]);
        unset($theirs);
        self::assertStringContainsString('User ID: 1', $daemon->ask());
        self::assertLessThan(4e9, hrtime(true) - $start);
        self::assertTrue(DaemonProcess::isHungUp($silent));
        self::assertTrue(DaemonProcess::isHungUp($halting));
        self::assertGreaterThanOrEqual(5e9, hrtime(true) - $start);
        self::assertStringContainsString('User ID: 0', DaemonProcess::readAll($ours));
        self::assertSame(1, $daemon->handoffErrors('timeout'));
    }

    /** @dataProvider bothTypes */
    public function testAMessageThatArrivesLateIsAccepted(string $type): void
    {
        $daemon = new DaemonProcess(['SOCKET_TYPE' => $type, 'MESSAGE_DELAY' => '1ms']);
        $sender = $daemon->connect();
        DaemonProcess::waitUntil('the accept', fn () => $daemon->metric('daemon_connections_total') === 1.0);
        [$ours, $theirs] = DaemonProcess::client();
        DaemonProcess::pass($sender, DaemonProcess::PAYLOAD, [$theirs]);
        unset($theirs);
        self::assertStringContainsString('User ID: 1', DaemonProcess::readAll($ours));
    }

    /** @dataProvider bothTypes */
    public function testOfThreeDescriptorsTheFirstIsUsedAndTheOthersAreClosed(string $type): void
    {
        $daemon = new DaemonProcess(['SOCKET_TYPE' => $type, 'MESSAGE_DELAY' => '1ms']);
        [[$first, $theirFirst], [$second, $theirSecond], [$third, $theirThird]]
            = [DaemonProcess::client(), DaemonProcess::client(), DaemonProcess::client()];
        DaemonProcess::pass($daemon->connect(), DaemonProcess::PAYLOAD, [$theirFirst, $theirSecond, $theirThird]);
        unset($theirFirst, $theirSecond, $theirThird);
        self::assertSame('', DaemonProcess::readAll($second));
        self::assertSame('', DaemonProcess::readAll($third));
        self::assertSame(1226, strlen(DaemonProcess::readAll($first)));
        self::assertSame(1, $daemon->handoffErrors('surplus_descriptors'));
    }

    public function testADescriptorThatIsNotAStreamSocketIsRefused(): void
    {
        $daemon = new DaemonProcess();
        socket_create_pair(AF_UNIX, SOCK_DGRAM, 0, $datagrams);
        foreach ([fopen('/dev/null', 'r'), $datagrams[0]] as $descriptor) {
            $sender = $daemon->connect();
            DaemonProcess::pass($sender, DaemonProcess::PAYLOAD, [$descriptor]);
            self::assertTrue(DaemonProcess::isHungUp($sender));
        }
        self::assertSame(2, $daemon->handoffErrors('not_a_stream_socket'));
    }

    /** @dataProvider bothTypes */
    public function testAMessageWithoutADescriptorIsCounted(string $type): void
    {
        $daemon = new DaemonProcess(['SOCKET_TYPE' => $type]);
        $sender = $daemon->connect();
        DaemonProcess::pass($sender, DaemonProcess::PAYLOAD, []);
        self::assertTrue(DaemonProcess::isHungUp($sender));
        self::assertSame(1, $daemon->handoffErrors('no_descriptor'));
    }

    /** @dataProvider bothTypes */
    public function testAProbeThatConnectsAndClosesCountsAsEmptyAndIsNotLogged(string $type): void
    {
        $daemon = new DaemonProcess(['SOCKET_TYPE' => $type]);
        socket_close($daemon->connect());
        DaemonProcess::waitUntil('the count', fn () => $daemon->handoffErrors('empty') === 1);
        self::assertSame(0.0, $daemon->metric('daemon_active_connections'));
        self::assertStringNotContainsString('refused', $daemon->errors());
    }

    /**
     * The kernel can report the end of a SEQPACKET connection while a message is queued. An empty record looks the same
     * to the daemon, and the test controls when it is sent.
     */
    public function testAfterAFirstEndOfFileTheMessageIsReadAgain(): void
    {
        $daemon = new DaemonProcess(['MESSAGE_DELAY' => '1ms']);
        [$ours, $theirs] = DaemonProcess::client();
        $sender = $daemon->connect();
        DaemonProcess::pass($sender, '', []);
        DaemonProcess::pass($sender, DaemonProcess::PAYLOAD, [$theirs]);
        unset($theirs);
        self::assertSame(1226, strlen(DaemonProcess::readAll($ours)));
        self::assertSame(0, $daemon->handoffErrors('empty'));
    }

    public function testATcpClientIsServedWithNoDelay(): void
    {
        $daemon = new DaemonProcess(['MESSAGE_DELAY' => '1ms']);
        $listener = socket_create_listen(0);
        socket_getsockname($listener, $host, $port);
        $ours = socket_create(AF_INET, SOCK_STREAM, 0);
        socket_connect($ours, '127.0.0.1', $port);
        $theirs = socket_accept($listener);
        DaemonProcess::pass($daemon->connect(), DaemonProcess::PAYLOAD, [$theirs]);
        DaemonProcess::waitUntil('the option', fn () => socket_get_option($theirs, SOL_TCP, TCP_NODELAY) !== 0);
        socket_close($theirs);
        self::assertSame(1226, strlen(DaemonProcess::readAll($ours)));
    }

    public function testTheFlagsOfTheClientSocketDoNotChange(): void
    {
        $daemon = new DaemonProcess(['MESSAGE_DELAY' => '60ms']);
        [$ours, $theirs] = DaemonProcess::client();
        DaemonProcess::pass($daemon->connect(), DaemonProcess::PAYLOAD, [$theirs]);
        DaemonProcess::readExactly($ours, 200);
        // O_NONBLOCK (04000) belongs to the open file, which the test shares with the daemon.
        $isBlocking = static function () use ($daemon): bool {
            foreach (glob("/proc/{$daemon->pid()}/fdinfo/*") as $info) {
                $target = @readlink(str_replace('fdinfo', 'fd', $info));
                if ($target !== false && str_starts_with($target, 'socket:') && basename($info) > 8) {
                    preg_match('/flags:\s+0*(\d+)/', (string) file_get_contents($info), $flags);
                    return (octdec($flags[1]) & 0o4000) === 0;
                }
            }
            return false;
        };
        self::assertTrue($isBlocking());
        unset($theirs);
        self::assertSame(1026, strlen(DaemonProcess::readAll($ours)));
    }
}
