<?php

declare(strict_types=1);

namespace Drover\Streaming\Handoff;

use UnexpectedValueException;

/** The request of a handoff. Its payload is a JSON object with three known keys. */
final class Request
{
    /** The maximum length of a payload. A longer one is refused. */
    public const MAX_PAYLOAD_BYTES = 128 * 1024;

    /** NULs, which Apache sends without data, and the white space of JSON. */
    private const PADDING = "\0 \t\n\r";
    /** The maximum depth of objects and lists, the payload itself included: PHP counts one level more. */
    private const DEPTH = 128;

    /** @param array<string> $responseHeaders values by name */
    public function __construct(
        public readonly int $userId = 0,
        public readonly string $prompt = '',
        public readonly array $responseHeaders = [],
    ) {
    }

    /**
     * Parses a payload. Returns null if the payload is only the beginning of one: on a stream socket the rest may
     * still arrive.
     *
     * @throws UnexpectedValueException if it is not a request, and more bytes could not complete it
     */
    public static function parse(string $bytes): ?self
    {
        $json = trim($bytes, self::PADDING);
        if ($json === '') {
            return new self();
        }
        if ($json[0] !== '{') {
            throw new UnexpectedValueException('it is not a JSON object');
        }
        // Avoids a full parse for each piece of a payload that arrives in many pieces.
        if ($json[-1] !== '}') {
            return null;
        }
        $object = self::decode($json);
        if ($object === null) {
            $error = json_last_error_msg();
            return self::isIncomplete($json) ? null : throw new UnexpectedValueException($error);
        }
        return new self(self::userId($object), self::prompt($object), self::headers($object));
    }

    /** Decodes to objects instead of arrays, because `{}` would otherwise equal `[]`. */
    private static function decode(string $json): ?\stdClass
    {
        $object = json_decode($json, false, self::DEPTH);
        if (json_last_error() === JSON_ERROR_INVALID_PROPERTY_NAME) {
            // PHP's objects have no keys that begin with NUL. No known key does, so the NUL can be replaced.
            $json = preg_replace('/"\\\\u0000((?:[^"\\\\]|\\\\.)*+"\s*:)/s', '"\\u0001$1', $json);
            $object = json_decode((string) $json, false, self::DEPTH);
        }
        return $object;
    }

    /** Returns true if an object that does not parse ends within a string or within its brackets. */
    private static function isIncomplete(string $json): bool
    {
        $bare = (string) preg_replace('/"[^"\\\\]*+(?:\\\\.[^"\\\\]*+)*+"/s', '', $json);
        $counts = count_chars($bare, 0);
        return $counts[ord('"')] > 0
            || $counts[ord('{')] + $counts[ord('[')] > $counts[ord('}')] + $counts[ord(']')];
    }

    private static function userId(\stdClass $object): int
    {
        $value = $object->user_id ?? 0;
        // json_decode turns integers beyond 64 bits into floats.
        return is_int($value) ? $value : throw new UnexpectedValueException('user_id: it is not a 64-bit integer');
    }

    private static function prompt(\stdClass $object): string
    {
        $value = $object->prompt ?? '';
        return is_string($value) ? $value : throw new UnexpectedValueException('prompt: it is not a string');
    }

    /** @return array<string> */
    private static function headers(\stdClass $object): array
    {
        $value = $object->response_headers ?? null;
        if ($value === null) {
            return [];
        }
        $headers = $value instanceof \stdClass ? (array) $value : [null];
        foreach ($headers as $header) {
            if (!is_string($header)) {
                throw new UnexpectedValueException('response_headers: it is not an object of strings');
            }
        }
        return $headers;
    }
}
