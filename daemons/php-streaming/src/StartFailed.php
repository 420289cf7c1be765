<?php

declare(strict_types=1);

namespace Drover\Streaming;

/** The daemon cannot start: exit code 1. The message states the reason and the remedy. */
final class StartFailed extends \Exception
{
}
