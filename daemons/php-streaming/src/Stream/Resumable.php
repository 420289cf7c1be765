<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

/** A suspended task that continues when it is resumed. A `Fiber` has the same method without implementing it. */
interface Resumable
{
    /** Continues the task. `$value` is the result that it waited for; see the callers. */
    public function resume(mixed $value = null): mixed;
}
