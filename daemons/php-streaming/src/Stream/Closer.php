<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

use Drover\Streaming\Loop\EpollDriver;
use Drover\Streaming\System\System;

/** Closes clients, so that none loses the end of its response. */
final class Closer
{
    /** The time for a client to read the end of its response and to close, in milliseconds. */
    private const LINGER = 2_000;
    /** The maximum number of clients that are closed with a delay: they use reserved descriptors. */
    private const MAX_LINGERING = 32;

    private int $lingering = 0;

    public function __construct(private readonly System $system, private readonly EpollDriver $loop)
    {
    }

    /** Returns true if all clients are closed. */
    public function isOver(): bool
    {
        return $this->lingering === 0;
    }

    /** Closes a client. If it has sent data that nobody has read, a close would be a reset, so it lingers. */
    public function close(int $client): void
    {
        if ($this->system->hasUnread($client)) {
            $this->linger($client);
        } else {
            $this->system->close($client);
        }
    }

    /** Shuts down the sending side, and closes when the client has closed or its time is over. Drops received data. */
    public function linger(int $client): void
    {
        if ($this->lingering === self::MAX_LINGERING) {
            $this->system->close($client);
            return;
        }
        $this->lingering++;
        $this->system->endSending($client);
        $watcher = $timer = '';
        $end = function () use (&$watcher, &$timer, $client): void {
            $this->loop->cancel($watcher);
            $this->loop->cancel($timer);
            $this->system->close($client);
            $this->lingering--;
        };
        $watcher = $this->loop->onReadable(
            $client,
            fn () => $this->system->dropReceived($client) ? null : $end(),
            $end,
        );
        $timer = $this->loop->delay(self::LINGER, $end);
    }
}
