<?php

declare(strict_types=1);

namespace Drover\Streaming\Tests;

use Drover\Streaming\Tests\Support\DaemonProcess;
use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/bootstrap.php';

/** `/metrics` and `/healthz` over HTTP. */
final class HttpTest extends TestCase
{
    public function testEveryMetricExistsFromTheStartWithHelpAndType(): void
    {
        $page = (new DaemonProcess())->get('/metrics');
        $introduced = null;
        foreach (explode("\n", trim($page)) as $line) {
            if (preg_match('/^# TYPE (\S+)/', $line, $found) === 1) {
                $introduced = $found[1];
            } elseif ($line[0] !== '#') {
                self::assertStringStartsWith((string) $introduced, $line);
                self::assertMatchesRegularExpression('/ 0(\.0)?$/', $line);
            }
        }
        self::assertSame(16, substr_count($page, '# TYPE'));
        preg_match_all('/handoff_errors_total\{reason="(\w+)"/', $page, $reasons);
        self::assertCount(14, $reasons[1]);
    }

    public function testTheMetricsPageShowsTheCounts(): void
    {
        $daemon = new DaemonProcess(['MESSAGE_DELAY' => '1ms']);
        $daemon->ask();
        $daemon->ask();
        $page = $daemon->get('/metrics');
        foreach ([
            'daemon_active_connections 0',
            'daemon_peak_streams 1',
            'daemon_connections_total 2',
            'daemon_connections_rejected_total 0',
            'daemon_handoffs_total 2',
            'daemon_bytes_sent_total 2452',
            'daemon_chunks_sent_total 36',
            'daemon_backend_requests_total{backend="mock"} 2',
            'daemon_backend_errors_total{backend="mock"} 0',
            'daemon_handoff_duration_seconds_count 2',
            'daemon_stream_duration_seconds_bucket{le="0.01"} 0',
            'daemon_stream_duration_seconds_bucket{le="+Inf"} 2',
            'daemon_backend_duration_seconds_count{backend="mock"} 2',
            'daemon_backend_ttfb_seconds_bucket{backend="mock",le="+Inf"} 2',
        ] as $line) {
            self::assertStringContainsString("$line\n", $page);
        }
    }

    public function testOtherPathsAndMethodsGetTheirHttpStatus(): void
    {
        $daemon = new DaemonProcess();
        self::assertSame("ok\n", $daemon->get('/healthz'));
        $answer = static fn (string $line): string => $daemon->request("$line HTTP/1.1\r\nhost: test\r\n\r\n");
        self::assertStringContainsString("content-type: text/plain; version=0.0.4; charset=utf-8\r\n", $answer('GET /metrics'));
        self::assertStringStartsWith('HTTP/1.1 404 ', $answer('GET /'));
        self::assertStringContainsString("allow: GET, HEAD\r\n", $answer('POST /metrics'));
        self::assertStringEndsWith("\r\n\r\n", $answer('HEAD /metrics'));
        self::assertStringStartsWith('HTTP/1.1 400 ', $answer('GET'));
        self::assertStringStartsWith('HTTP/1.1 400 ', $daemon->request("\x16\x03"));
        self::assertStringStartsWith('HTTP/1.1 400 ', $daemon->request(str_repeat('x', 9_000)));
    }
}
