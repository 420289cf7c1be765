<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

/** What waits for its turn, and goes on when it is resumed. A `Fiber` is one, too, though PHP does not know it. */
interface Turn
{
    /** `$value` is what was waited for; see whoever resumes. */
    public function resume(mixed $value = null): mixed;
}
