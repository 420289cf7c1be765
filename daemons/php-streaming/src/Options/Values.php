<?php

declare(strict_types=1);

namespace Drover\Streaming\Options;

use Drover\Streaming\UsageError;

/** Parsers of option values. Their errors state the remedy. */
final class Values
{
    private const NANOSECONDS = [
        'ns' => 1,
        'us' => 1_000,
        'µs' => 1_000,
        'μs' => 1_000,
        'ms' => 1_000_000,
        's' => 1_000_000_000,
        'm' => 60_000_000_000,
        'h' => 3_600_000_000_000,
    ];

    /** Parses a duration in the format of Go, such as 50ms, 1m30s or 0, and returns nanoseconds. */
    public static function duration(string $text): int
    {
        if ($text === '0') {
            return 0;
        }
        $part = '(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)';
        if (preg_match("/^(?:$part)+\$/D", $text) !== 1) {
            throw new UsageError('not a duration: write for instance 50ms, 5625ms, 1m30s or 0');
        }
        preg_match_all("/$part/", $text, $parts, PREG_SET_ORDER);
        $sum = 0;
        foreach ($parts as [, $number, $unit]) {
            $whole = str_contains($number, '.') ? (float) $number : +$number;
            $sum += $whole * self::NANOSECONDS[$unit];
        }
        return self::nanoseconds($sum);
    }

    /** Parses a number of milliseconds and returns nanoseconds. */
    public static function milliseconds(string $text): int
    {
        if (preg_match('/^\d+(\.\d+)?$/D', $text) !== 1) {
            throw new UsageError('not a number of milliseconds: write for instance 50, or use --message-delay 50ms');
        }
        return self::nanoseconds(+$text * 1_000_000);
    }

    private static function nanoseconds(int|float $sum): int
    {
        if ($sum > PHP_INT_MAX / 2) {
            throw new UsageError('too long: write a duration of less than 100 years');
        }
        return (int) round($sum);
    }

    /** Parses permissions in octal. */
    public static function mode(string $text): int
    {
        if (preg_match('/^(?:0o)?0*([0-7]{1,3})$/D', $text, $digits) !== 1) {
            throw new UsageError('write the permissions in octal, for instance 0660');
        }
        return (int) octdec($digits[1]);
    }

    public static function number(string $text, int $least, int $most = PHP_INT_MAX): int
    {
        $options = ['options' => ['min_range' => $least, 'max_range' => $most]];
        $number = ctype_digit($text) ? filter_var(ltrim($text, '0') ?: '0', FILTER_VALIDATE_INT, $options) : false;
        if ($number === false) {
            $range = $most === PHP_INT_MAX ? "$least or more" : "$least to $most";
            throw new UsageError("write a whole number, $range");
        }
        return $number;
    }

    public static function boolean(string $text): bool
    {
        return match (strtolower($text)) {
            '1', 'y', 'yes', 't', 'true', 'on' => true,
            '0', 'n', 'no', 'f', 'false', 'off' => false,
            default => throw new UsageError('not a boolean: write true or false'),
        };
    }

    /**
     * Returns the case of an enum with the given value.
     *
     * @template T of \BackedEnum
     * @param class-string<T> $enum
     * @return T
     */
    public static function choice(string $text, string $enum): \BackedEnum
    {
        $names = implode(' or ', array_map(static fn (\BackedEnum $case) => $case->value, $enum::cases()));
        return $enum::tryFrom($text) ?? throw new UsageError("write $names");
    }

    /**
     * Parses a host and a port: `127.0.0.1:9090`, `[::1]:9090`, `localhost:9090`.
     *
     * @return array{string, int} the address in binary, and the port
     */
    public static function address(string $text): array
    {
        $remedy = 'write host and port, for instance 127.0.0.1:9090';
        if (preg_match('/^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/D', $text, $parts) !== 1 || $parts[3] > 65535) {
            throw new UsageError($remedy);
        }
        $host = $parts[1] !== '' ? $parts[1] : @gethostbyname($parts[2]);
        $binary = filter_var($host, FILTER_VALIDATE_IP) !== false ? inet_pton($host) : false;
        return $binary !== false ? [$binary, (int) $parts[3]] : throw new UsageError("the host has no address; $remedy");
    }

    public static function path(string $text): string
    {
        if (str_starts_with($text, '@')) {
            throw new UsageError(
                'abstract sockets (@…) are not supported: name a file, for instance /run/streaming-daemon.sock',
            );
        }
        return $text !== '' ? $text : throw new UsageError('write a path, for instance /var/run/streaming-daemon.sock');
    }

    public static function backend(string $text): string
    {
        return $text === 'mock' ? $text : throw new UsageError('this daemon has only the backend mock; write mock');
    }
}
