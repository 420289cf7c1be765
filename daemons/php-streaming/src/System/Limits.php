<?php

declare(strict_types=1);

namespace Drover\Streaming\System;

use Drover\Streaming\Options\EngineKind;

/** What the system allows this process. */
final class Limits
{
    /** Descriptors that are kept for other things than streams: the standard ones, the loop, the metrics page, the
     * handoffs that are just being read. */
    private const RESERVED_FILES = 64;
    /** Memory mappings that are kept for PHP itself and for its heap. */
    private const RESERVED_MAPPINGS = 2_000;
    /** A fiber's C stack and its guard page. */
    private const MAPPINGS_PER_FIBER = 2;

    /** Raises the soft limit of open files to the hard one. */
    public static function raiseOpenFiles(): void
    {
        $limits = posix_getrlimit();
        if ($limits['soft openfiles'] !== $limits['hard openfiles']) {
            $hard = $limits['hard openfiles'];
            posix_setrlimit(POSIX_RLIMIT_NOFILE, (int) $hard, (int) $hard);
        }
    }

    /** How many streams may be open at once if so many are wanted, and what limits it (null if nothing does). */
    public static function capacity(int $wanted, EngineKind $engine): Capacity
    {
        $files = posix_getrlimit()['soft openfiles'];
        $capacity = new Capacity($wanted, null);
        if (is_int($files)) {
            $capacity = $capacity->atMost($files - self::RESERVED_FILES, 'the limit of open files (ulimit -n)');
        }
        $mappings = @file_get_contents('/proc/sys/vm/max_map_count');
        if ($engine === EngineKind::Fibers && $mappings !== false) {
            $room = intdiv((int) $mappings - self::RESERVED_MAPPINGS, self::MAPPINGS_PER_FIBER);
            $capacity = $capacity->atMost($room, 'the limit of memory mappings (sysctl vm.max_map_count)');
        }
        return $capacity;
    }
}
