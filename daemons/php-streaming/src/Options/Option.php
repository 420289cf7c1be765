<?php

declare(strict_types=1);

namespace Drover\Streaming\Options;

use Closure;
use Drover\Streaming\WrongCall;

/** One option: its flags, its variable, and how its value is read. */
final class Option
{
    /**
     * @param list<string> $flags the last one is the name under which it is complained about
     * @param ?string $value what the help calls the value; null if the flag takes none
     * @param Closure(string): mixed $read throws a WrongCall that says what to write instead
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

    /** @throws WrongCall */
    public function read(string $text): mixed
    {
        try {
            return ($this->read)($text);
        } catch (WrongCall $wrong) {
            throw $this->wrong("`$text`: {$wrong->getMessage()}");
        }
    }

    public function wrong(string $complaint): WrongCall
    {
        return new WrongCall("{$this->longFlag()} ({$this->variable}): $complaint");
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
