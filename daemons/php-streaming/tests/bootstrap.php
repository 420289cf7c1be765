<?php

declare(strict_types=1);

// What every test needs: the daemon's classes, and the daemon as a process.

require_once __DIR__ . '/../src/autoload.php';
require_once __DIR__ . '/Support/DaemonProcess.php';
require_once __DIR__ . '/Support/Waiting.php';
