<?php

declare(strict_types=1);

namespace Drover\Streaming\Options;

use Closure;
use Drover\Streaming\UsageError;

/** One option: its flags, its variable, and the parser of its value. */
final class Option
{
    /**
     * @param list<string> $flags errors name the last one
     * @param ?string $value the name of the value in the help; null if the flag takes none
     * @param Closure(string): mixed $read throws a UsageError that states the remedy
     */
    public function __construct(
        public readonly string $name,
        public readonly array $flags,
        public readonly string $variable,
        public readonly ?string $value,
        public readonly string $default,
        public readonly string $help,
        private readonly Closure $read,
    ) {
    }

    /** @throws UsageError */
    public function read(string $text): mixed
    {
        try {
            return ($this->read)($text);
        } catch (UsageError $error) {
            throw $this->usageError("`$text`: {$error->getMessage()}");
        }
    }

    /** Returns an error that names the option and its variable. */
    public function usageError(string $message): UsageError
    {
        return new UsageError("{$this->longFlag()} ({$this->variable}): $message");
    }

    public function longFlag(): string
    {
        return $this->flags[array_key_last($this->flags)];
    }

    public function describe(): string
    {
        $flags = implode(', ', $this->flags) . ($this->value === null ? '' : " <{$this->value}>");
        return "  $flags\n          {$this->help} [env: {$this->variable}] [default: {$this->default}]\n";
    }
}
