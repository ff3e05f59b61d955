package render

import (
	"bufio"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/lease"
)

// maxPixels bounds the picture that is decoded to see whether it is whole.
const maxPixels = 1 << 28

// An output is a file on its way to its place: staged beside it under a name
// of its own, and renamed once it is whole.
type output struct {
	root *os.Root
	// key is the output's place below the root, staged the file's before.
	key, staged string
}

// stage makes the output's directory. The staged name carries the fence and
// the ref of the lease, so that no two leases share one, and ends like the
// output, for programs that go by that.
func stage(root *os.Root, key string, fence lease.Fence, ref lease.Ref) (*output, error) {
	key = filepath.FromSlash(key)
	if err := root.MkdirAll(filepath.Dir(key), 0o777); err != nil {
		return nil, outputFailed(key, err)
	}
	dir, base := filepath.Split(key)
	ext := filepath.Ext(base)
	name := fmt.Sprintf(".%s.%d-%s.staged%s", strings.TrimSuffix(base, ext), fence, ref, ext)
	return &output{root: root, key: key, staged: filepath.Join(dir, name)}, nil
}

// path is where a renderer writes.
func (o *output) path() string { return filepath.Join(o.root.Name(), o.staged) }

// commit puts the staged file in its place and returns its size. It refuses a
// file that is not whole, and asks trusted at the last moment.
func (o *output) commit(trusted func() error) (int64, error) {
	size, err := o.flush()
	if err != nil {
		return 0, err
	}
	if err := trusted(); err != nil {
		return 0, err
	}
	if err := o.root.Rename(o.staged, o.key); err != nil {
		return 0, outputFailed(o.key, err)
	}
	if err := o.syncDir(); err != nil {
		return 0, lease.Errorf(lease.CodeOutputFailed, "%s is in place, but a loss of power may undo that: %w", o.key, err)
	}
	return size, nil
}

// flush checks the staged file and makes it durable.
func (o *output) flush() (int64, error) {
	size, err := whole(o.root, o.staged)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, lease.Errorf(lease.CodeOutputInvalid, "the renderer ended well but wrote no %s; see that it writes the output it is told", o.key)
	case err != nil:
		return 0, lease.Errorf(lease.CodeOutputInvalid, "the renderer ended well but %s is not whole: %w", o.key, err)
	}
	f, err := o.root.OpenFile(o.staged, os.O_RDWR, 0)
	if err != nil {
		return 0, outputFailed(o.key, err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return 0, outputFailed(o.key, err)
	}
	return size, nil
}

// syncDir makes the rename durable, where the system can.
func (o *output) syncDir() error {
	dir, err := o.root.Open(filepath.Dir(o.key))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// discard removes the staged file, if it is there.
func (o *output) discard() error {
	if err := o.root.Remove(o.staged); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return outputFailed(o.key, err)
	}
	return nil
}

func outputFailed(key string, err error) *lease.Error {
	return lease.Errorf(lease.CodeOutputFailed, "cannot write %s: %w; see the output directory's space and rights", key, err)
}

// whole returns the size of a file that has something in it and, where its
// name says that it is a picture, is one to the last byte.
func whole(root *os.Root, name string) (int64, error) {
	f, err := root.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, errors.New("it is no regular file")
	case info.Size() == 0:
		return 0, errors.New("it is empty")
	}
	switch strings.ToLower(path.Ext(filepath.ToSlash(name))) {
	case ".png":
		err = decode(f, png.DecodeConfig, png.Decode)
	case ".jpg", ".jpeg":
		err = decode(f, jpeg.DecodeConfig, jpeg.Decode)
	}
	return info.Size(), err
}

func decode(f io.ReadSeeker, config func(io.Reader) (image.Config, error), picture func(io.Reader) (image.Image, error)) error {
	c, err := config(bufio.NewReader(f))
	if err != nil {
		return err
	}
	if pixels := int64(c.Width) * int64(c.Height); pixels > maxPixels {
		return fmt.Errorf("it has %d pixels, and at most %d are checked; render it smaller or as another kind of file", pixels, maxPixels)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = picture(bufio.NewReader(f))
	return err
}

// sweep removes what older leases left staged for the output, when they were
// killed: the files among names whose fence is lower than the output's.
func (o *output) sweep(names []string, fence lease.Fence) error {
	dir, base := filepath.Split(o.key)
	ext := filepath.Ext(base)
	var errs []error
	for _, name := range names {
		middle, ok := strings.CutPrefix(name, "."+strings.TrimSuffix(base, ext)+".")
		if !ok {
			continue
		}
		middle, ok = strings.CutSuffix(middle, ".staged"+ext)
		number, _, found := strings.Cut(middle, "-")
		old, err := strconv.ParseUint(number, 10, 64)
		if !ok || !found || err != nil || lease.Fence(old) >= fence {
			continue
		}
		if err := o.root.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, outputFailed(o.key, err))
		}
	}
	return errors.Join(errs...)
}
