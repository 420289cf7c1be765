<?php

declare(strict_types=1);

namespace Drover\Streaming;

/** Warnings on stderr, with a limit per second: many bad handoffs must not cause as many lines. */
final class Log
{
    private const LINES_PER_SECOND = 5;

    private int $second = 0;
    private int $lines = 0;
    private int $suppressed = 0;

    /** Writes a line, unless the limit of this second is reached. */
    public function warn(string $message): void
    {
        $second = hrtime()[0];
        if ($second !== $this->second) {
            $this->second = $second;
            $this->lines = 0;
        }
        if (++$this->lines > self::LINES_PER_SECOND) {
            $this->suppressed++;
            return;
        }
        $note = $this->suppressed > 0 ? " ({$this->suppressed} earlier lines were left out)" : '';
        $this->suppressed = 0;
        self::write($message . $note);
    }

    /** Writes a line, without a limit. */
    public static function write(string $message): void
    {
        // If stderr is closed, nothing can be done about it.
        @fwrite(STDERR, "streaming-daemon: $message\n");
    }
}
