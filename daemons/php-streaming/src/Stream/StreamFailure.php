<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

use Drover\Streaming\System\System;

/** Why a stream ended early: the `reason` labels of the metrics. */
enum StreamFailure: string
{
    /** One write did not get through within the write timeout. */
    case Timeout = 'timeout';
    /** The daemon stopped, and the grace time was over. */
    case Canceled = 'canceled';
    case ClientDisconnected = 'client_disconnected';
    case Network = 'network';
    /** The client socket could not be watched. */
    case Other = 'other';

    public static function of(int $error): self
    {
        return match ($error) {
            System::ECONNRESET, System::EPIPE => self::ClientDisconnected,
            default => self::Network,
        };
    }
}
