//go:build unix

package proc_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/proc"
)

// The test binary is also the command that the tests run: childMode names what
// it does then.
const childMode = "BERTH_PROC_CHILD"

func TestMain(m *testing.M) {
	if mode, ok := os.LookupEnv(childMode); ok {
		os.Unsetenv(childMode)
		child(mode)
		os.Exit(0)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // else every child takes a second to exit
	os.Exit(m.Run())
}

func child(mode string) {
	name, arg, _ := strings.Cut(mode, "=")
	n, _ := strconv.Atoi(arg)
	switch name {
	case "exit":
		os.Exit(n)
	case "die":
		syscall.Kill(os.Getpid(), syscall.Signal(n))
		forever()
	case "ignore":
		signal.Ignore(syscall.SIGTERM)
		ready()
		forever()
	case "stop":
		signal.Ignore(syscall.SIGTERM)
		ready()
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		forever()
	case "wait":
		ready()
		forever()
	case "clean":
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM)
		ready()
		<-term
		fmt.Println("cleaned")
	case "leave":
		leave(arg, nil)
	case "leave-then-ignore":
		leave("ignore", nil)
		signal.Ignore(syscall.SIGTERM)
		ready()
		forever()
	case "escape":
		leave("wait", &syscall.SysProcAttr{Setsid: true})
	case "flood":
		flood(n)
	case "noise":
		os.Stderr.Write(bytes.Repeat([]byte("noise\n"), 200_000))
		fmt.Fprintln(os.Stderr, "\x1b[31mthe last word")
		os.Exit(1)
	case "run":
		proc.Command{Path: os.Args[0], Env: []string{childMode + "=wait"}, Stdout: os.Stdout}.Run(context.Background())
	case "hold":
		io.Copy(io.Discard, must(os.Open(arg)))
	case "env":
		fmt.Println(os.Getenv(arg))
	}
}

// forever blocks. Waiting for a signal keeps the runtime from calling it a
// deadlock.
func forever() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR1)
	select {}
}

// ready tells the test that the child is where it wants it.
func ready() { fmt.Println("ready", os.Getpid()) }

// leave starts a child that goes on with this one's pipes, and returns when it
// is ready.
func leave(mode string, attr *syscall.SysProcAttr) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childMode+"="+mode)
	cmd.SysProcAttr = attr
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	// The child's "ready" comes here; its stderr stays the pipe of the test.
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	line, _ := bufio.NewReader(r).ReadString('\n')
	fmt.Print(line)
}

func flood(mib int) {
	buf := bytes.Repeat([]byte{'x'}, 1<<20)
	for i := 0; mib == 0 || i < mib; i++ {
		os.Stdout.Write(buf)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A listener collects output and tells the lines as they come.
type listener struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	lines chan string
}

func listen() *listener { return &listener{lines: make(chan string, 64)} }

func (l *listener) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.Write(p)
	for {
		line, err := l.buf.ReadString('\n')
		if err != nil {
			l.buf.WriteString(line)
			return len(p), nil
		}
		l.lines <- strings.TrimSpace(line)
	}
}

// pid waits for a child's "ready" and returns the pid in it.
func (l *listener) pid(t *testing.T) int {
	t.Helper()
	select {
	case line := <-l.lines:
		pid, err := strconv.Atoi(strings.TrimPrefix(line, "ready "))
		if err != nil {
			t.Fatalf("the child said %q", line)
		}
		return pid
	case <-time.After(lastResort):
		t.Fatal("the child never got ready")
	}
	return 0
}

// lastResort ends a test that hangs.
const lastResort = 20 * time.Second

type result struct {
	status proc.Status
	err    error
}

// start runs this binary as a child in the background.
func start(t *testing.T, ctx context.Context, mode string, c proc.Command) <-chan result {
	t.Helper()
	c.Path = os.Args[0]
	c.Env = append(c.Env, childMode+"="+mode)
	done := make(chan result, 1)
	go func() {
		status, err := c.Run(ctx)
		done <- result{status, err}
	}()
	return done
}

func wait(t *testing.T, done <-chan result) result {
	t.Helper()
	select {
	case r := <-done:
		return r
	case <-time.After(lastResort):
		t.Fatal("Run does not return")
		return result{}
	}
}

func run(t *testing.T, mode string, c proc.Command) result {
	t.Helper()
	return wait(t, start(t, t.Context(), mode, c))
}

// gone demands that the process is dead: not there, or a zombie that waits for
// its parent.
func gone(t *testing.T, pid int) {
	t.Helper()
	out, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	if state := strings.TrimSpace(string(out)); state != "" && state[0] != 'Z' {
		t.Errorf("process %d is alive in state %s", pid, state)
	}
}
