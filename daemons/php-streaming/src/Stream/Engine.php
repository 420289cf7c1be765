<?php

declare(strict_types=1);

namespace Drover\Streaming\Stream;

/** Takes streams through their writes. */
interface Engine
{
    /**
     * So many writes that are due are made in a row, before others have their turn.
     */
    public const WRITES_IN_A_ROW = 32;

    /**
     * Has a stream write what is due, and puts it where it waits for the rest. Without fibers this is each turn of a
     * stream, with fibers only the first.
     *
     * @param ?StreamFailure $failure why the stream ends here, if what it waited for has failed
     */
    public function serve(Stream $stream, ?StreamFailure $failure = null): void;
}
