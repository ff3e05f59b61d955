//go:build unix

package proc

import (
	"time"

	"golang.org/x/sys/unix"
)

// restLimit bounds what is taken from a pipe after the group is gone: a pipe
// holds no more by default, and a process outside the group may still write.
const restLimit = 1 << 20

// passRest passes on what is in the pipe, without waiting for more.
func (s *stream) passRest(buf []byte) {
	s.r.SetReadDeadline(time.Time{})
	conn, err := s.r.SyscallConn()
	if err != nil {
		return
	}
	conn.Read(func(fd uintptr) bool {
		for total := 0; total < restLimit; {
			n, err := unix.Read(int(fd), buf)
			if err == unix.EINTR {
				continue
			}
			if err != nil || n <= 0 {
				break
			}
			total += n
			s.write(buf[:n])
		}
		return true
	})
}
