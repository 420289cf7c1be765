<?php

declare(strict_types=1);

namespace Drover\Streaming;

/** The call was wrong: exit code 2. The message names the option, its variable, and the remedy. */
final class WrongCall extends \Exception
{
}
