<?php

declare(strict_types=1);

namespace Drover\Streaming\Options;

/** The representation of a waiting stream. */
enum EngineKind: string
{
    /** One fiber per stream. */
    case Fibers = 'fibers';
    /** An object in a queue, without a fiber. */
    case Queue = 'queue';
}
