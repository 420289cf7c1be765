<?php

declare(strict_types=1);

namespace Drover\Streaming\System;

use FFI;
use FFI\CData;
use RuntimeException;

/**
 * System calls through ext-FFI that PHP does not offer, or not for bare descriptors. For 64-bit Linux with glibc 2.35
 * or later.
 *
 * As in the kernel's interface, a negative result is a negated error number.
 */
final class System
{
    public const EINTR = 4;
    public const EAGAIN = 11;
    public const EACCES = 13;
    public const EINVAL = 22;
    public const ENFILE = 23;
    public const EMFILE = 24;
    public const EPIPE = 32;
    public const ECONNABORTED = 103;
    public const ECONNRESET = 104;
    public const ECONNREFUSED = 111;

    public const CLOEXEC = 0o2000000;
    public const NONBLOCK = 0o4000;
    public const STREAM = 1;
    public const SEQPACKET = 5;

    private const AF_UNIX = 1;
    private const SOL_SOCKET = 1;
    private const SO_REUSEADDR = 2;
    private const SO_TYPE = 3;
    private const SCM_RIGHTS = 1;
    private const IPPROTO_TCP = 6;
    private const TCP_NODELAY = 1;
    private const SHUT_WR = 1;
    private const MSG_PEEK = 0x2;
    private const MSG_CTRUNC = 0x8;
    private const MSG_TRUNC = 0x20;
    private const MSG_DONTWAIT = 0x40;
    private const MSG_CMSG_CLOEXEC = 0x40000000;
    /** Without blocking and without SIGPIPE. O_NONBLOCK would also change the socket for its sender. */
    private const SEND_FLAGS = 0x40 | 0x4000;
    private const RECEIVE_FLAGS = 0x40 | self::MSG_CMSG_CLOEXEC;
    private const SIGNALFD_INFO_BYTES = 128;

    public readonly FFI $libc;
    private readonly CData $buffer;
    private readonly CData $part;
    private readonly CData $control;
    private readonly CData $header;
    private readonly CData $number;
    private readonly CData $size;

    /** @param int $room the maximum payload of one message, in bytes */
    public function __construct(private readonly int $room)
    {
        // The kernel's struct epoll_event is packed on x86-64 only. (PHP would ignore the attribute after the braces.)
        $packed = php_uname('m') === 'x86_64' ? '__attribute__((packed))' : '';
        $declarations = (string) file_get_contents(__DIR__ . '/libc.h');
        $this->libc = FFI::cdef(str_replace('EPOLL_PACKED', $packed, $declarations), 'libc.so.6');
        $this->buffer = $this->libc->new("char[$room]");
        $this->control = $this->libc->new('struct rights');
        $this->part = $this->libc->new('struct iovec');
        $this->header = $this->libc->new('struct msghdr');
        $this->number = $this->libc->new('int');
        $this->size = $this->libc->new('uint32_t');
        $this->part->base = $this->libc->cast('void *', FFI::addr($this->buffer));
        $this->header->parts = FFI::addr($this->part);
        $this->header->part_count = 1;
        $this->header->control = $this->libc->cast('void *', FFI::addr($this->control));
    }

    /** Returns the error number of the last call. */
    public function error(): int
    {
        return $this->libc->__errno_location()[0];
    }

    /** @throws RuntimeException if the result of a call is an error */
    public function check(int $result, string $context): int
    {
        if ($result < 0) {
            throw new RuntimeException("$context: " . posix_strerror($this->error()));
        }
        return $result;
    }

    private function checked(int $result): int
    {
        return $result < 0 ? -$this->error() : $result;
    }

    public function unixSocket(int $type): int
    {
        return $this->checked($this->libc->socket(self::AF_UNIX, $type | self::CLOEXEC | self::NONBLOCK, 0));
    }

    public function bindUnix(int $socket, string $path): int
    {
        $address = self::unixAddress($path);
        return $this->checked($this->libc->bind($socket, $address, strlen($address)));
    }

    public function connectUnix(int $socket, string $path): int
    {
        $address = self::unixAddress($path);
        return $this->checked($this->libc->connect($socket, $address, strlen($address)));
    }

    private static function unixAddress(string $path): string
    {
        return pack('S', self::AF_UNIX) . $path . "\0";
    }

    /** Returns a TCP socket that is bound but not listening. `$host` is a binary address, as `inet_pton` returns. */
    public function boundTcpSocket(string $host, int $port): int
    {
        $isV4 = strlen($host) === 4;
        [$family, $address] = $isV4
            ? [AF_INET, pack('Sn', AF_INET, $port) . $host . str_repeat("\0", 8)]
            : [AF_INET6, pack('SnN', AF_INET6, $port, 0) . $host . pack('N', 0)];
        $socket = $this->checked($this->libc->socket($family, self::STREAM | self::CLOEXEC | self::NONBLOCK, 0));
        if ($socket < 0) {
            return $socket;
        }
        $this->setOption($socket, self::SOL_SOCKET, self::SO_REUSEADDR, 1);
        $bound = $this->checked($this->libc->bind($socket, $address, strlen($address)));
        if ($bound < 0) {
            $this->close($socket);
        }
        return $bound < 0 ? $bound : $socket;
    }

    public function listen(int $socket, int $backlog): int
    {
        return $this->checked($this->libc->listen($socket, $backlog));
    }

    /** Refuses new connections. Those in the accept queue can still be accepted. */
    public function refuseFurther(int $listener): void
    {
        $this->libc->shutdown($listener, 0);
    }

    public function accept(int $listener): int
    {
        $connection = $this->libc->accept4($listener, null, null, self::CLOEXEC | self::NONBLOCK);
        return $connection < 0 ? -$this->error() : $connection;
    }

    public function close(int $descriptor): void
    {
        $this->libc->close($descriptor);
    }

    /** Sends without blocking. Returns the number of bytes sent. */
    public function send(int $socket, string $bytes): int
    {
        $sent = $this->libc->send($socket, $bytes, strlen($bytes), self::SEND_FLAGS);
        return $sent < 0 ? -$this->error() : $sent;
    }

    /** Shuts down the sending side of a connection. */
    public function endSending(int $socket): void
    {
        $this->libc->shutdown($socket, self::SHUT_WR);
    }

    /** Returns true if data has been received that nobody has read. */
    public function hasUnread(int $socket): bool
    {
        return $this->libc->recv($socket, $this->buffer, 1, self::MSG_PEEK | self::MSG_DONTWAIT) > 0;
    }

    /** Drops received data. Returns false at the end of the connection. */
    public function dropReceived(int $socket): bool
    {
        $bytes = $this->checked($this->libc->recv($socket, $this->buffer, $this->room, self::MSG_DONTWAIT));
        return $bytes > 0 || $bytes === -self::EAGAIN;
    }

    /** Receives up to `$room` bytes without blocking. Returns a message or an error. */
    public function receive(int $connection, ?int $room = null): Message|int
    {
        $this->part->length = $room ?? $this->room;
        $this->header->control_length = FFI::sizeof($this->control);
        $bytes = $this->libc->recvmsg($connection, FFI::addr($this->header), self::RECEIVE_FLAGS);
        if ($bytes < 0) {
            return -$this->error();
        }
        $flags = $this->header->flags;
        return new Message(
            FFI::string($this->buffer, $bytes),
            $this->header->control_length > 0 ? $this->descriptors() : [],
            ($flags & self::MSG_TRUNC) !== 0,
            ($flags & self::MSG_CTRUNC) !== 0,
        );
    }

    /**
     * Returns the descriptors of the last message. The kernel puts all of them into one control message, and the
     * options of these sockets produce no other kind.
     *
     * @return list<int>
     */
    private function descriptors(): array
    {
        $rights = $this->control;
        if ($rights->level !== self::SOL_SOCKET || $rights->type !== self::SCM_RIGHTS) {
            return [];
        }
        // The length includes the header: one size_t and two ints.
        $count = intdiv($rights->length - 16, 4);
        $descriptors = [];
        for ($index = 0; $index < $count; $index++) {
            $descriptors[] = $rights->descriptors[$index];
        }
        return $descriptors;
    }

    public function isStreamSocket(int $descriptor): bool
    {
        $this->size->cdata = 4;
        $result = $this->libc->getsockopt(
            $descriptor,
            self::SOL_SOCKET,
            self::SO_TYPE,
            FFI::addr($this->number),
            FFI::addr($this->size),
        );
        return $result === 0 && $this->number->cdata === self::STREAM;
    }

    /** Makes TCP send each write at once. Other sockets refuse the option and do not need it. */
    public function setNoDelay(int $socket): void
    {
        $this->setOption($socket, self::IPPROTO_TCP, self::TCP_NODELAY, 1);
    }

    private function setOption(int $socket, int $level, int $option, int $value): void
    {
        $this->number->cdata = $value;
        $this->libc->setsockopt($socket, $level, $option, FFI::addr($this->number), 4);
    }

    /**
     * Returns a descriptor that becomes readable when one of the signals arrives. The signals must be blocked.
     *
     * @param list<int> $signals
     * @param ?int $descriptor an existing descriptor to change
     */
    public function signals(array $signals, ?int $descriptor): int
    {
        $set = 0;
        foreach ($signals as $signal) {
            $set |= 1 << ($signal - 1);
        }
        // A sigset_t of glibc has 1,024 bits.
        $mask = pack('Q', $set) . str_repeat("\0", 120);
        $result = $this->libc->signalfd($descriptor ?? -1, $mask, self::CLOEXEC | self::NONBLOCK);
        return $this->check($result, 'cannot watch signals');
    }

    /** Returns the next signal of a descriptor made by `signals`, or null. */
    public function nextSignal(int $descriptor): ?int
    {
        $bytes = $this->libc->read($descriptor, $this->buffer, self::SIGNALFD_INFO_BYTES);
        return $bytes < 4 ? null : unpack('L', FFI::string($this->buffer, 4))[1];
    }
}
