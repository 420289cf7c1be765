<?php

declare(strict_types=1);

namespace Drover\Streaming\Tests;

use Drover\Streaming\Handoff\Request;
use PHPUnit\Framework\TestCase;
use UnexpectedValueException;

require_once __DIR__ . '/bootstrap.php';

/** Payloads for which PHP's JSON parser alone would give another result. */
final class RequestTest extends TestCase
{
    public function testEveryProperPrefixOfAnObjectIsIncomplete(): void
    {
        $payload = '{"prompt":"a } \"b\\\\","response_headers":{"X":"}"},"list":[{}],"user_id":1}';
        for ($length = 1; $length < strlen($payload); $length++) {
            self::assertNull(Request::parse(substr($payload, 0, $length)), substr($payload, 0, $length));
        }
        self::assertSame(1, Request::parse($payload)?->userId);
    }

    public function testAPayloadThatMoreBytesCannotCompleteIsInvalid(): void
    {
        foreach ([
            'hello',
            '[1,2]',
            '{]}',
            '{} {}',
            '{"a":1,}',
            "{\"prompt\":\"\xff\"}",
            '{"prompt":"\ud800"}',
            '{"prompt":NULL}',
            '{"user_id":9223372036854775808}',
            '{"user_id":1.0}',
            '{"prompt":99999999999999999999}',
            '{"response_headers":[]}',
            '{"response_headers":{"0":1}}',
        ] as $payload) {
            try {
                Request::parse($payload);
                self::fail("$payload was accepted");
            } catch (UnexpectedValueException $invalid) {
                self::assertNotSame('', $invalid->getMessage());
            }
        }
    }

    public function testKeysThatPhpCannotHoldAreUnknownLikeOthers(): void
    {
        $request = Request::parse('{"\u0000a":1,"":2,"1":3,"prompt":"\u0000b","response_headers":{"\u0000c":"d","7":"e"}}');
        self::assertInstanceOf(Request::class, $request);
        self::assertSame("\0b", $request->prompt);
        self::assertSame('e', $request->responseHeaders['7']);
    }

    public function testDeepNestingIsRefusedAndDoesNotCrash(): void
    {
        $deep = str_repeat('[', 60_000);
        $this->expectException(UnexpectedValueException::class);
        Request::parse('{"a":' . $deep . str_repeat(']', 60_000) . '}');
    }
}
