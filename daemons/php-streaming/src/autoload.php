<?php

declare(strict_types=1);

// Loads classes by name, and an event loop: AMP 3 if Composer has installed it, else Debian's AMP 2.

spl_autoload_register(static function (string $class): void {
    $prefix = 'Drover\\Streaming\\';
    if (str_starts_with($class, $prefix)) {
        $file = __DIR__ . '/' . strtr(substr($class, strlen($prefix)), '\\', '/') . '.php';
        if (is_file($file)) {
            require_once $file;
        }
    }
});

(static function (): void {
    $composer = dirname(__DIR__) . '/vendor/autoload.php';
    if (is_file($composer)) {
        require $composer;
        return;
    }
    $amp = stream_resolve_include_path('Amp/autoload.php');
    if ($amp === false) {
        return;
    }
    require_once $amp;
    // Debian's autoloader loads only classes.
    require_once dirname($amp) . '/functions.php';
    require_once dirname($amp) . '/Internal/functions.php';
})();
