<?php

declare(strict_types=1);

namespace Drover\Streaming\Handoff;

use Drover\Streaming\System\System;

/** Failures of handoffs: the `reason` labels of the metrics. */
enum HandoffFailure: string
{
    case Empty = 'empty';
    case Timeout = 'timeout';
    case Canceled = 'canceled';
    case ClientDisconnected = 'client_disconnected';
    case Network = 'network';
    case Other = 'other';
    case TooLarge = 'too_large';
    case Truncated = 'truncated';
    case NoDescriptor = 'no_descriptor';
    case NotAStreamSocket = 'not_a_stream_socket';
    case OutOfDescriptors = 'out_of_descriptors';
    /** Never counted here: all daemons have the same reasons, so that one query works for each. */
    case PeerRefused = 'peer_refused';
    // These do not prevent the stream.
    case InvalidJson = 'invalid_json';
    case SurplusDescriptors = 'surplus_descriptors';

    public static function fromErrno(int $error): self
    {
        return match ($error) {
            System::ECONNRESET, System::EPIPE => self::ClientDisconnected,
            System::EMFILE, System::ENFILE => self::OutOfDescriptors,
            default => self::Network,
        };
    }

    public function explain(): string
    {
        return match ($this) {
            self::Empty => 'the sender closed the connection without sending anything',
            self::Timeout => 'the payload did not arrive within the receive timeout',
            self::Canceled => 'the daemon stopped before the payload arrived',
            self::ClientDisconnected => 'the sender disconnected before the payload was read',
            self::Network => 'reading the handoff connection failed',
            self::Other => 'the handoff connection could not be watched',
            self::TooLarge => 'the payload is longer than 128 KiB',
            self::Truncated => 'descriptors were lost in transit: is the limit of open files reached?',
            self::NoDescriptor => 'the message contains no descriptor',
            self::NotAStreamSocket => 'the descriptor is not a stream socket',
            self::OutOfDescriptors => 'no free descriptor: raise the limit of open files (ulimit -n)',
            self::PeerRefused => 'the sender may not hand over clients',
            self::InvalidJson => 'the payload is not a JSON object with the known keys; defaults are used',
            self::SurplusDescriptors => 'the message contains more than one descriptor; the first is used',
        };
    }
}
