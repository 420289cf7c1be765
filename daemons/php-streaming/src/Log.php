<?php

declare(strict_types=1);

namespace Drover\Streaming;

/** Complaints on stderr, a few per second at most: a flood of bad handoffs must not become a flood of lines. */
final class Log
{
    private const LINES_PER_SECOND = 5;

    private int $second = 0;
    private int $lines = 0;
    private int $suppressed = 0;

    /** Writes a line, unless this second has had its share. */
    public function warn(string $message): void
    {
        $suppressed = $this->admit(hrtime()[0]);
        if ($suppressed !== null) {
            self::write($message . ($suppressed > 0 ? " ($suppressed earlier lines were left out)" : ''));
        }
    }

    public static function write(string $message): void
    {
        // Nothing can be done about a stderr that is gone.
        @fwrite(STDERR, "streaming-daemon: $message\n");
    }

    /** How many lines were left out before this one; null if this one is left out, too. */
    public function admit(int $second): ?int
    {
        if ($second !== $this->second) {
            $this->second = $second;
            $this->lines = 0;
        }
        if (++$this->lines > self::LINES_PER_SECOND) {
            $this->suppressed++;
            return null;
        }
        $suppressed = $this->suppressed;
        $this->suppressed = 0;
        return $suppressed;
    }
}
