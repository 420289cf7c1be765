<?php

declare(strict_types=1);

namespace Drover\Streaming\System;

use Drover\Streaming\Options\EngineKind;

/** The system's limits for this process. */
final class Limits
{
    /** The descriptors reserved for everything but streams: the standard ones, the loop, the metrics page, and the
     * handoffs being read. */
    private const RESERVED_FILES = 64;
    /** The memory mappings reserved for PHP itself and for its heap. */
    private const RESERVED_MAPPINGS = 2_000;
    /** The C stack of a fiber and its guard page. */
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

    /** Returns the maximum number of open streams, at most `$wanted`, and the limit that reduced it, or null. */
    public static function capacity(int $wanted, EngineKind $engine): Capacity
    {
        $files = posix_getrlimit()['soft openfiles'];
        $capacity = new Capacity($wanted, null);
        if (is_int($files)) {
            $capacity = $capacity->atMost($files - self::RESERVED_FILES, 'the limit of open files (ulimit -Hn)');
        }
        $mappings = @file_get_contents('/proc/sys/vm/max_map_count');
        if ($engine === EngineKind::Fibers && $mappings !== false) {
            $room = intdiv((int) $mappings - self::RESERVED_MAPPINGS, self::MAPPINGS_PER_FIBER);
            $capacity = $capacity->atMost($room, 'the limit of memory mappings (sysctl vm.max_map_count)');
        }
        return $capacity;
    }
}
