<?php

declare(strict_types=1);

namespace Drover\Streaming\Options;

use Drover\Streaming\System\System;

/** The type of the handoff socket. */
enum SocketType: string
{
    /** One handoff is one record. */
    case Seqpacket = 'seqpacket';
    /** A long payload may arrive in pieces. */
    case Stream = 'stream';

    public function number(): int
    {
        return match ($this) {
            self::Seqpacket => System::SEQPACKET,
            self::Stream => System::STREAM,
        };
    }
}
