package main

import (
	"fmt"
	"log"
	"os"
	"sync"
	"time"
)

const linesPerSecond = 5

// A limitedLog writes complaints to stderr, a few per second at most: a flood of bad handoffs must
// not become a flood of lines.
type limitedLog struct {
	mutex      sync.Mutex
	second     int64
	lines      int
	suppressed int
	out        *log.Logger
}

func newLimitedLog() *limitedLog {
	return &limitedLog{out: log.New(os.Stderr, "streaming-daemon: ", 0)}
}

// warn writes a line, unless this second has had its share.
func (l *limitedLog) warn(format string, arguments ...any) {
	suppressed, admitted := l.admit(time.Now().Unix())
	if !admitted {
		return
	}
	if suppressed > 0 {
		format += fmt.Sprintf(" (%d earlier lines were left out)", suppressed)
	}
	l.out.Printf(format, arguments...)
}

// admit says whether a line may be written in this second, and how many were not before it.
func (l *limitedLog) admit(second int64) (suppressed int, admitted bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.second != second {
		l.second, l.lines = second, 0
	}
	if l.lines == linesPerSecond {
		l.suppressed++
		return 0, false
	}
	l.lines++
	suppressed, l.suppressed = l.suppressed, 0
	return suppressed, true
}
