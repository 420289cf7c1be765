<?php

declare(strict_types=1);

// The command: options, exit codes and output. Run it with: php -c php.ini streaming-daemon.php

namespace Drover\Streaming;

use Drover\Streaming\Options\Options;

const VERSION = '0.1.0';

require __DIR__ . '/src/autoload.php';

// A warning is a bug here, unless it is silenced with @.
set_error_handler(static function (int $level, string $message, string $file, int $line): bool {
    if ((error_reporting() & $level) === 0) {
        return true;
    }
    throw new \ErrorException($message, 0, $level, $file, $line);
});

exit((static function (array $arguments): int {
    if (in_array('--help', $arguments, true)) {
        echo Options::help();
        return 0;
    }
    try {
        Daemon::checkRequirements();
        if (in_array('--version', $arguments, true)) {
            printf("php-streaming %s (PHP %s, AMP 2)\n", VERSION, PHP_VERSION);
            return 0;
        }
        $config = (new Options())->read($arguments, getenv());
        // Loads all classes. Loading one later could need a descriptor when none is free, or more stack than a fiber
        // has.
        foreach (glob(__DIR__ . '/src/{,*/}[A-Z]*.php', GLOB_BRACE) as $source) {
            require_once $source;
        }
        $daemon = new Daemon($config);
        $daemon->run();
    } catch (UsageError $error) {
        Log::write($error->getMessage());
        return 2;
    } catch (\RuntimeException $failed) {
        Log::write($failed->getMessage());
        return 1;
    } catch (\Throwable $bug) {
        Log::write("{$bug->getMessage()} ({$bug->getFile()}:{$bug->getLine()})");
        return 1;
    }
    if ($config->isBenchmark) {
        echo $daemon->metrics->summary();
    }
    return 0;
})(array_slice($argv, 1)));
