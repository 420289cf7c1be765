<?php

declare(strict_types=1);

namespace Drover\Streaming\Handoff;

/** A handoff does not lead to a stream. */
final class HandoffRefused extends \Exception
{
    public function __construct(public readonly HandoffFailure $failure)
    {
        parent::__construct($failure->explain());
    }
}
