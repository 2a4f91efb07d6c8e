// In place of sync_linux.go of go.etcd.io/etcd/client/pkg/v3/fileutil in the etcd of the tests: a disk that can be slow.
// The file that KAPI_TEST_DISK_DELAY names has the milliseconds that each sync of the log takes longer; it is read each
// time, so that a test can make a disk slow, and fast again. Without it nothing is different.

package fileutil

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var delayFile = os.Getenv("KAPI_TEST_DISK_DELAY")

func Fsync(f *os.File) error {
	delay()
	return f.Sync()
}

func Fdatasync(f *os.File) error {
	delay()
	return syscall.Fdatasync(int(f.Fd()))
}

func delay() {
	if delayFile == "" {
		return
	}
	text, err := os.ReadFile(delayFile)
	if err != nil {
		return
	}
	if milliseconds, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
		time.Sleep(time.Duration(milliseconds) * time.Millisecond)
	}
}
