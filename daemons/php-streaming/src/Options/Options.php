<?php

declare(strict_types=1);

namespace Drover\Streaming\Options;

use Drover\Streaming\WrongCall;

/** The command line: flags, their `DAEMON_*` variables, and what is wrong with them. A flag wins over its variable. */
final class Options
{
    /** Streams may last a year at most, which keeps every due time within 64 bits of nanoseconds. */
    private const LONGEST_STREAM = 366 * 24 * 3_600_000_000_000;

    /** @var array<string, Option> by name */
    private array $options = [];
    /** @var array<string, Option> by flag */
    private array $flags = [];
    /** @var array<string, mixed> by the name of the option */
    private array $values = [];

    public function __construct()
    {
        foreach (self::all() as $option) {
            $this->options[$option->name] = $option;
            foreach ($option->flags as $flag) {
                $this->flags[$flag] = $option;
            }
        }
    }

    public static function help(): string
    {
        $all = implode('', array_map(static fn (Option $option) => $option->describe(), self::all()));
        return "Takes client sockets over a Unix socket (SCM_RIGHTS) and answers each with server-sent events.\n\n"
            . "Usage: streaming-daemon.php [OPTIONS]\n\nOptions:\n$all"
            . "  -d, --delay <MILLISECONDS>\n          Time between two events in milliseconds: --message-delay otherwise\n"
            . "  --help\n  --version\n";
    }

    /**
     * @param list<string> $arguments without the name of the program
     * @param array<string, string> $variables the environment
     * @throws WrongCall
     */
    public function read(array $arguments, array $variables): Config
    {
        $this->readFlags($arguments);
        foreach ($this->options as $name => $option) {
            if (!array_key_exists($name, $this->values)) {
                $this->values[$name] = $option->read($variables[$option->variable] ?? $option->default);
            }
        }
        $this->check();
        $metrics = $this->values['metricsEnabled'] && !$this->values['benchmark'];
        return new Config(
            socketPath: $this->values['socketPath'],
            socketMode: $this->values['socketMode'],
            socketType: $this->values['socketType'],
            backlog: $this->values['backlog'],
            maxConnections: $this->values['maxConnections'],
            engine: $this->values['engine'],
            metricsAddress: $metrics ? $this->values['metricsAddress'] : null,
            messageCount: $this->values['messageCount'],
            messageDelay: $this->values['messageDelay'],
            writeTimeout: $this->values['writeTimeout'],
            shutdownGrace: $this->values['shutdownGrace'],
            isBenchmark: $this->values['benchmark'],
        );
    }

    /** @param list<string> $arguments */
    private function readFlags(array $arguments): void
    {
        while (($argument = array_shift($arguments)) !== null) {
            [$flag, $value] = self::split($argument);
            if ($flag === '-d' || $flag === '--delay') {
                $value ??= array_shift($arguments);
                $this->values['messageDelay'] = self::delay($value);
                continue;
            }
            $option = $this->flags[$flag] ?? throw new WrongCall("$argument: no such option; see --help");
            if ($option->value === null) {
                $value ??= 'true';
            }
            $value ??= array_shift($arguments) ?? throw $option->wrong("it needs a value, <{$option->value}>");
            $this->values[$option->name] = $option->read($value);
        }
    }

    /**
     * Splits `--flag=value`, `-fvalue` and `-f=value`.
     *
     * @return array{string, ?string}
     */
    private static function split(string $argument): array
    {
        if (str_starts_with($argument, '--')) {
            return explode('=', $argument, 2) + [1 => null];
        }
        $value = preg_replace('/^=/', '', substr($argument, 2));
        return strlen($argument) > 2 ? [substr($argument, 0, 2), $value] : [$argument, null];
    }

    private static function delay(?string $value): int
    {
        try {
            return Values::milliseconds($value ?? '');
        } catch (WrongCall $wrong) {
            throw new WrongCall("--delay (DAEMON_MESSAGE_DELAY): `$value`: {$wrong->getMessage()}");
        }
    }

    private function check(): void
    {
        if ($this->values['writeTimeout'] === 0) {
            throw $this->options['writeTimeout']->wrong('it must be longer than 0; the default is 30s');
        }
        if ($this->values['messageCount'] * $this->values['messageDelay'] > self::LONGEST_STREAM) {
            throw new WrongCall('--message-count × --message-delay (DAEMON_MESSAGE_COUNT, DAEMON_MESSAGE_DELAY): '
                . 'a stream may last a year at most; lower one of them');
        }
    }

    /** @return list<Option> */
    private static function all(): array
    {
        $duration = Values::duration(...);
        $positive = static fn (string $text): int => Values::number($text, 1);
        return [
            new Option('socketPath', ['-s', '--socket-path', '--socket'], 'DAEMON_SOCKET_PATH', 'PATH', '/var/run/streaming-daemon.sock', 'Path of the handoff socket', Values::path(...)),
            new Option('socketMode', ['-m', '--mode', '--socket-mode'], 'DAEMON_SOCKET_MODE', 'MODE', '0660', 'Permissions of the socket file, in octal', Values::mode(...)),
            new Option('socketType', ['--socket-type'], 'DAEMON_SOCKET_TYPE', 'TYPE', 'seqpacket', 'Type of the handoff socket: seqpacket or stream', static fn (string $text) => Values::choice($text, SocketType::class)),
            new Option('backlog', ['--backlog'], 'DAEMON_BACKLOG', 'NUMBER', '2147483647', 'Handoffs that may wait to be accepted; the system cuts it to net.core.somaxconn', static fn (string $text) => Values::number($text, 1, 0x7fffffff)),
            new Option('maxConnections', ['--max-connections'], 'DAEMON_MAX_CONNECTIONS', 'NUMBER', '100000', 'Streams that may be open at once; more are answered with 503', $positive),
            new Option('engine', ['--engine'], 'DAEMON_ENGINE', 'NAME', 'fibers', 'What a stream is while it waits: fibers (one each) or queue (an entry in a queue)', static fn (string $text) => Values::choice($text, EngineKind::class)),
            new Option('backend', ['--backend-provider'], 'DAEMON_BACKEND_PROVIDER', 'NAME', 'mock', 'Where the events come from: mock', Values::backend(...)),
            new Option('metricsAddress', ['--metrics-addr'], 'DAEMON_METRICS_ADDR', 'HOST:PORT', '127.0.0.1:9090', 'Address of /metrics and /healthz', Values::address(...)),
            new Option('metricsEnabled', ['--metrics-enabled'], 'DAEMON_METRICS_ENABLED', 'BOOL', 'true', 'Whether to serve /metrics and /healthz', Values::boolean(...)),
            new Option('messageCount', ['--message-count'], 'DAEMON_MESSAGE_COUNT', 'NUMBER', '18', 'Events per stream; 0 sends the head and the end mark alone', static fn (string $text) => Values::number($text, 0, 0xffffffff)),
            new Option('messageDelay', ['--message-delay'], 'DAEMON_MESSAGE_DELAY', 'DURATION', '50ms', 'Time between two events, such as 50ms or 5625ms', $duration),
            new Option('writeTimeout', ['--write-timeout'], 'DAEMON_WRITE_TIMEOUT', 'DURATION', '30s', 'How long one write to a client may take', $duration),
            new Option('shutdownGrace', ['--shutdown-grace'], 'DAEMON_SHUTDOWN_GRACE', 'DURATION', '30s', 'How long streams may go on after SIGTERM or SIGINT; a second signal ends them at once', $duration),
            new Option('benchmark', ['--benchmark'], 'DAEMON_BENCHMARK', null, 'false', 'Serve no metrics, and print a summary at the end', Values::boolean(...)),
        ];
    }
}
