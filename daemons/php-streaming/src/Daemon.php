<?php

declare(strict_types=1);

namespace Drover\Streaming;

use Drover\Streaming\Handoff\HandoffServer;
use Drover\Streaming\Handoff\Listener;
use Drover\Streaming\Handoff\Request;
use Drover\Streaming\Http\HttpServer;
use Drover\Streaming\Loop\EpollDriver;
use Drover\Streaming\Metrics\Metrics;
use Drover\Streaming\Options\Config;
use Drover\Streaming\Stream\Closer;
use Drover\Streaming\Stream\DelayQueue;
use Drover\Streaming\Stream\FiberPool;
use Drover\Streaming\Stream\Response;
use Drover\Streaming\Stream\Writer;
use Drover\Streaming\System\Limits;
use Drover\Streaming\System\System;
use RuntimeException;

/** The daemon: its sockets, its streams, and its shutdown. */
final class Daemon
{
    private const EXTENSIONS = ['ffi', 'pcntl', 'posix'];
    /** The interval of the checks for open connections during shutdown, in milliseconds. */
    private const POLL_INTERVAL = 5;

    public readonly Metrics $metrics;
    private readonly EpollDriver $loop;
    private readonly Listener $listener;
    private readonly HandoffServer $handoffs;
    private readonly Closer $closer;
    private bool $isStopping = false;

    /** @throws RuntimeException if the daemon cannot start; the message states the reason and the remedy */
    public function __construct(private readonly Config $config)
    {
        Limits::raiseOpenFiles();
        $system = new System(Request::MAX_PAYLOAD_BYTES + 1);
        $this->loop = new EpollDriver($system);
        $this->metrics = new Metrics();
        // Before clients can connect: a signal from now on is handled as soon as the loop runs.
        $this->loop->onSignal(SIGTERM, $this->onSignal(...));
        $this->loop->onSignal(SIGINT, $this->onSignal(...));
        // Under nohup the daemon continues without its terminal.
        if (!self::ignoresHangUp()) {
            // Never ends the streams: the shell and the kernel send one each when a terminal closes.
            $this->loop->onSignal(SIGHUP, $this->stop(...));
        }
        if ($config->metricsAddress !== null) {
            new HttpServer($system, $this->loop, $this->metrics, $config->metricsAddress);
        }
        $response = new Response($config->messageCount, $config->messageDelay);
        $queue = new DelayQueue($this->loop, DelayQueue::slotFor($config->messageDelay));
        $writer = new Writer($system, $this->loop, $this->metrics, $config->writeTimeout);
        $this->closer = new Closer($system, $this->loop);
        $fibers = new FiberPool($this->closer, $this->metrics, $response, $queue, $writer);
        $capacity = Limits::capacity($config->maxConnections);
        // Last, so that no error leaves the socket file behind.
        $this->listener = Listener::bind($system, $config);
        $this->handoffs = new HandoffServer(
            $system,
            $this->loop,
            $this->listener,
            $config->socketType,
            $fibers,
            $this->closer,
            $queue,
            $this->metrics,
            $capacity,
        );
    }

    /**
     * Checks that the extensions and AMP 2 are installed.
     *
     * @throws RuntimeException
     */
    public static function checkRequirements(): void
    {
        foreach (self::EXTENSIONS as $extension) {
            if (!extension_loaded($extension)) {
                throw new RuntimeException(
                    "the PHP extension $extension is missing: install php8.2-common and php8.2-cli",
                );
            }
        }
        if (!class_exists(\Amp\Loop\Driver::class)) {
            throw new RuntimeException('AMP 2 is missing: install the Debian package php-amphp-amp, or run '
                . '`composer update` in ' . dirname(__DIR__));
        }
    }

    /** PHP has replaced the inherited action of the signal, so that only the signal shows it: to a child. */
    private static function ignoresHangUp(): bool
    {
        $child = pcntl_fork();
        if ($child === 0) {
            posix_kill(posix_getpid(), SIGHUP);
            posix_kill(posix_getpid(), SIGKILL);
        }
        return pcntl_waitpid($child, $status) === $child && pcntl_wtermsig($status) === SIGKILL;
    }

    /** Serves until a signal starts the shutdown, and finishes it. A second signal ends it at once. */
    public function run(): void
    {
        try {
            $this->loop->run();
        } finally {
            $this->listener->removeFile();
            $this->metrics->cancelAll();
        }
    }

    private function onSignal(): void
    {
        if ($this->isStopping) {
            $this->loop->stop();
        }
        $this->stop();
    }

    private function stop(): void
    {
        if ($this->isStopping) {
            return;
        }
        $this->isStopping = true;
        $this->handoffs->stop();
        $this->loop->delay(intdiv($this->config->shutdownGrace, 1_000_000), $this->loop->stop(...));
        $this->loop->repeat(self::POLL_INTERVAL, function (): void {
            if ($this->handoffs->isOver() && $this->metrics->activeConnections === 0 && $this->closer->isOver()) {
                $this->loop->stop();
            }
        });
    }
}
