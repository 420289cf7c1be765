<?php

declare(strict_types=1);

namespace Drover\Streaming\Http;

use Drover\Streaming\Loop\EpollDriver;
use Drover\Streaming\Metrics\Metrics;
use Drover\Streaming\Metrics\Page;
use Drover\Streaming\System\System;

/** An HTTP connection with one request. The watchers of the loop keep the object alive. */
final class HttpConnection
{
    /** The time limit for a request and its response, in milliseconds. */
    private const TIMEOUT = 5_000;
    private const MAX_HEAD_BYTES = 8_192;

    private string $request = '';
    private string $response = '';
    private string $watcher;
    private readonly string $timer;

    public function __construct(
        private readonly System $system,
        private readonly EpollDriver $loop,
        private readonly Metrics $metrics,
        private readonly int $client,
    ) {
        $this->watcher = $loop->onReadable($client, $this->read(...), $this->close(...));
        $this->timer = $loop->delay(self::TIMEOUT, $this->close(...));
    }

    private function read(): void
    {
        $message = $this->system->receive($this->client, self::MAX_HEAD_BYTES);
        if ($message === -System::EAGAIN || $message === -System::EINTR) {
            return;
        }
        if (is_int($message)) {
            $this->close();
            return;
        }
        $this->request .= $message->payload;
        if (str_contains($this->request, "\r\n\r\n")) {
            $this->response = $this->respond();
            $this->write();
        } elseif ($message->isEnd() || strlen($this->request) > self::MAX_HEAD_BYTES) {
            $this->response = self::text('400 Bad Request', "this is not an HTTP request\n");
            $this->write();
        }
    }

    private function write(): void
    {
        $this->loop->cancel($this->watcher);
        $sent = $this->system->send($this->client, $this->response);
        if ($sent < 0 && $sent !== -System::EAGAIN && $sent !== -System::EINTR) {
            $this->close();
            return;
        }
        $this->response = substr($this->response, max(0, $sent));
        if ($this->response === '') {
            $this->close();
        } else {
            $this->watcher = $this->loop->onWritable($this->client, $this->write(...), $this->close(...));
        }
    }

    private function close(): void
    {
        $this->loop->cancel($this->watcher);
        $this->loop->cancel($this->timer);
        $this->system->close($this->client);
    }

    private function respond(): string
    {
        if (preg_match('~^([A-Z]+) (\S+) HTTP/1\.[01]\r\n~', $this->request, $parts) !== 1) {
            return self::text('400 Bad Request', "this is not an HTTP request\n");
        }
        [, $method, $target] = $parts;
        if ($method !== 'GET' && $method !== 'HEAD') {
            return self::text('405 Method Not Allowed', "only GET and HEAD\n", "allow: GET, HEAD\r\n");
        }
        $response = match (strtok($target, '?')) {
            '/metrics' => self::text('200 OK', Page::render($this->metrics), contentType: 'text/plain; version=0.0.4'),
            '/healthz' => self::text('200 OK', "ok\n"),
            default => self::text('404 Not Found', "there are /metrics and /healthz\n"),
        };
        return $method === 'GET' ? $response : substr($response, 0, strpos($response, "\r\n\r\n") + 4);
    }

    private static function text(
        string $status,
        string $body,
        string $headers = '',
        string $contentType = 'text/plain',
    ): string {
        $length = strlen($body);
        return "HTTP/1.1 $status\r\ncontent-type: $contentType; charset=utf-8\r\ncontent-length: $length\r\n"
            . "connection: close\r\n$headers\r\n$body";
    }
}
