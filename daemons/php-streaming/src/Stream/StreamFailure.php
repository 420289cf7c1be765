<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

use Drover\Streaming\System\System;

/** Failures of streams: the `reason` labels of the metrics. */
enum StreamFailure: string
{
    /** One write took longer than the write timeout. */
    case Timeout = 'timeout';
    /** The daemon stopped, and the grace period expired. */
    case Canceled = 'canceled';
    case ClientDisconnected = 'client_disconnected';
    case Network = 'network';
    /** The client socket could not be watched. */
    case Other = 'other';
    /** These are never counted here: all daemons have the same reasons, so that one query works for each. */
    case Backend = 'backend';
    case BackendTimeout = 'backend_timeout';

    public static function fromErrno(int $error): self
    {
        return match ($error) {
            System::ECONNRESET, System::EPIPE => self::ClientDisconnected,
            default => self::Network,
        };
    }
}
