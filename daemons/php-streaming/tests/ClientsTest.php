<?php

declare(strict_types=1);

namespace Drover\Streaming\Tests;

use Drover\Streaming\Tests\Support\DaemonProcess;
use PHPUnit\Framework\TestCase;
use Socket;

require_once __DIR__ . '/bootstrap.php';

/** Clients that disconnect, do not read, or exceed the limit. */
final class ClientsTest extends TestCase
{
    /** Enough events to fill the smallest socket buffer many times, without a pause. */
    private const MANY = ['MESSAGE_COUNT' => 1_000, 'MESSAGE_DELAY' => '1ns'];

    private const REFUSAL = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

    /** Hands over a client whose socket buffer is as small as the kernel allows. The socket is a blocking one. */
    private static function handOverNarrowClient(DaemonProcess $daemon): Socket
    {
        [$ours, $theirs] = DaemonProcess::client();
        socket_set_option($theirs, SOL_SOCKET, SO_SNDBUF, 1);
        DaemonProcess::pass($daemon->connect(), DaemonProcess::PAYLOAD, [$theirs]);
        return $ours;
    }

    public function testAClientThatDisconnectsIsCountedAndTheNextStreamIsComplete(): void
    {
        $daemon = new DaemonProcess(['MESSAGE_DELAY' => '50ms']);
        $client = $daemon->handOver();
        DaemonProcess::readExactly($client, 200);
        self::assertSame(1.0, $daemon->metric('daemon_active_streams'));
        socket_close($client);
        DaemonProcess::waitUntil('the count', fn () => $daemon->streamErrors('client_disconnected') === 1);
        self::assertSame(0.0, $daemon->metric('daemon_active_streams'));
        self::assertSame(0.0, $daemon->metric('daemon_active_connections'));
        self::assertSame(1226, strlen($daemon->ask()), 'the next stream is complete');
    }

    public function testAClientThatNeverReadsTimesOutAndDoesNotDelayOthers(): void
    {
        $daemon = new DaemonProcess(['WRITE_TIMEOUT' => '500ms'] + self::MANY);
        $idle = [];
        for ($number = 0; $number < 20; $number++) {
            $idle[] = self::handOverNarrowClient($daemon);
        }
        $start = hrtime(true);
        self::assertStringEndsWith("data: [DONE]\n\n", $daemon->ask());
        self::assertLessThan(10e9, hrtime(true) - $start);
        DaemonProcess::waitUntil('the timeouts', fn () => $daemon->streamErrors('timeout') === 20);
        self::assertSame(0.0, $daemon->metric('daemon_active_streams'));
        self::assertGreaterThan(0, strlen(DaemonProcess::readAll($idle[0])));
    }

    public function testASlowReaderGetsEveryByte(): void
    {
        $daemon = new DaemonProcess(self::MANY);
        $expected = $daemon->ask();
        $client = self::handOverNarrowClient($daemon);
        $all = '';
        while (($piece = socket_read($client, 777)) !== '' && $piece !== false) {
            $all .= $piece;
        }
        self::assertSame($expected, $all);
        self::assertSame(2.0 * strlen($expected), $daemon->metric('daemon_bytes_sent_total'));
        self::assertSame(2_000.0, $daemon->metric('daemon_chunks_sent_total'));
    }

    public function testAClientThatDisconnectsDuringABlockedWriteIsCounted(): void
    {
        $daemon = new DaemonProcess(self::MANY);
        $client = self::handOverNarrowClient($daemon);
        DaemonProcess::waitUntil('an event', fn () => $daemon->metric('daemon_chunks_sent_total') > 0);
        socket_close($client);
        DaemonProcess::waitUntil('the count', fn () => $daemon->streamErrors('client_disconnected') === 1);
        self::assertSame(0.0, $daemon->metric('daemon_active_connections'));
    }

    public function testClientsAboveTheLimitGet503UntilASlotIsFree(): void
    {
        $daemon = new DaemonProcess(['MAX_CONNECTIONS' => 2, 'MESSAGE_DELAY' => '100ms']);
        $held = [$daemon->handOver(), $daemon->handOver()];
        foreach ($held as $client) {
            DaemonProcess::readExactly($client, 119);
        }
        self::assertSame(self::REFUSAL, $daemon->ask());
        self::assertSame(self::REFUSAL, $daemon->ask());
        self::assertSame(2.0, $daemon->metric('daemon_connections_rejected_total'));
        foreach ($held as $client) {
            self::assertSame(1226 - 119, strlen(DaemonProcess::readAll($client)));
        }
        self::assertSame(1226, strlen($daemon->ask()));
        self::assertSame(2.0, $daemon->metric('daemon_peak_streams'));
        self::assertSame(3.0, $daemon->metric('daemon_backend_requests_total{backend="mock"}'));
    }
}
