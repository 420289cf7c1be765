<?php

declare(strict_types=1);

namespace Drover\Streaming\Handoff;

use Drover\Streaming\Options\SocketType;
use Drover\Streaming\System\Message;
use Drover\Streaming\System\System;
use UnexpectedValueException;

/** An accepted handoff connection, and the data received from it. The owner must `close` it. */
final class HandoffConnection
{
    /** The descriptor of the client, once received. Code that takes it over sets this to null. */
    public ?int $client = null;
    /** True if more than one descriptor was received. The others are closed. */
    public bool $hasSurplus = false;
    public string $payload = '';
    private bool $sawEnd = false;

    public function __construct(
        private readonly System $system,
        public readonly int $descriptor,
        /** The time of the accept, in nanoseconds of CLOCK_MONOTONIC. */
        public readonly int $accepted,
    ) {
    }

    /**
     * Reads the available data. Returns true if the payload is complete, false if more is needed, or the failure that
     * ends the handoff.
     *
     * On `SOCK_SEQPACKET` one record is one handoff. On `SOCK_STREAM` nothing marks the end of the payload, because
     * the sender may keep the connection open until the daemon closes it. There a payload is complete unless it is the
     * beginning of a JSON object. In that case the rest is awaited until the payload parses, the connection ends, or
     * the timeout expires.
     */
    public function read(SocketType $type): bool|HandoffFailure
    {
        do {
            $room = Request::MAX_PAYLOAD_BYTES + 1 - strlen($this->payload);
            $message = $this->system->receive($this->descriptor, $room);
            if ($message === -System::EAGAIN || $message === -System::EINTR) {
                return false;
            }
            $failure = is_int($message) ? HandoffFailure::fromErrno(-$message) : $this->keep($message);
            if ($failure !== null) {
                return $failure;
            }
        } while (!$this->isComplete($message->isEnd(), $type));
        $isEmpty = $message->isEnd() && $this->payload === '' && $this->client === null;
        return $isEmpty ? HandoffFailure::Empty : true;
    }

    /** Keeps the data of a message. Returns the failure if a part of it is missing, or null. */
    private function keep(Message $message): ?HandoffFailure
    {
        foreach ($message->descriptors as $descriptor) {
            if ($this->client === null) {
                $this->client = $descriptor;
            } else {
                $this->hasSurplus = true;
                $this->system->close($descriptor);
            }
        }
        $this->payload .= $message->payload;
        return match (true) {
            $message->isControlCut => HandoffFailure::Truncated,
            $message->isPayloadCut, strlen($this->payload) > Request::MAX_PAYLOAD_BYTES => HandoffFailure::TooLarge,
            default => null,
        };
    }

    private function isComplete(bool $isEnd, SocketType $type): bool
    {
        if ($isEnd && !$this->sawEnd) {
            // On a SEQPACKET socket the first end of file may be spurious: the kernel looks for a message and finds
            // none, then the sender sends and closes, and then the kernel sees that the sender has closed. The second
            // attempt returns the message.
            $this->sawEnd = true;
            return false;
        }
        return $isEnd || $type === SocketType::Seqpacket || !$this->isIncomplete();
    }

    private function isIncomplete(): bool
    {
        try {
            return Request::parse($this->payload) === null;
        } catch (UnexpectedValueException) {
            return false;
        }
    }

    /** Closes the connection, and the client if it was not taken over. The sender gets no other reply. */
    public function close(): void
    {
        $this->system->close($this->descriptor);
        if ($this->client !== null) {
            $this->system->close($this->client);
        }
    }
}
