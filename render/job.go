package render

import (
	"path"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/berth-dev/berth/lease"
)

// MaxKey is the longest source or output key, in bytes.
const MaxKey = 1024

// A Job names one thing to render.
type Job struct {
	// JobID matches [A-Za-z0-9_.:-]{1,128}.
	JobID string
	// SourceKey is the path of the source, with slashes: absolute, or below
	// the service's directory of sources.
	SourceKey string
	// OutputKey is the path of the output, with slashes, below the service's
	// directory of outputs. Its extension says of which kind the output is.
	OutputKey string
}

// Check refuses a job with a field outside its bounds; the error has
// [lease.CodeJobInvalid] and names the field.
func (j Job) Check() error {
	if !lease.ValidName(j.JobID) {
		return invalid("jobId", "%q must match [A-Za-z0-9_.:-]{1,128}", shortened(j.JobID))
	}
	if err := checkKey("sourceKey", j.SourceKey); err != nil {
		return err
	}
	if err := checkKey("outputKey", j.OutputKey); err != nil {
		return err
	}
	local := filepath.FromSlash(j.OutputKey)
	if !filepath.IsLocal(local) || filepath.Clean(local) == "." || strings.HasSuffix(j.OutputKey, "/") {
		return invalid("outputKey", "%q must name a file below the directory of outputs", shortened(j.OutputKey))
	}
	return nil
}

// output returns the output key in its shortest form.
func (j Job) output() string { return path.Clean(j.OutputKey) }

func checkKey(field, key string) error {
	switch {
	case key == "":
		return invalid(field, "it must not be empty")
	case len(key) > MaxKey:
		return invalid(field, "it has %d bytes; at most %d", len(key), MaxKey)
	case !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl):
		return invalid(field, "%q must be UTF-8 without control characters", shortened(key))
	}
	return nil
}

func invalid(field, format string, args ...any) *lease.Error {
	return lease.Errorf(lease.CodeJobInvalid, field+": "+format, args...)
}

func shortened(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
