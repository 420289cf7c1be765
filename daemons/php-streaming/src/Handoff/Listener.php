<?php

declare(strict_types=1);

namespace Drover\Streaming\Handoff;

use Drover\Streaming\Options\Config;
use Drover\Streaming\System\System;
use RuntimeException;

/**
 * The handoff socket. Its file has the configured permissions, does not replace the socket of a running daemon, and is
 * removed at the end.
 */
final class Listener
{
    private const MAX_PATH_BYTES = 107;

    /** @param array{int, int} $file device and inode of the socket's file */
    private function __construct(
        private readonly System $system,
        public readonly int $descriptor,
        private readonly string $path,
        private readonly array $file,
    ) {
    }

    /** @throws RuntimeException */
    public static function bind(System $system, Config $config): self
    {
        $path = $config->socketPath;
        if (strlen($path) > self::MAX_PATH_BYTES) {
            throw new RuntimeException(
                "$path: the socket path is too long: give at most " . self::MAX_PATH_BYTES . ' bytes',
            );
        }
        self::removeStale($system, $path);
        $socket = self::check($system->unixSocket($config->socketType->number()), 'cannot create a Unix socket');
        // The umask gives the file its permissions when it is created.
        $umask = umask(0o777 & ~$config->socketMode);
        $bound = $system->bindUnix($socket, $path);
        umask($umask);
        self::check($bound, "cannot create the socket $path");
        $file = self::identify($path) ?? throw new RuntimeException("cannot inspect the new socket $path");
        $listener = new self($system, $socket, $path, $file);
        $result = $system->listen($socket, $config->backlog);
        if ($result < 0) {
            $listener->removeFile();
        }
        self::check($result, "cannot listen on $path");
        return $listener;
    }

    /** Refuses new connections. Those in the accept queue can still be accepted. */
    public function refuseFurther(): void
    {
        $this->removeFile();
        $this->system->refuseFurther($this->descriptor);
    }

    /** Removes the file, unless another file has replaced it. */
    public function removeFile(): void
    {
        if (self::identify($this->path) === $this->file) {
            // On failure a stale file remains, which the next start replaces.
            @unlink($this->path);
        }
    }

    /** @return ?array{int, int} */
    private static function identify(string $path): ?array
    {
        clearstatcache();
        $found = @lstat($path);
        return $found === false ? null : [$found['dev'], $found['ino']];
    }

    /**
     * Removes the file of a daemon that has ended. The method connects to find out: ECONNREFUSED means that no process
     * is listening; after any other result one might be.
     */
    private static function removeStale(System $system, string $path): void
    {
        if (self::identify($path) === null) {
            // bind reports a missing folder and the like.
            return;
        }
        if (filetype($path) !== 'socket') {
            throw new RuntimeException("$path exists and is not a socket: name another path, or move it away");
        }
        $probe = self::check($system->unixSocket(System::STREAM), 'cannot create a Unix socket');
        $answer = $system->connectUnix($probe, $path);
        $system->close($probe);
        if ($answer === -System::EACCES) {
            throw new RuntimeException(
                "$path: no permission to check whether a process listens on it: remove it, or name another path",
            );
        }
        if ($answer !== -System::ECONNREFUSED) {
            throw new RuntimeException("another process is listening on $path: stop it, or name another path");
        }
        if (!@unlink($path)) {
            throw new RuntimeException("cannot remove the stale socket $path: remove it, or name another path");
        }
    }

    private static function check(int $result, string $context): int
    {
        return $result >= 0 ? $result : throw new RuntimeException("$context: " . posix_strerror(-$result));
    }
}
