<?php

declare(strict_types=1);

namespace Drover\Streaming;

/** An invalid command line or environment: exit code 2. The message names the option, its variable and the remedy. */
final class UsageError extends \Exception
{
}
