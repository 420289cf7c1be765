<?php

declare(strict_types=1);

namespace Drover\Streaming\Options;

use Drover\Streaming\UsageError;

/** The command line: flags, their `DAEMON_*` variables, and their validation. A flag overrides its variable. */
final class Options
{
    /** The maximum duration of a stream, which keeps every due time within 64 bits of nanoseconds. */
    private const MAX_STREAM = 366 * 24 * 3_600_000_000_000;

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
        return "Receives client sockets over a Unix socket (SCM_RIGHTS) and responds to each with "
            . "server-sent events.\n\n"
            . "Usage: streaming-daemon.php [OPTIONS]\n\nOptions:\n$all"
            . "  -d, --delay <MILLISECONDS>\n          Set --message-delay in milliseconds\n"
            . "  --help\n          Print the help and exit\n  --version\n          Print the version and exit\n";
    }

    /**
     * @param list<string> $arguments without the name of the program
     * @param array<string, string> $variables the environment
     * @throws UsageError
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
            $option = $this->flags[$flag] ?? throw new UsageError("$argument: unknown option; see --help");
            if ($option->value === null) {
                $value ??= 'true';
            }
            $value ??= array_shift($arguments) ?? throw $option->usageError("it needs a value, <{$option->value}>");
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
        } catch (UsageError $error) {
            throw new UsageError("--delay (DAEMON_MESSAGE_DELAY): `$value`: {$error->getMessage()}");
        }
    }

    private function check(): void
    {
        if ($this->values['writeTimeout'] === 0) {
            throw $this->options['writeTimeout']->usageError('it must be longer than 0; the default is 30s');
        }
        if ($this->values['messageCount'] * $this->values['messageDelay'] > self::MAX_STREAM) {
            throw new UsageError('--message-count × --message-delay (DAEMON_MESSAGE_COUNT, DAEMON_MESSAGE_DELAY): '
                . 'a stream may last at most a year (366 days); lower one of them');
        }
    }

    /** @return list<Option> */
    private static function all(): array
    {
        $duration = Values::duration(...);
        $positive = static fn (string $text): int => Values::number($text, 1);
        return [
            new Option('socketPath', ['-s', '--socket-path', '--socket'], 'DAEMON_SOCKET_PATH', 'PATH', '/var/run/streaming-daemon.sock', 'Create the handoff socket at this path', Values::path(...)),
            new Option('socketMode', ['-m', '--mode', '--socket-mode'], 'DAEMON_SOCKET_MODE', 'MODE', '0660', 'Set the permissions of the socket file, in octal', Values::mode(...)),
            new Option('socketType', ['--socket-type'], 'DAEMON_SOCKET_TYPE', 'TYPE', 'seqpacket', 'Set the type of the handoff socket: seqpacket or stream', static fn (string $text) => Values::choice($text, SocketType::class)),
            new Option('backlog', ['--backlog'], 'DAEMON_BACKLOG', 'NUMBER', '2147483647', 'Let this many handoffs wait to be accepted; the system limits it to net.core.somaxconn', static fn (string $text) => Values::number($text, 1, 0x7fffffff)),
            new Option('maxConnections', ['--max-connections'], 'DAEMON_MAX_CONNECTIONS', 'NUMBER', '100000', 'Limit the open streams; further ones are answered with 503', $positive),
            new Option('backend', ['--backend-provider'], 'DAEMON_BACKEND_PROVIDER', 'NAME', 'mock', 'Choose the source of the events: mock', Values::backend(...)),
            new Option('metricsAddress', ['--metrics-addr'], 'DAEMON_METRICS_ADDR', 'HOST:PORT', '127.0.0.1:9090', 'Serve /metrics and /healthz on this address', Values::address(...)),
            new Option('metricsEnabled', ['--metrics-enabled'], 'DAEMON_METRICS_ENABLED', 'BOOL', 'true', 'Serve /metrics and /healthz', Values::boolean(...)),
            new Option('messageCount', ['--message-count'], 'DAEMON_MESSAGE_COUNT', 'NUMBER', '18', 'Send this many events per stream; 0 sends only the head and the end mark', static fn (string $text) => Values::number($text, 0, 0xffffffff)),
            new Option('messageDelay', ['--message-delay'], 'DAEMON_MESSAGE_DELAY', 'DURATION', '50ms', 'Wait this long between two events, such as 50ms or 5625ms', $duration),
            new Option('writeTimeout', ['--write-timeout'], 'DAEMON_WRITE_TIMEOUT', 'DURATION', '30s', 'Fail a stream if one write to the client takes longer than this', $duration),
            new Option('shutdownGrace', ['--shutdown-grace'], 'DAEMON_SHUTDOWN_GRACE', 'DURATION', '30s', 'Let streams finish for up to this long after SIGTERM, SIGINT or SIGHUP; a second signal ends them at once', $duration),
            new Option('benchmark', ['--benchmark'], 'DAEMON_BENCHMARK', null, 'false', 'Serve no metrics, and print a summary at the end', Values::boolean(...)),
        ];
    }
}
