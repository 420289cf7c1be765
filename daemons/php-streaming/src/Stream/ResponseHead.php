<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

/** The head of the response, with the permitted headers of the request. */
final class ResponseHead
{
    private const FIXED = "HTTP/1.1 200 OK\r\n"
        . "Content-Type: text/event-stream\r\n"
        . "Cache-Control: no-cache\r\n"
        . "Connection: close\r\n"
        . "X-Accel-Buffering: no\r\n";

    /** The head of a stream without additional headers. */
    public const PLAIN = self::FIXED . "\r\n";

    /** The whole response to a client above the limit. */
    public const REFUSAL = "HTTP/1.1 503 Service Unavailable\r\n"
        . "Retry-After: 1\r\n"
        . "Connection: close\r\n"
        . "Content-Length: 0\r\n"
        . "\r\n";

    /** Headers that the daemon sets itself, and those that would change the meaning of the body. */
    private const RESERVED = [
        'content-type' => true,
        'cache-control' => true,
        'connection' => true,
        'x-accel-buffering' => true,
        'transfer-encoding' => true,
        'content-length' => true,
        'content-encoding' => true,
    ];

    /**
     * Returns a head with the permitted ones of these headers.
     *
     * @param array<string> $headers values by name
     */
    public static function with(array $headers): string
    {
        if ($headers === []) {
            return self::PLAIN;
        }
        // By bytes, so that every daemon sends them in the same order.
        ksort($headers, SORT_STRING);
        $lines = '';
        foreach ($headers as $name => $value) {
            // PHP turns array keys that consist of digits into integers.
            if (self::isAllowed((string) $name, $value)) {
                $lines .= "$name: $value\r\n";
            }
        }
        return self::FIXED . "$lines\r\n";
    }

    private static function isAllowed(string $name, string $value): bool
    {
        // A token as defined in RFC 9110 §5.6.2.
        return preg_match('/^[!#$%&\'*+\-.^_`|~0-9A-Za-z]+$/D', $name) === 1
            && !isset(self::RESERVED[strtolower($name)])
            && preg_match('/[\x00-\x08\x0a-\x1f\x7f]/', $value) === 0;
    }
}
