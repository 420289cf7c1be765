<?php

declare(strict_types=1);

namespace Drover\Streaming\Handoff;

use Drover\Streaming\Options\Config;
use Drover\Streaming\StartFailed;
use Drover\Streaming\System\System;

/** The handoff socket: made with its permissions, never stolen from a living daemon, its file removed at the end. */
final class Listener
{
    private const LONGEST_PATH = 107;

    /** @param array{int, int} $file device and inode of the socket's file */
    private function __construct(
        private readonly System $system,
        public readonly int $descriptor,
        private readonly string $path,
        private readonly array $file,
    ) {
    }

    /** @throws StartFailed */
    public static function bind(System $system, Config $config): self
    {
        $path = $config->socketPath;
        if (strlen($path) > self::LONGEST_PATH) {
            throw new StartFailed("$path: a socket path has at most " . self::LONGEST_PATH . ' bytes');
        }
        self::removeStale($system, $path);
        $socket = self::need($system->unixSocket($config->socketType->number()), 'making a Unix socket');
        // The file has its permissions from its first moment.
        $umask = umask(0o777 & ~$config->socketMode);
        $bound = $system->bindUnix($socket, $path);
        umask($umask);
        self::need($bound, "making the socket $path");
        $file = self::identify($path) ?? throw new StartFailed("$path: the new socket is gone");
        $listener = new self($system, $socket, $path, $file);
        $result = $system->listen($socket, $config->backlog);
        if ($result < 0) {
            $listener->removeFile();
        }
        self::need($result, "listening on $path");
        return $listener;
    }

    /** From now on nobody can connect, while what waits in the accept queue can still be accepted. */
    public function refuseFurther(): void
    {
        $this->removeFile();
        $this->system->refuseFurther($this->descriptor);
    }

    /** Removes the file, unless another one stands in its place. */
    public function removeFile(): void
    {
        if (self::identify($this->path) === $this->file) {
            // Failing leaves a stale file, which the next start replaces.
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
     * Removes the file of a daemon that is gone. Whether it is gone is asked by connecting: ECONNREFUSED means that
     * nobody listens, and every other answer that somebody might.
     */
    private static function removeStale(System $system, string $path): void
    {
        if (self::identify($path) === null) {
            // A missing folder and the like: bind will say so.
            return;
        }
        if (filetype($path) !== 'socket') {
            throw new StartFailed("$path exists and is no socket: name another path, or move it away");
        }
        $probe = self::need($system->unixSocket(System::STREAM), 'making a Unix socket');
        $answer = $system->connectUnix($probe, $path);
        $system->close($probe);
        if ($answer === -System::EACCES) {
            throw new StartFailed("$path: no permission to ask who listens on it");
        }
        if ($answer !== -System::ECONNREFUSED) {
            throw new StartFailed("another process listens on $path: stop it, or name another path");
        }
        if (!@unlink($path)) {
            throw new StartFailed("the stale socket $path cannot be removed: remove it, or name another path");
        }
    }

    private static function need(int $result, string $doing): int
    {
        return $result >= 0 ? $result : throw new StartFailed("$doing: " . posix_strerror(-$result));
    }
}
