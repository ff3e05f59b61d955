package render

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/berth-dev/berth/lease"
)

// maxLine bounds a line of a jobs file.
const maxLine = 64 << 10

// ReadJobs reads jobs from JSON lines: one object a line with jobId, sourceKey
// and outputKey, all strings; empty lines are skipped. It refuses anything
// else, and an id or output that an earlier line has, with
// [lease.CodeJobInvalid]; the error names the line and the field. name is the
// file's, for errors.
func ReadJobs(r io.Reader, name string) ([]Job, error) {
	var jobs []Job
	ids, outputs := map[string]int{}, map[string]int{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		job, err := parseJob(lines.Bytes())
		if err == nil {
			err = errors.Join(taken("jobId", job.JobID, n, ids), taken("outputKey", job.output(), n, outputs))
		}
		if err != nil {
			return nil, lease.Errorf(lease.CodeJobInvalid, "cannot read jobs: %s:%d: %v", name, n, err)
		}
		jobs = append(jobs, job)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, lease.Errorf(lease.CodeJobInvalid, "cannot read jobs: %s:%d: the line is longer than %d bytes", name, n+1, maxLine)
	} else if err != nil {
		return nil, lease.Errorf(lease.CodeSourceMissing, "cannot read jobs: %s: %w", name, err)
	}
	return jobs, nil
}

// taken refuses a value that an earlier line has.
func taken(field, value string, line int, lines map[string]int) error {
	if before, ok := lines[value]; ok {
		return fmt.Errorf("%s: %q is that of line %d too", field, value, before)
	}
	lines[value] = line
	return nil
}

// parseJob reads one object and checks the job in it.
func parseJob(line []byte) (Job, error) {
	var job Job
	fields := map[string]*string{"jobId": &job.JobID, "sourceKey": &job.SourceKey, "outputKey": &job.OutputKey}
	d := json.NewDecoder(bytes.NewReader(line))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return Job{}, fmt.Errorf("not a JSON object; write {\"jobId\": …, \"sourceKey\": …, \"outputKey\": …}")
	}
	for d.More() {
		if err := parseField(d, fields); err != nil {
			return Job{}, err
		}
	}
	if _, err := d.Token(); err != nil {
		return Job{}, fmt.Errorf("the JSON object is not whole: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Job{}, errors.New("something follows the JSON object; write one object a line")
	}
	return job, job.Check()
}

// parseField reads one field and strikes it from those that may still come.
func parseField(d *json.Decoder, fields map[string]*string) error {
	key, err := d.Token()
	if err != nil {
		return fmt.Errorf("not JSON: %v", err)
	}
	name, _ := key.(string)
	to, known := fields[name]
	if !known {
		return fmt.Errorf("%s: unknown field; a job has jobId, sourceKey and outputKey", shortened(name))
	}
	if to == nil {
		return fmt.Errorf("%s: given twice", name)
	}
	value, err := d.Token()
	if err != nil {
		return fmt.Errorf("%s: not JSON: %v", name, err)
	}
	text, ok := value.(string)
	if !ok {
		return fmt.Errorf("%s: must be a string", name)
	}
	*to, fields[name] = text, nil
	return nil
}
