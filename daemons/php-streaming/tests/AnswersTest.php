<?php

declare(strict_types=1);

namespace Drover\Streaming\Tests;

use Drover\Streaming\Tests\Support\DaemonProcess;
use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/bootstrap.php';

/** What clients get. */
final class AnswersTest extends TestCase
{
    private const GOLDEN = __DIR__ . '/../../fdpass.golden.json';

    /** @return iterable<string, array{string, string}> */
    public static function everyKind(): iterable
    {
        foreach (['seqpacket', 'stream'] as $type) {
            foreach (['fibers', 'queue'] as $engine) {
                yield "$type, $engine" => [$type, $engine];
            }
        }
    }

    /** @dataProvider everyKind */
    public function testEveryCaseOfTheGoldenTranscriptIsAnsweredByteForByte(string $type, string $engine): void
    {
        $golden = json_decode((string) file_get_contents(self::GOLDEN), true, flags: JSON_THROW_ON_ERROR);
        $cases = [];
        foreach ($golden['cases'] as $case) {
            $cases[$case['messages']][] = $case;
        }
        foreach ($cases as $messages => $group) {
            $daemon = new DaemonProcess(
                ['SOCKET_TYPE' => $type, 'ENGINE' => $engine, 'MESSAGE_COUNT' => $messages, 'MESSAGE_DELAY' => '1ms'],
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

    /** @dataProvider everyKind */
    public function testEachEventIsAWriteOfItsOwnAndNoneIsEarly(string $type, string $engine): void
    {
        $daemon = new DaemonProcess(['SOCKET_TYPE' => $type, 'ENGINE' => $engine, 'MESSAGE_DELAY' => '30ms']);
        $start = hrtime(true);
        $client = $daemon->handOver();
        DaemonProcess::readExactly($client, 119);
        for ($event = 1; $event <= 18; $event++) {
            $piece = (string) socket_read($client, 1_000);
            self::assertSame($event === 18 ? 2 : 1, substr_count($piece, "\n\n"), $piece);
            self::assertGreaterThanOrEqual(($event - 1) * 30e6, hrtime(true) - $start);
        }
        self::assertSame('', socket_read($client, 1));
        $took = $daemon->metric('daemon_stream_duration_seconds_sum');
        self::assertGreaterThanOrEqual(17 * 0.03, $took);
    }

    /** @dataProvider everyKind */
    public function testEventsWithoutADelayAreManyAndComplete(string $type, string $engine): void
    {
        $daemon = new DaemonProcess(
            ['SOCKET_TYPE' => $type, 'ENGINE' => $engine, 'MESSAGE_COUNT' => 200, 'MESSAGE_DELAY' => '0'],
        );
        self::assertSame(200, substr_count($daemon->ask(), '{"content":'));
    }

    /** @dataProvider everyKind */
    public function testABurstIsServedWhole(string $type, string $engine): void
    {
        $daemon = new DaemonProcess(['SOCKET_TYPE' => $type, 'ENGINE' => $engine, 'MESSAGE_DELAY' => '5ms']);
        $clients = [];
        for ($number = 0; $number < 400; $number++) {
            $clients[] = $daemon->handOver();
        }
        foreach ($clients as $client) {
            self::assertSame(1226, strlen(DaemonProcess::readAll($client)));
        }
        self::assertSame(0.0, $daemon->metric('daemon_active_connections'));
        self::assertSame(400.0 * 1226, $daemon->metric('daemon_bytes_sent_total'));
    }
}
