<?php

declare(strict_types=1);

namespace Drover\Streaming;

/** Something that the daemon needs is not to be had: exit code 1. The message says what, and what to do. */
final class StartFailed extends \Exception
{
}
