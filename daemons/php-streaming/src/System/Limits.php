<?php

declare(strict_types=1);

namespace Drover\Streaming\System;

use Drover\Streaming\Log;

/** The system's limits for this process. */
final class Limits
{
    /** The descriptors reserved for everything but streams: the standard ones, the loop, the metrics page, and the
     * handoffs being read. */
    private const RESERVED_FILES = 64;
    /** The memory mappings reserved for PHP itself and for its heap. */
    private const RESERVED_MAPPINGS = 2_000;
    /** The C stack of a fiber and its guard page. All clients may stop reading at once, and each then keeps a fiber. */
    private const MAPPINGS_PER_FIBER = 2;

    /** Raises the soft limit of open files to the hard limit. */
    public static function raiseOpenFiles(): void
    {
        $limits = posix_getrlimit();
        if ($limits['soft openfiles'] !== $limits['hard openfiles']) {
            $hard = $limits['hard openfiles'];
            posix_setrlimit(POSIX_RLIMIT_NOFILE, (int) $hard, (int) $hard);
        }
    }

    /** Returns the maximum number of open streams, at most `$wanted`. Logs the limit that reduces it. */
    public static function capacity(int $wanted): int
    {
        $capacity = $wanted;
        foreach (self::streamsByLimit() as $limit => $streams) {
            if ($streams < $capacity) {
                $capacity = max(1, $streams);
                $reason = $limit;
            }
        }
        if (isset($reason)) {
            Log::write("$reason allows only $capacity streams; for more, raise it");
        }
        return $capacity;
    }

    /** @return array<string, int> the number of streams that each limit allows, by the name of the limit */
    private static function streamsByLimit(): array
    {
        $limits = [];
        $files = posix_getrlimit()['soft openfiles'];
        if (is_int($files)) {
            $limits['the limit of open files (ulimit -Hn)'] = $files - self::RESERVED_FILES;
        }
        $mappings = @file_get_contents('/proc/sys/vm/max_map_count');
        if ($mappings !== false) {
            $limits['the limit of memory mappings (sysctl vm.max_map_count)']
                = intdiv((int) $mappings - self::RESERVED_MAPPINGS, self::MAPPINGS_PER_FIBER);
        }
        return $limits;
    }
}
