<?php

declare(strict_types=1);

// Loads classes by name, and AMP 2: from Composer if it has installed the dependencies, else from Debian's package.

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
    $amp = is_file($composer) ? $composer : stream_resolve_include_path('Amp/autoload.php');
    if ($amp !== false) {
        require_once $amp;
    }
})();
