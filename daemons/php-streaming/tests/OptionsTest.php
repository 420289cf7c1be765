<?php

declare(strict_types=1);

namespace Drover\Streaming\Tests;

use Drover\Streaming\Options\Config;
use Drover\Streaming\Options\Options;
use Drover\Streaming\Options\SocketType;
use Drover\Streaming\Options\Values;
use Drover\Streaming\UsageError;
use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/bootstrap.php';

/** The command line and its variables. */
final class OptionsTest extends TestCase
{
    /**
     * @param list<string> $arguments
     * @param array<string, string> $variables
     */
    private static function read(array $arguments, array $variables = []): Config
    {
        return (new Options())->read($arguments, $variables);
    }

    public function testTheDefaultsAreThoseOfTheContract(): void
    {
        $config = self::read([]);
        self::assertSame('/var/run/streaming-daemon.sock', $config->socketPath);
        self::assertSame(0o660, $config->socketMode);
        self::assertSame(SocketType::Seqpacket, $config->socketType);
        self::assertSame(0x7fffffff, $config->backlog);
        self::assertSame(100_000, $config->maxConnections);
        self::assertSame(["\x7f\0\0\1", 9090], $config->metricsAddress);
        self::assertSame(18, $config->messageCount);
        self::assertSame(50_000_000, $config->messageDelay);
        self::assertSame(30_000_000_000, $config->writeTimeout);
        self::assertSame(30_000_000_000, $config->shutdownGrace);
        self::assertFalse($config->isBenchmark);
    }

    public function testAFlagOverridesItsVariable(): void
    {
        $variables = ['DAEMON_SOCKET_PATH' => '/tmp/a', 'DAEMON_MESSAGE_COUNT' => '3', 'DAEMON_MESSAGE_DELAY' => 'wrong'];
        $config = self::read(['--socket=/tmp/b', '-d', '7'], $variables);
        self::assertSame('/tmp/b', $config->socketPath);
        self::assertSame(3, $config->messageCount);
        self::assertSame(7_000_000, $config->messageDelay);
    }

    public function testShortFlagsAndAliasesAreAccepted(): void
    {
        $config = self::read(['-s', '/tmp/c', '-m0600', '-d=1.5', '--socket-type=stream']);
        self::assertSame(['/tmp/c', 0o600], [$config->socketPath, $config->socketMode]);
        self::assertSame(SocketType::Stream, $config->socketType);
        self::assertSame(1_500_000, $config->messageDelay);
        self::assertSame(0o666, self::read(['--mode', '0o666'])->socketMode);
        self::assertSame('/tmp/d', self::read(['--socket-path', '/tmp/d'])->socketPath);
        self::assertSame(250_000_000, self::read(['--delay', '250'])->messageDelay);
    }

    public function testBenchmarkAndMetricsEnabledFalseTurnTheMetricsOff(): void
    {
        self::assertNull(self::read(['--benchmark'])->metricsAddress);
        self::assertNull(self::read([], ['DAEMON_BENCHMARK' => 'yes'])->metricsAddress);
        self::assertNull(self::read(['--metrics-enabled', 'false'])->metricsAddress);
        self::assertNotNull(self::read([], ['DAEMON_BENCHMARK' => '0'])->metricsAddress);
    }

    public function testAddressesHaveAHostAndAPort(): void
    {
        self::assertSame([str_repeat("\0", 15) . "\1", 80], Values::address('[::1]:80'));
        self::assertSame(["\x7f\0\0\1", 0], Values::address('localhost:0'));
    }

    public function testDurationsHaveTheFormatOfGo(): void
    {
        foreach ([
            '0' => 0,
            '0s' => 0,
            '1ns' => 1,
            '5625ms' => 5_625_000_000,
            '1m30s' => 90_000_000_000,
            '1.5s' => 1_500_000_000,
            '1h2m3s4ms5us6ns' => 3_723_004_005_006,
            '7µs' => 7_000,
        ] as $text => $nanoseconds) {
            self::assertSame($nanoseconds, Values::duration((string) $text), (string) $text);
        }
    }

    public function testAnInvalidDurationIsRefusedWithAnExample(): void
    {
        foreach (['', '5', 'ms', '-1s', '1s ', "1s\n", '1 s', '1.2.3s', '1d', '1e3s', 's1', '.s'] as $text) {
            try {
                Values::duration($text);
                self::fail("$text was accepted");
            } catch (UsageError $error) {
                self::assertStringContainsString('50ms', $error->getMessage());
            }
        }
    }

    public function testTheErrorOfAnInvalidValueNamesOptionVariableAndRemedy(): void
    {
        foreach ([
            [['--message-delay', '5'], ['--message-delay', 'DAEMON_MESSAGE_DELAY', '50ms']],
            [['--message-delay', '876000h'], ['--message-delay', 'DAEMON_MESSAGE_DELAY', 'lower']],
            [['--message-delay', '99999999999h'], ['DAEMON_MESSAGE_DELAY', 'too long']],
            [['-d', '50ms'], ['--delay', 'DAEMON_MESSAGE_DELAY', '50']],
            [['-d'], ['--delay', 'DAEMON_MESSAGE_DELAY', '50']],
            [['--socket', '@a'], ['--socket', 'DAEMON_SOCKET_PATH', 'abstract sockets']],
            [['--socket-mode', 'rw'], ['--socket-mode', 'DAEMON_SOCKET_MODE', '0660']],
            [['-m', '7777'], ['--socket-mode', 'DAEMON_SOCKET_MODE', '0660']],
            [['--socket-type', 'dgram'], ['--socket-type', 'DAEMON_SOCKET_TYPE', 'seqpacket']],
            [['--max-connections', '0'], ['--max-connections', 'DAEMON_MAX_CONNECTIONS', '1 or more']],
            [['--max-connections', '99999999999999999999'], ['DAEMON_MAX_CONNECTIONS', '1 or more']],
            [['--message-count', '-1'], ['--message-count', 'DAEMON_MESSAGE_COUNT', '0 to 4294967295']],
            [['--metrics-addr', '9090'], ['--metrics-addr', 'DAEMON_METRICS_ADDR', '127.0.0.1:9090']],
            [['--metrics-addr', str_repeat('x', 300) . ':1'], ['DAEMON_METRICS_ADDR', '127.0.0.1:9090']],
            [['--metrics-addr', '127.0.0.1:99999'], ['DAEMON_METRICS_ADDR', '127.0.0.1:9090']],
            [['--metrics-enabled', '5'], ['--metrics-enabled', 'DAEMON_METRICS_ENABLED', 'boolean']],
            [['--backend-provider', 'openai'], ['--backend-provider', 'DAEMON_BACKEND_PROVIDER', 'mock']],
            [['--write-timeout', '0'], ['--write-timeout', 'DAEMON_WRITE_TIMEOUT', '30s']],
            [['--backlog'], ['--backlog', 'DAEMON_BACKLOG', 'needs a value']],
            [['--no-such-option'], ['--no-such-option', '--help']],
            [['stray'], ['stray', '--help']],
        ] as [$arguments, $words]) {
            try {
                self::read($arguments);
                self::fail(implode(' ', $arguments) . ' was accepted');
            } catch (UsageError $error) {
                foreach ($words as $word) {
                    self::assertStringContainsString($word, $error->getMessage());
                }
            }
        }
    }
}
