// Part of package time in the etcd of the tests: seconds by which its wall clock is wrong, from KAPI_TEST_CLOCK_SKEW.
// Go asks the kernel for the time and not libc, so nothing can be preloaded into it; tests/wire/install adds this file and
// one line to package time where etcd is compiled.

package time

import "syscall"

var clockSkew = readClockSkew()

func readClockSkew() int64 {
	text, _ := syscall.Getenv("KAPI_TEST_CLOCK_SKEW")
	var seconds int64
	for _, character := range text {
		if character >= '0' && character <= '9' {
			seconds = 10*seconds + int64(character-'0')
		}
	}
	if len(text) > 0 && text[0] == '-' {
		return -seconds
	}
	return seconds
}
