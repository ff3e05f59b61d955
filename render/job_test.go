package render_test

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/render"
)

func TestJobsAreValidated(t *testing.T) {
	long := strings.Repeat("x", 1025)
	for name, c := range map[string]struct {
		job  render.Job
		says string
	}{
		"no id":            {render.Job{"", "a.svg", "a.png"}, "jobId"},
		"a space in it":    {render.Job{"a b", "a.svg", "a.png"}, "jobId"},
		"a long id":        {render.Job{strings.Repeat("x", 129), "a.svg", "a.png"}, "jobId"},
		"a newline at end": {render.Job{"a\n", "a.svg", "a.png"}, "jobId"},
		"no source":        {render.Job{"a", "", "a.png"}, "sourceKey"},
		"a NUL":            {render.Job{"a", "a\x00.svg", "a.png"}, "sourceKey"},
		"no output":        {render.Job{"a", "a.svg", ""}, "outputKey"},
		"a long output":    {render.Job{"a", "a.svg", long}, "outputKey"},
		"not UTF-8":        {render.Job{"a", "a.svg", "\xff.png"}, "outputKey"},
		"absolute":         {render.Job{"a", "a.svg", "/etc/a.png"}, "outputKey"},
		"above":            {render.Job{"a", "a.svg", "../a.png"}, "outputKey"},
		"above after all":  {render.Job{"a", "a.svg", "b/../../a.png"}, "outputKey"},
		"the directory":    {render.Job{"a", "a.svg", "b/.."}, "outputKey"},
		"a directory":      {render.Job{"a", "a.svg", "b/"}, "outputKey"},
	} {
		t.Run(name, func(t *testing.T) { demandCode(t, c.job.Check(), lease.CodeJobInvalid, c.says) })
	}
	for _, j := range []render.Job{
		{strings.Repeat("x", 128), "a.svg", "a.png"},
		{"A_b.c:d-9", "/abs/ä ö.svg", "deep/er/a..png"},
		{"a", "../up.svg", "b/../a.png"},
	} {
		if err := j.Check(); err != nil {
			t.Errorf("%+v: %v", j, err)
		}
	}
}

func TestJobsAreReadStrictly(t *testing.T) {
	const good = `{"jobId": "a", "sourceKey": "a.svg", "outputKey": "a.png"}` + "\n"
	for name, c := range map[string]struct{ text, says string }{
		"unknown field":    {good + `{"jobId": "b", "sourcekey": "b.svg"}`, "jobs:2: sourcekey: unknown field"},
		"a bad id":         {good + "\n" + `{"jobId": "b b", "sourceKey": "b.svg", "outputKey": "b.png"}`, "jobs:3: jobId"},
		"a missing field":  {`{"jobId": "b", "sourceKey": "b.svg"}`, "jobs:1: outputKey"},
		"an escape":        {`{"jobId": "b", "sourceKey": "b.svg", "outputKey": "../b.png"}`, "jobs:1: outputKey"},
		"the same id":      {good + `{"jobId": "a", "sourceKey": "b.svg", "outputKey": "b.png"}`, `jobs:2: jobId: "a" is that of line 1`},
		"the same output":  {good + `{"jobId": "b", "sourceKey": "b.svg", "outputKey": "x/../a.png"}`, `jobs:2: outputKey: "a.png" is that of line 1`},
		"a field twice":    {`{"jobId": "a", "jobId": "b"}`, "jobs:1: jobId: given twice"},
		"a number":         {`{"jobId": 7}`, "jobs:1: jobId: must be a string"},
		"an object in it":  {`{"jobId": {}}`, "jobs:1: jobId: must be a string"},
		"a list":           {`["a"]`, "jobs:1: not a JSON object"},
		"no JSON":          {"a b c", "jobs:1: not a JSON object"},
		"cut":              {strings.TrimSuffix(strings.TrimSpace(good), "}"), "jobs:1: the JSON object is not whole"},
		"two on a line":    {strings.TrimSpace(good) + strings.TrimSpace(good), "jobs:1: something follows"},
		"an endless line":  {good + strings.Repeat(" ", 70_000) + good, "jobs:2: the line is longer"},
		"a broken \\u":     {`{"jobId": "\u12"}`, "jobs:1: jobId: not JSON"},
		"a misplaced sign": {`{"jobId" "a"}`, "jobs:1: jobId: not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := render.ReadJobs(strings.NewReader(c.text), "jobs")
			demandCode(t, err, lease.CodeJobInvalid, c.says)
		})
	}
	jobs, err := render.ReadJobs(strings.NewReader("\n"+good+"  \n"), "jobs")
	if err != nil || len(jobs) != 1 || jobs[0] != (render.Job{"a", "a.svg", "a.png"}) {
		t.Errorf("jobs %+v, error %v", jobs, err)
	}
}
