<?php

declare(strict_types=1);

namespace Drover\Streaming\Metrics;

/** A Prometheus histogram with fixed buckets from 10 µs to 10 min. */
final class Histogram
{
    /** The upper bounds of the buckets in nanoseconds. The keys are the bounds in seconds, as on the page. */
    private const BUCKETS = [
        '0.00001' => 10_000,
        '0.000025' => 25_000,
        '0.00005' => 50_000,
        '0.0001' => 100_000,
        '0.00025' => 250_000,
        '0.0005' => 500_000,
        '0.001' => 1_000_000,
        '0.0025' => 2_500_000,
        '0.005' => 5_000_000,
        '0.01' => 10_000_000,
        '0.05' => 50_000_000,
        '0.1' => 100_000_000,
        '0.5' => 500_000_000,
        '1' => 1_000_000_000,
        '2.5' => 2_500_000_000,
        '5' => 5_000_000_000,
        '10' => 10_000_000_000,
        '60' => 60_000_000_000,
        '120' => 120_000_000_000,
        '600' => 600_000_000_000,
    ];

    /** @var array<string, int> each duration is counted in one bucket only; the page accumulates them */
    private array $counts;
    private int $sum = 0;

    public function __construct()
    {
        $this->counts = array_fill_keys([...array_keys(self::BUCKETS), '+Inf'], 0);
    }

    public function record(int $nanoseconds): void
    {
        $this->sum += $nanoseconds;
        foreach (self::BUCKETS as $end => $limit) {
            if ($nanoseconds <= $limit) {
                $this->counts[$end]++;
                return;
            }
        }
        $this->counts['+Inf']++;
    }

    /** Returns the samples of the metric `$name`. `$labels` is empty or like `backend="mock"`. */
    public function render(string $name, string $labels): string
    {
        $lines = '';
        $total = 0;
        $prefix = $labels === '' ? '' : "$labels,";
        foreach ($this->counts as $end => $count) {
            $total += $count;
            $lines .= "{$name}_bucket{{$prefix}le=\"$end\"} $total\n";
        }
        $labels = $labels === '' ? '' : "{{$labels}}";
        return $lines . "{$name}_sum$labels " . json_encode($this->sum / 1e9) . "\n{$name}_count$labels $total\n";
    }
}
