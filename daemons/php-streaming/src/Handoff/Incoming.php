<?php

declare(strict_types=1);

namespace Drover\Streaming\Handoff;

use Drover\Streaming\Options\SocketType;
use Drover\Streaming\System\System;

/** An accepted handoff connection, and the data received from it. The owner must `close` it. */
final class Incoming
{
    /** The descriptor of the client, once received. Code that takes it over sets this to null. */
    public ?int $client = null;
    /** True if more than one descriptor was received. The others are closed. */
    public bool $hasSurplus = false;
    public string $payload = '';
    private bool $sawEnd = false;

    public function __construct(
        private readonly System $system,
        public readonly int $connection,
        /** The time of the accept, in nanoseconds of CLOCK_MONOTONIC. */
        public readonly int $accepted,
    ) {
    }

    /**
     * Reads the available data. Returns whether the payload is complete.
     *
     * On `SOCK_SEQPACKET` one record is one handoff. On `SOCK_STREAM` nothing marks the end of the payload, because
     * the sender may keep the connection open until the daemon closes it. There a payload is complete unless it is the
     * beginning of a JSON object. In that case the rest is awaited until the payload parses, the connection ends, or
     * the timeout expires.
     *
     * @throws HandoffRefused
     */
    public function read(SocketType $type): bool
    {
        do {
            $message = $this->system->receive($this->connection, Payload::LIMIT + 1 - strlen($this->payload));
            if ($message === -System::EAGAIN || $message === -System::EINTR) {
                return false;
            }
            if (is_int($message)) {
                throw new HandoffRefused(HandoffFailure::fromErrno(-$message));
            }
            $this->keep($message->descriptors);
            $this->payload .= $message->payload;
            if ($message->isControlCut) {
                throw new HandoffRefused(HandoffFailure::Truncated);
            }
            if ($message->isPayloadCut || strlen($this->payload) > Payload::LIMIT) {
                throw new HandoffRefused(HandoffFailure::TooLarge);
            }
        } while (!$this->isComplete($message->isEnd(), $type));
        return true;
    }

    /** @throws HandoffRefused */
    private function isComplete(bool $isEnd, SocketType $type): bool
    {
        if ($isEnd && !$this->sawEnd) {
            // On a SEQPACKET socket the first end of file may be spurious: the kernel looks for a message and finds
            // none, then the sender sends and closes, and then the kernel sees that the sender has closed. The second
            // attempt returns the message.
            $this->sawEnd = true;
            return false;
        }
        if ($isEnd && $this->payload === '' && $this->client === null) {
            throw new HandoffRefused(HandoffFailure::Empty);
        }
        return $isEnd || $type === SocketType::Seqpacket || !$this->isIncomplete();
    }

    private function isIncomplete(): bool
    {
        try {
            return Payload::parse($this->payload) === null;
        } catch (InvalidPayload) {
            return false;
        }
    }

    /** @param list<int> $descriptors */
    private function keep(array $descriptors): void
    {
        foreach ($descriptors as $descriptor) {
            if ($this->client === null) {
                $this->client = $descriptor;
            } else {
                $this->hasSurplus = true;
                $this->system->close($descriptor);
            }
        }
    }

    /** Closes the connection, and the client if it was not taken over. The sender gets no other reply. */
    public function close(): void
    {
        $this->system->close($this->connection);
        if ($this->client !== null) {
            $this->system->close($this->client);
        }
    }
}
