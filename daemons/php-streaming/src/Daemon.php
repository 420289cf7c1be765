<?php

declare(strict_types=1);

namespace Drover\Streaming;

use Drover\Streaming\Handoff\Intake;
use Drover\Streaming\Handoff\Listener;
use Drover\Streaming\Handoff\Payload;
use Drover\Streaming\Loop\Loop;
use Drover\Streaming\Loop\Loops;
use Drover\Streaming\Metrics\Metrics;
use Drover\Streaming\Options\Config;
use Drover\Streaming\Options\EngineKind;
use Drover\Streaming\Pages\Pages;
use Drover\Streaming\Stream\Answer;
use Drover\Streaming\Stream\DueQueue;
use Drover\Streaming\Stream\Engine;
use Drover\Streaming\Stream\FiberEngine;
use Drover\Streaming\Stream\QueueEngine;
use Drover\Streaming\Stream\Writer;
use Drover\Streaming\System\Limits;
use Drover\Streaming\System\System;

/** The daemon: its sockets, its streams, and its shutdown. */
final class Daemon
{
    /** The interval of the checks for open connections during shutdown, in milliseconds. */
    private const POLL_INTERVAL = 5;

    public readonly Metrics $metrics;
    private readonly Loop $loop;
    private readonly Listener $listener;
    private readonly Intake $intake;
    private bool $isStopping = false;

    /** @throws StartFailed */
    public function __construct(private readonly Config $config)
    {
        Limits::raiseOpenFiles();
        $system = new System(Payload::LIMIT + 1);
        $this->loop = Loops::make($system);
        $this->metrics = new Metrics();
        // Before clients can connect: a signal from now on is handled as soon as the loop runs.
        $this->loop->onSignal(SIGTERM, $this->stop(...));
        $this->loop->onSignal(SIGINT, $this->stop(...));
        if ($config->metricsAddress !== null) {
            new Pages($system, $this->loop, $this->metrics, $config->metricsAddress);
        }
        $answer = new Answer($config->messageCount, $config->messageDelay);
        $queue = new DueQueue($this->loop, DueQueue::slotFor($config->messageDelay));
        $writer = new Writer($system, $this->loop, $this->metrics, $config->writeTimeout);
        $engine = self::engine($config->engine, $answer, $queue, $writer);
        $capacity = self::capacity($config);
        // Last, so that no error leaves the socket file behind.
        $this->listener = Listener::bind($system, $config);
        $this->intake = new Intake(
            $system,
            $this->loop,
            $this->listener,
            $config->socketType,
            $answer,
            $engine,
            $queue,
            $this->metrics,
            new Log(),
            $capacity,
        );
    }

    /** Serves until a signal starts the shutdown, and finishes it. A second signal ends it at once. */
    public function run(): void
    {
        try {
            $this->loop->run();
        } finally {
            $this->listener->removeFile();
            $this->metrics->cancelAll();
        }
    }

    private static function engine(EngineKind $kind, Answer $answer, DueQueue $queue, Writer $writer): Engine
    {
        return match ($kind) {
            EngineKind::Fibers => new FiberEngine($answer, $queue, $writer),
            EngineKind::Queue => new QueueEngine($answer, $queue, $writer),
        };
    }

    private static function capacity(Config $config): int
    {
        $capacity = Limits::capacity($config->maxConnections, $config->engine);
        if ($capacity->limit !== null) {
            Log::write("{$capacity->limit} allows only {$capacity->streams} streams; for more, raise it");
        }
        return $capacity->streams;
    }

    private function stop(): void
    {
        if ($this->isStopping) {
            $this->loop->stop();
            return;
        }
        $this->isStopping = true;
        $this->intake->stop();
        $this->loop->delay(intdiv($this->config->shutdownGrace, 1_000_000), $this->loop->stop(...));
        $this->loop->repeat(self::POLL_INTERVAL, function (): void {
            if ($this->intake->isOver() && $this->metrics->activeConnections === 0) {
                $this->loop->stop();
            }
        });
    }
}
