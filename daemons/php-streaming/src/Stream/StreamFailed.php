<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

/** A stream cannot continue. */
final class StreamFailed extends \Exception
{
    public function __construct(public readonly StreamFailure $failure)
    {
        parent::__construct($failure->value);
    }
}
