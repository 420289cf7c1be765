<?php

declare(strict_types=1);

namespace Drover\Streaming\Handoff;

use Drover\Streaming\Options\SocketType;
use Drover\Streaming\System\System;

/** A handoff connection that was accepted, and what came from it. Somebody has to `close` it. */
final class Incoming
{
    /** The descriptor of the client, once it has come. Whoever takes it over sets this to null. */
    public ?int $client = null;
    /** More descriptors came than one; they are closed. */
    public bool $hasSurplus = false;
    public string $payload = '';
    private bool $sawEnd = false;

    public function __construct(
        private readonly System $system,
        public readonly int $connection,
        /** When it was accepted, in nanoseconds of CLOCK_MONOTONIC. */
        public readonly int $accepted,
    ) {
    }

    /**
     * Reads what is there. Returns whether the payload is whole.
     *
     * On `SOCK_SEQPACKET` one record is one handoff. On `SOCK_STREAM` nothing marks the end of the payload, for the
     * sender may keep the connection open until we close it. So a payload is whole there unless it is the beginning of
     * a JSON object; then the rest is waited for, until it parses or the connection ends or the time is over.
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
                throw new HandoffRefused(HandoffFailure::of(-$message));
            }
            $this->keep($message->descriptors);
            $this->payload .= $message->payload;
            if ($message->isControlCut) {
                throw new HandoffRefused(HandoffFailure::Truncated);
            }
            if ($message->isPayloadCut || strlen($this->payload) > Payload::LIMIT) {
                throw new HandoffRefused(HandoffFailure::TooLarge);
            }
        } while (!$this->isWhole($message->isEnd(), $type));
        return true;
    }

    /** @throws HandoffRefused */
    private function isWhole(bool $isEnd, SocketType $type): bool
    {
        if ($isEnd && !$this->sawEnd) {
            // On a SEQPACKET socket the first end may be none: the kernel looks for a message, finds none, then the
            // sender sends and closes, and then the kernel finds that the sender has closed. The message is there at
            // the second try.
            $this->sawEnd = true;
            return false;
        }
        if ($isEnd && $this->payload === '' && $this->client === null) {
            throw new HandoffRefused(HandoffFailure::Empty);
        }
        return $isEnd || $type === SocketType::Seqpacket || !$this->isBeginning();
    }

    private function isBeginning(): bool
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

    /** Closes the connection, which is all that its sender hears from us, and the client if it is still here. */
    public function close(): void
    {
        $this->system->close($this->connection);
        if ($this->client !== null) {
            $this->system->close($this->client);
        }
    }
}
