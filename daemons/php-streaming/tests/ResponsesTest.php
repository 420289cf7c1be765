<?php

declare(strict_types=1);

namespace Drover\Streaming\Tests;

use Drover\Streaming\Tests\Support\DaemonProcess;
use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/bootstrap.php';

/** The responses that clients receive. */
final class ResponsesTest extends TestCase
{
    private const GOLDEN = __DIR__ . '/../../fdpass.golden.json';

    /** @return array<string, array{string}> */
    public static function bothTypes(): array
    {
        return ['seqpacket' => ['seqpacket'], 'stream' => ['stream']];
    }

    /** @dataProvider bothTypes */
    public function testEveryCaseOfTheGoldenTranscriptMatchesByteForByte(string $type): void
    {
        $golden = json_decode((string) file_get_contents(self::GOLDEN), true, flags: JSON_THROW_ON_ERROR);
        $cases = [];
        foreach ($golden['cases'] as $case) {
            $cases[$case['messages']][] = $case;
        }
        foreach ($cases as $messages => $group) {
            $daemon = new DaemonProcess(
                ['SOCKET_TYPE' => $type, 'MESSAGE_COUNT' => $messages, 'MESSAGE_DELAY' => '1ms'],
            );
            $invalid = 0;
            foreach ($group as $case) {
                $payload = $case['payload'] ?? hex2bin($case['payload_hex']);
                self::assertSame(implode('', $case['answer']), $daemon->ask($payload), $case['name']);
                $invalid += (int) $case['invalid'];
                self::assertSame($invalid, $daemon->handoffErrors('invalid_json'), $case['name']);
            }
            $events = count($group) * $messages;
            self::assertSame($events, (int) $daemon->metric('daemon_chunks_sent_total'));
        }
    }

    /** @dataProvider bothTypes */
    public function testEachEventIsASeparateWriteAndNoneIsEarly(string $type): void
    {
        $daemon = new DaemonProcess(['SOCKET_TYPE' => $type, 'MESSAGE_DELAY' => '30ms']);
        $start = hrtime(true);
        $client = $daemon->handOver();
        $pieces = $events = 0;
        DaemonProcess::readExactly($client, 119);
        while (($piece = (string) socket_read($client, 2_000)) !== '') {
            $now = hrtime(true);
            // On a busy machine one read may return two events, but never half of one.
            self::assertStringEndsWith("\n\n", $piece);
            $pieces++;
            $events += substr_count($piece, '"content"');
            self::assertGreaterThanOrEqual(($events - 1) * 30e6, $now - $start, 'it is early');
        }
        self::assertSame(18, $events);
        self::assertGreaterThan(9, $pieces);
        $took = $daemon->metric('daemon_stream_duration_seconds_sum');
        self::assertGreaterThanOrEqual(17 * 0.03, $took);
    }

    /** @dataProvider bothTypes */
    public function testEventsWithoutADelayAreComplete(string $type): void
    {
        $daemon = new DaemonProcess(
            ['SOCKET_TYPE' => $type, 'MESSAGE_COUNT' => 200, 'MESSAGE_DELAY' => '0'],
        );
        self::assertSame(200, substr_count($daemon->ask(), '{"content":'));
    }

    /** @dataProvider bothTypes */
    public function testABurstIsServedCompletely(string $type): void
    {
        $daemon = new DaemonProcess(['SOCKET_TYPE' => $type, 'MESSAGE_DELAY' => '5ms']);
        $clients = [];
        // More than the 1,024 descriptors of stream_select.
        for ($number = 0; $number < 1_200; $number++) {
            $clients[] = $daemon->handOver();
        }
        foreach ($clients as $client) {
            self::assertSame(1226, strlen(DaemonProcess::readAll($client)));
        }
        self::assertSame(0.0, $daemon->metric('daemon_active_connections'));
        self::assertSame(1_200.0 * 1226, $daemon->metric('daemon_bytes_sent_total'));
    }
}
