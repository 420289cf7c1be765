<?php

declare(strict_types=1);

namespace Drover\Streaming\Handoff;

/** A payload that is no request, and that no further bytes could turn into one. */
final class InvalidPayload extends \Exception
{
}
