package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	namespace = "bench"
	// stamp is the annotation that says when the object was last written.
	stamp = "stamp"
)

// tally counts objects by name, so that one which is shown twice counts once. It is the counterpart of tally.py.
type tally struct {
	objects, burst, touches int

	mutex sync.Mutex
	seen  map[string]bool
	count func(name string, stamp int64)
	first float64
	since int64
	late  []float64
}

func newTally(arguments []string) (*tally, error) {
	if len(arguments) != 3 {
		return nil, errors.New("expected three numbers: objects, burst, touches")
	}
	var numbers [3]int
	for i, text := range arguments {
		number, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		numbers[i] = number
	}
	t := &tally{objects: numbers[0], burst: numbers[1], touches: numbers[2], seen: map[string]bool{}}
	t.count = t.everything
	return t, nil
}

// waitForStart says that everything is made, and returns when told to go on.
func (t *tally) waitForStart(word io.Reader) error {
	t.say("ready", nil)
	_, err := bufio.NewReader(word).ReadString('\n')
	t.since = now()
	return err
}

// synced says that all objects are in memory.
func (t *tally) synced() { t.say("synced", nil) }

// reconciled is told of an object that a reconciler was given, and of the stamp it has read.
func (t *tally) reconciled(name, text string) error {
	written, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return err
	}
	t.count(name, written)
	return nil
}

func (t *tally) everything(name string, _ int64) {
	if len(t.seen) == 0 {
		t.first = seconds(now())
	}
	t.seen[name] = true
	if len(t.seen) == t.objects {
		t.goOn(t.ofBurst)
		t.say("reconciled", map[string]any{"first": t.first})
	}
}

func (t *tally) ofBurst(name string, written int64) {
	if written <= t.since {
		return
	}
	t.seen[name] = true
	if len(t.seen) == t.burst {
		t.goOn(t.ofTouches)
		t.say("drained", nil)
	}
}

func (t *tally) ofTouches(name string, written int64) {
	if written <= t.since || t.seen[name] {
		return
	}
	t.late = append(t.late, seconds(now()-written))
	t.seen[name] = true
	if len(t.late) == t.touches {
		t.say("touched", map[string]any{"late": t.late})
	}
}

func (t *tally) goOn(count func(string, int64)) {
	clear(t.seen)
	t.since = now()
	t.count = count
}

// say writes one line. The cache and the reconciler each have something to say, on goroutines of their own.
func (t *tally) say(what string, details map[string]any) {
	at, _ := json.Marshal(seconds(now()))
	line := `{"what":"` + what + `","at":` + string(at)
	for name, value := range details {
		text, _ := json.Marshal(value)
		line += `,"` + name + `":` + string(text)
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	os.Stdout.WriteString(line + "}\n")
}

// now is the clock that all processes of a machine share; the standard library's is the process's own.
func now() int64 {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &at); err != nil {
		panic(err)
	}
	return at.Nano()
}

func seconds(nanoseconds int64) float64 { return float64(nanoseconds) / 1e9 }
