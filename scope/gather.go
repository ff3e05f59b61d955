package scope

import (
	"context"
	"fmt"
	"time"
)

// Gather runs functions of which every result is wanted.
type Gather[T any] struct {
	// Discard gets the values that are not returned because another function failed, each
	// once. Its context has the caller's values, not its cancellation, and ends after
	// DiscardTimeout.
	Discard func(ctx context.Context, v T)
	// DiscardTimeout is 10 s if it is 0.
	DiscardTimeout time.Duration
	// Limit is how many run at the same time; 0 is no limit.
	Limit int
}

// All runs all functions and returns their results in the order of the functions. See Gather.
func All[T any](ctx context.Context, fs ...func(ctx context.Context) (T, error)) ([]T, error) {
	return Gather[T]{}.Run(ctx, fs...)
}

// Run runs the functions and returns their results in the order of the functions, or nil and
// an error as the function [Run] does: then the others were cancelled, all have ended, and
// values that had come are discarded. Without functions there are no results and no error.
func (g Gather[T]) Run(ctx context.Context, fs ...func(ctx context.Context) (T, error)) ([]T, error) {
	results := make([]Result[T], len(fs))
	came := make([]bool, len(fs))
	complete := false
	defer func() {
		for i, r := range results {
			if !complete && came[i] {
				discard(ctx, g.Discard, g.DiscardTimeout, r.Value)
			}
		}
	}()
	err := Run(ctx, Config{Name: "gather", Limit: g.Limit}, func(ctx context.Context, s *Scope) error {
		for i, f := range fs {
			err := s.Go(ctx, fmt.Sprint(i+1), func(ctx context.Context) (err error) {
				results[i].Value, err = f(ctx)
				came[i] = err == nil
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	complete = true
	all := make([]T, len(fs))
	for i, r := range results {
		all[i] = r.Value
	}
	return all, nil
}
