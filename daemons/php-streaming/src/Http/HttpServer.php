<?php

declare(strict_types=1);

namespace Drover\Streaming\Http;

use Drover\Streaming\Loop\EpollDriver;
use Drover\Streaming\Metrics\Metrics;
use Drover\Streaming\System\System;
use RuntimeException;

/** The HTTP server of `/metrics` and `/healthz`. */
final class HttpServer
{
    private const BACKLOG = 128;
    /** The pause in accepting after an error, most likely a lack of descriptors, in milliseconds. */
    private const PAUSE = 10;

    private readonly int $listener;
    private string $watcher = '';

    /**
     * @param array{string, int} $address in binary, and the port
     * @throws RuntimeException if it cannot listen on the address
     */
    public function __construct(
        private readonly System $system,
        private readonly EpollDriver $loop,
        private readonly Metrics $metrics,
        array $address,
    ) {
        $listener = $system->boundTcpSocket(...$address);
        $result = $listener < 0 ? $listener : $system->listen($listener, self::BACKLOG);
        if ($result < 0) {
            throw new RuntimeException(sprintf(
                'cannot listen on %s port %d for the metrics: %s (choose another address with --metrics-addr or '
                . 'DAEMON_METRICS_ADDR, or disable the metrics with DAEMON_METRICS_ENABLED=false)',
                inet_ntop($address[0]),
                $address[1],
                posix_strerror(-$result),
            ));
        }
        $this->listener = $listener;
        $this->watch();
    }

    private function watch(): void
    {
        $this->watcher = $this->loop->onReadable($this->listener, $this->accept(...), $this->pause(...));
    }

    private function accept(): void
    {
        $client = $this->system->accept($this->listener);
        if ($client >= 0) {
            new HttpConnection($this->system, $this->loop, $this->metrics, $client);
        } elseif (!in_array(-$client, [System::EAGAIN, System::EINTR, System::ECONNABORTED], true)) {
            $this->pause();
        }
    }

    private function pause(): void
    {
        $this->loop->cancel($this->watcher);
        $this->loop->delay(self::PAUSE, $this->watch(...));
    }
}
