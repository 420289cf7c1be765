<?php

declare(strict_types=1);

namespace Drover\Streaming\Handoff;

/** A payload is not a request, and more bytes could not complete it. */
final class InvalidPayload extends \Exception
{
}
