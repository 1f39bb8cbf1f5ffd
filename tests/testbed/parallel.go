package main

import (
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
)

// runtimeObject is any Kubernetes object.
type runtimeObject = runtime.Object

// parallel calls f(0) … f(n-1) from c goroutines and returns the first error, after which it
// starts no more.
func parallel(c, n int, f func(i int) error) error {
	var next atomic.Int64
	var once sync.Once
	var first error
	var stop atomic.Bool
	var wg sync.WaitGroup
	if c > n {
		c = n
	}
	for range c {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for !stop.Load() {
				i := int(next.Add(1) - 1)
				if i >= n {
					return
				}
				if err := f(i); err != nil {
					once.Do(func() { first = err })
					stop.Store(true)
				}
			}
		}()
	}
	wg.Wait()
	return first
}
