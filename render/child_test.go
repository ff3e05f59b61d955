package render_test

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/render"
)

// The test binary is also the program that the tests render with.
const childMode = "BERTH_RENDER_CHILD"

func TestMain(m *testing.M) {
	if mode, ok := os.LookupEnv(childMode); ok {
		child(mode, os.Args[len(os.Args)-1])
		os.Exit(0)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // else every child takes a second to exit
	os.Exit(m.Run())
}

// child writes to the file out in some way.
func child(mode, out string) {
	put := func(data []byte) {
		if err := os.WriteFile(out, data, 0o666); err != nil {
			panic(err)
		}
	}
	whole := picture()
	switch mode {
	case "whole":
		put(whole)
	case "empty":
		put(nil)
	case "byte":
		put(whole[:1])
	case "cut":
		put(whole[:len(whole)-20])
	case "fail":
		put(whole)
		fmt.Fprintln(os.Stderr, "the scene has no camera")
		os.Exit(3)
	case "hang":
		signal.Ignore(syscall.SIGTERM)
		put(whole[:len(whole)/2])
		fmt.Println("ready", os.Getpid())
		signal.Notify(make(chan os.Signal, 1), os.Interrupt) // else the runtime calls it a deadlock
		select {}
	case "env":
		put([]byte(strings.Join(os.Environ(), "\n")))
	case "args":
		put([]byte(strings.Join(os.Args[1:len(os.Args)-1], "\n")))
	case "serve":
		serveThenDie(out)
	}
}

// program returns a renderer that runs this binary.
func program(t *testing.T, mode string, p render.Program) *render.Command {
	t.Helper()
	p.Path, p.Args, p.Env = os.Args[0], append(p.Args, "{output}"), append(p.Env, childMode+"="+mode)
	c, err := render.NewCommand(p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
