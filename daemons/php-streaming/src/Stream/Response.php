<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

use Drover\Streaming\Handoff\Request;

/**
 * The bytes of the response. Parts that all streams of this process share are rendered once.
 *
 * A stream is `messages + 1` writes: the head is write 0 and event k is write k. Event 1 is due with the head, event k
 * at start + (k − 1) × delay, and the end mark travels with the last.
 */
final class Response
{
    private const DONE = "data: [DONE]\n\n";
    private const GREETING = 'Hello from the streaming daemon. Prompt: ';
    /** The number of bytes of the prompt that the greeting repeats. */
    private const PROMPT_EXCERPT = 50;
    /** Escapes only what JSON requires. */
    private const JSON = JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_LINE_TERMINATORS
        | JSON_THROW_ON_ERROR;

    /** The texts of the events between the user ID and the end mark, the same as those of all other daemons. */
    private const LINES = [
        'This answer comes from the mock backend.',
        'It computes nothing: waiting is its only work.',
        'Your socket was accepted by another process.',
        'It travelled here as a control message.',
        'From now on this daemon alone writes to it.',
        'Each line that you read is one event.',
        'Each event is one write to your socket.',
        'Between two events passes one fixed delay.',
        'Nobody is asked for a token while you wait.',
        'An idle stream should cost a few bytes.',
        'A thousand of them should cost no more each.',
        'If you stop reading, only you will wait.',
        'If you go away, your place becomes free.',
        'The next event is the last one with text.',
        'After it comes the mark that ends it all.',
    ];

    /** @var list<string> */
    private readonly array $lines;
    private readonly string $last;

    /** @param int $delay in nanoseconds */
    public function __construct(public readonly int $messages, public readonly int $delay)
    {
        $this->lines = array_map(self::render(...), self::LINES);
        $this->last = self::render('[DONE-CONTENT]') . self::DONE;
    }

    /** Returns the time between the head and the due time of write number `$write`, in nanoseconds. */
    public function offset(int $write): int
    {
        return $write < 2 ? 0 : ($write - 1) * $this->delay;
    }

    /** Returns the head, with the end mark if there are no events. */
    public function head(Request $request): string
    {
        $head = ResponseHead::with($request->responseHeaders);
        return $this->messages === 0 ? $head . self::DONE : $head;
    }

    /** Returns event 1; empty if event 1 is the last one or does not exist. */
    public function greeting(Request $request): string
    {
        return $this->messages < 2 ? '' : self::render(self::GREETING . self::excerpt($request->prompt));
    }

    /** Returns the bytes of the next write of a stream. The last event has the end mark behind it. */
    public function bytes(Stream $stream): string
    {
        $write = $stream->next;
        return match (true) {
            $write === 0 => $stream->head,
            $write === $this->messages => $this->last,
            $write > 2 => $this->lines[($write - 3) % count($this->lines)],
            $write === 2 => "data: {\"content\":\"User ID: $stream->userId\"}\n\n",
            default => $stream->greeting,
        };
    }

    /** Returns an event with this content. */
    private static function render(string $content): string
    {
        return 'data: {"content":' . json_encode($content, self::JSON) . "}\n\n";
    }

    /** Returns the longest prefix of whole characters within the limit, with dots if the prompt is longer. */
    private static function excerpt(string $prompt): string
    {
        if (strlen($prompt) <= self::PROMPT_EXCERPT) {
            return $prompt;
        }
        $end = self::PROMPT_EXCERPT;
        while ((ord($prompt[$end]) & 0xc0) === 0x80) {
            $end--;
        }
        return substr($prompt, 0, $end) . '...';
    }
}
