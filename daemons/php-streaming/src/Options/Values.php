<?php

declare(strict_types=1);

namespace Drover\Streaming\Options;

use Drover\Streaming\WrongCall;

/** How the values of options are read. Each complains with what to write instead. */
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

    /** A duration as Go writes it, such as 50ms, 1m30s or 0, in nanoseconds. */
    public static function duration(string $text): int
    {
        if ($text === '0') {
            return 0;
        }
        $part = '(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)';
        if (preg_match("/^(?:$part)+\$/D", $text) !== 1) {
            throw new WrongCall('no duration: write for instance 50ms, 5625ms, 1m30s or 0');
        }
        preg_match_all("/$part/", $text, $parts, PREG_SET_ORDER);
        $sum = 0;
        foreach ($parts as [, $number, $unit]) {
            $whole = str_contains($number, '.') ? (float) $number : +$number;
            $sum += $whole * self::NANOSECONDS[$unit];
        }
        return self::nanoseconds($sum);
    }

    /** A number of milliseconds, in nanoseconds. */
    public static function milliseconds(string $text): int
    {
        if (preg_match('/^\d+(\.\d+)?$/D', $text) !== 1) {
            throw new WrongCall('no number of milliseconds: write for instance 50, or use --message-delay 50ms');
        }
        return self::nanoseconds(+$text * 1_000_000);
    }

    private static function nanoseconds(int|float $sum): int
    {
        if ($sum > PHP_INT_MAX / 2) {
            throw new WrongCall('too long: write a duration of less than 100 years');
        }
        return (int) round($sum);
    }

    /** Permissions in octal. */
    public static function mode(string $text): int
    {
        if (preg_match('/^(?:0o)?0*([0-7]{1,3})$/D', $text, $digits) !== 1) {
            throw new WrongCall('write the permissions in octal, for instance 0660');
        }
        return (int) octdec($digits[1]);
    }

    public static function number(string $text, int $least, int $most = PHP_INT_MAX): int
    {
        $options = ['options' => ['min_range' => $least, 'max_range' => $most]];
        $number = ctype_digit($text) ? filter_var(ltrim($text, '0') ?: '0', FILTER_VALIDATE_INT, $options) : false;
        if ($number === false) {
            $range = $most === PHP_INT_MAX ? "$least or more" : "$least to $most";
            throw new WrongCall("write a whole number, $range");
        }
        return $number;
    }

    public static function boolean(string $text): bool
    {
        return match (strtolower($text)) {
            '1', 'y', 'yes', 't', 'true', 'on' => true,
            '0', 'n', 'no', 'f', 'false', 'off' => false,
            default => throw new WrongCall('no boolean: write true or false'),
        };
    }

    /**
     * One of the cases of an enum.
     *
     * @template T of \BackedEnum
     * @param class-string<T> $enum
     * @return T
     */
    public static function choice(string $text, string $enum): \BackedEnum
    {
        $names = implode(' or ', array_map(static fn (\BackedEnum $case) => $case->value, $enum::cases()));
        return $enum::tryFrom($text) ?? throw new WrongCall("write $names");
    }

    /**
     * A host and a port: `127.0.0.1:9090`, `[::1]:9090`, `localhost:9090`.
     *
     * @return array{string, int} the address in binary, and the port
     */
    public static function address(string $text): array
    {
        $remedy = 'write host and port, for instance 127.0.0.1:9090';
        if (preg_match('/^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/D', $text, $parts) !== 1 || $parts[3] > 65535) {
            throw new WrongCall($remedy);
        }
        $host = $parts[1] !== '' ? $parts[1] : @gethostbyname($parts[2]);
        $binary = filter_var($host, FILTER_VALIDATE_IP) !== false ? inet_pton($host) : false;
        return $binary !== false ? [$binary, (int) $parts[3]] : throw new WrongCall("the host has no address; $remedy");
    }

    public static function path(string $text): string
    {
        return $text !== '' ? $text : throw new WrongCall('write a path, for instance /var/run/streaming-daemon.sock');
    }

    public static function backend(string $text): string
    {
        return $text === 'mock' ? $text : throw new WrongCall('this daemon has the backend mock alone; write mock');
    }
}
