<?php

declare(strict_types=1);

namespace Drover\Streaming\Tests\Support;

use Drover\Streaming\Options\SocketType;
use Socket;

/** The daemon as a separate process, killed at the end of the test. */
final class DaemonProcess
{
    public const PAYLOAD = '{"prompt":"benchmark test","user_id":1}';

    private const LIMIT_S = 30;
    private const SCRIPT = __DIR__ . '/../../streaming-daemon.php';
    private const INI = __DIR__ . '/../../php.ini';

    public readonly string $socket;
    private readonly string $folder;
    private readonly string $address;
    private readonly SocketType $type;
    /** @var resource */
    private $process;
    /** @var array<int, resource> */
    private array $pipes = [];
    private string $errors = '';
    private ?int $code = null;

    /**
     * Starts the daemon and waits until it serves.
     *
     * @param array<string, string|int> $variables its environment, without `DAEMON_`
     * @param string $prelude commands that a shell runs first
     */
    public function __construct(array $variables = [], string $prelude = '', ?string $socket = null)
    {
        $this->folder = sys_get_temp_dir() . '/php-streaming-' . bin2hex(random_bytes(6));
        mkdir($this->folder, 0o700);
        $this->socket = $socket ?? "{$this->folder}/handoff.sock";
        $this->address = self::freeAddress();
        $this->type = SocketType::from((string) ($variables['SOCKET_TYPE'] ?? 'seqpacket'));
        $variables += ['SOCKET_PATH' => $this->socket, 'METRICS_ADDR' => $this->address];
        $script = escapeshellarg(self::SCRIPT);
        $this->open(['sh', '-c', "$prelude exec php -c " . escapeshellarg(self::INI) . " $script"], $variables);
        $hasMetrics = !isset($variables['BENCHMARK']);
        self::waitUntil('the start of the daemon', function () use ($hasMetrics): bool {
            if (!$this->isRunning()) {
                throw new \RuntimeException("the daemon ended at once: {$this->errors()}");
            }
            return $hasMetrics ? $this->get('/healthz') !== '' : $this->tryConnect() === 0;
        });
    }

    public function __destruct()
    {
        if ($this->isRunning()) {
            proc_terminate($this->process, SIGKILL);
        }
        @unlink($this->socket);
        @rmdir($this->folder);
    }

    /**
     * Runs the daemon with arguments that make it exit by itself.
     *
     * @param list<string> $arguments
     * @param array<string, string> $variables whole names
     * @return array{int, string, string} exit code, stdout, stderr
     */
    public static function call(array $arguments, array $variables = []): array
    {
        $command = ['php', '-c', self::INI, self::SCRIPT, ...$arguments];
        $variables['PATH'] = (string) getenv('PATH');
        $process = proc_open($command, [1 => ['pipe', 'w'], 2 => ['pipe', 'w']], $pipes, null, $variables);
        $output = (string) stream_get_contents($pipes[1]);
        $errors = (string) stream_get_contents($pipes[2]);
        return [proc_close($process), $output, $errors];
    }

    /**
     * @param list<string> $command
     * @param array<string, string|int> $variables
     */
    private function open(array $command, array $variables): void
    {
        $environment = ['PATH' => (string) getenv('PATH')];
        foreach ($variables as $name => $value) {
            $environment["DAEMON_$name"] = (string) $value;
        }
        $streams = [['file', '/dev/null', 'r'], ['pipe', 'w'], ['pipe', 'w']];
        $this->process = proc_open($command, $streams, $this->pipes, null, $environment);
        stream_set_blocking($this->pipes[2], false);
    }

    private static function freeAddress(): string
    {
        $server = stream_socket_server('tcp://127.0.0.1:0');
        return (string) stream_socket_get_name($server, false);
    }

    /** Waits for a condition, with a generous limit. */
    public static function waitUntil(string $what, \Closure $condition): void
    {
        $deadline = hrtime(true) + self::LIMIT_S * 1_000_000_000;
        while (!$condition()) {
            if (hrtime(true) > $deadline) {
                throw new \RuntimeException("timed out waiting for $what");
            }
            usleep(2_000);
        }
    }

    public function isRunning(): bool
    {
        $status = proc_get_status($this->process);
        if (!$status['running'] && $this->code === null) {
            $this->code = $status['exitcode'];
        }
        return $status['running'];
    }

    public function pid(): int
    {
        return proc_get_status($this->process)['pid'];
    }

    public function signal(int $signal): void
    {
        posix_kill($this->pid(), $signal);
    }

    /** Returns the output on stderr so far. */
    public function errors(): string
    {
        return $this->errors .= stream_get_contents($this->pipes[2]);
    }

    /**
     * Waits until the daemon ends.
     *
     * @return array{?int, string} the exit code, and the output on stdout
     */
    public function wait(): array
    {
        self::waitUntil('the end of the daemon', fn () => !$this->isRunning());
        return [$this->code, (string) stream_get_contents($this->pipes[1])];
    }

    /** Returns a connection to the handoff socket. */
    public function connect(): Socket
    {
        $sender = socket_create(AF_UNIX, $this->typeNumber(), 0);
        socket_connect($sender, $this->socket);
        return $sender;
    }

    /** Returns the error number of connecting, or 0. */
    public function tryConnect(): int
    {
        $sender = socket_create(AF_UNIX, $this->typeNumber(), 0);
        return @socket_connect($sender, $this->socket) ? 0 : socket_last_error($sender);
    }

    private function typeNumber(): int
    {
        return $this->type === SocketType::Stream ? SOCK_STREAM : SOCK_SEQPACKET;
    }

    /**
     * Returns both ends of a client's connection: the test's end, and the end to hand over.
     *
     * @return array{Socket, Socket}
     */
    public static function client(): array
    {
        socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $pair);
        // Makes a failing test end.
        socket_set_option($pair[0], SOL_SOCKET, SO_RCVTIMEO, ['sec' => 30, 'usec' => 0]);
        return $pair;
    }

    /** @param list<mixed> $descriptors sockets and streams */
    public static function pass(Socket $sender, string $payload, array $descriptors): void
    {
        $message = ['iov' => [$payload]];
        if ($descriptors !== []) {
            // PHP 8.2 sends descriptor 0 instead of a Socket; a stream of the socket is sent correctly.
            $descriptors = array_map(static fn ($one) => $one instanceof Socket ? socket_export_stream($one) : $one, $descriptors);
            $message['control'] = [['level' => SOL_SOCKET, 'type' => SCM_RIGHTS, 'data' => $descriptors]];
        }
        if (socket_sendmsg($sender, $message, 0) === false) {
            throw new \RuntimeException('sendmsg: ' . socket_strerror(socket_last_error($sender)));
        }
    }

    /** Hands over a client. Returns the test's end. */
    public function handOver(string $payload = self::PAYLOAD): Socket
    {
        [$ours, $theirs] = self::client();
        self::pass($this->connect(), $payload, [$theirs]);
        return $ours;
    }

    /** Hands over a client, and reads the whole answer. */
    public function ask(string $payload = self::PAYLOAD): string
    {
        return self::readAll($this->handOver($payload));
    }

    public static function readAll(Socket $client): string
    {
        $all = '';
        while (($piece = @socket_read($client, 65_536)) !== '') {
            if ($piece === false) {
                if (socket_last_error($client) === SOCKET_ECONNRESET) {
                    break;
                }
                throw new \RuntimeException('reading: ' . socket_strerror(socket_last_error($client)));
            }
            $all .= $piece;
        }
        return $all;
    }

    public static function readExactly(Socket $client, int $length): string
    {
        if (socket_recv($client, $bytes, $length, MSG_WAITALL) !== $length) {
            throw new \RuntimeException("fewer than $length bytes arrived");
        }
        return $bytes;
    }

    /** Returns true if the daemon closes a connection without writing to it. */
    public static function isHungUp(Socket $sender): bool
    {
        socket_set_option($sender, SOL_SOCKET, SO_RCVTIMEO, ['sec' => 30, 'usec' => 0]);
        // With unread data, the end of a stream connection is reported as a reset.
        return in_array(@socket_read($sender, 1), ['', false], true)
            && socket_last_error($sender) !== SOCKET_EAGAIN;
    }

    /** Returns the body of a page; empty if there is no response. */
    public function get(string $path): string
    {
        $answer = $this->request("GET $path HTTP/1.1\r\nhost: test\r\n\r\n");
        return explode("\r\n\r\n", $answer, 2)[1] ?? '';
    }

    public function request(string $bytes): string
    {
        $client = @stream_socket_client("tcp://{$this->address}");
        if ($client === false) {
            return '';
        }
        fwrite($client, $bytes);
        stream_socket_shutdown($client, STREAM_SHUT_WR);
        return (string) stream_get_contents($client);
    }

    /** Returns the value of a metric, named with its labels. */
    public function metric(string $name): float
    {
        preg_match('/^' . preg_quote($name, '/') . ' (.*)$/m', $this->get('/metrics'), $found);
        return (float) ($found[1] ?? throw new \RuntimeException("$name is not on the page"));
    }

    public function handoffErrors(string $reason): int
    {
        return (int) $this->metric("daemon_handoff_errors_total{reason=\"$reason\"}");
    }

    public function streamErrors(string $reason): int
    {
        return (int) $this->metric("daemon_stream_errors_total{reason=\"$reason\"}");
    }
}
