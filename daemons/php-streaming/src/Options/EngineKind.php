<?php

declare(strict_types=1);

namespace Drover\Streaming\Options;

/** What a stream is while it waits. */
enum EngineKind: string
{
    /** A fiber each. */
    case Fibers = 'fibers';
    /** An object in a queue, and no fiber. */
    case Queue = 'queue';
}
