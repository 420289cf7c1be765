<?php

declare(strict_types=1);

// Loads the classes of the daemon, and the support code of the tests.

require_once __DIR__ . '/../src/autoload.php';
require_once __DIR__ . '/Support/DaemonProcess.php';
