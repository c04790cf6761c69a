// Prints what does not depend on time: goroutines that only the scheduler's signals interrupt, channels, panics.
package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

//go:noinline
func never(stop *int32) (n uint64) {
	for atomic.LoadInt32(stop) == 0 {
		n++
	}
	return n
}

type tree struct{ left, right *tree }

func grow(depth int) *tree {
	if depth == 0 {
		return &tree{}
	}
	return &tree{grow(depth - 1), grow(depth - 1)}
}

func (t *tree) count() int {
	if t.left == nil {
		return 1
	}
	return 1 + t.left.count() + t.right.count()
}

func faults() (caught int) {
	var none *tree
	for i := 0; i < 2000; i++ {
		func() {
			defer func() {
				if recover() != nil {
					caught++
				}
			}()
			if i%2 == 0 {
				_ = none.left.right
			} else {
				panic("on purpose")
			}
		}()
	}
	return caught
}

func deep(n int) int {
	var room [64]int
	if n == 0 {
		return 0
	}
	room[n%64] = n
	return deep(n-1) + room[n%64] - n + 1
}

func main() {
	// With one processor, those that never yield have to be interrupted.
	runtime.GOMAXPROCS(1)
	var stop int32
	var loops sync.WaitGroup
	for i := 0; i < 4; i++ {
		loops.Add(1)
		go func() { defer loops.Done(); never(&stop) }()
	}
	for i := 0; i < 10; i++ {
		time.Sleep(time.Millisecond)
		runtime.GC()
	}
	atomic.StoreInt32(&stop, 1)
	loops.Wait()
	fmt.Println("interrupted")

	runtime.GOMAXPROCS(4)
	numbers, sums := make(chan int), make(chan int)
	for i := 0; i < 100; i++ {
		go func() {
			sum := 0
			for n := range numbers {
				sum += n
			}
			sums <- sum
		}()
	}
	for i := 0; i < 100000; i++ {
		numbers <- i
	}
	close(numbers)
	total := 0
	for i := 0; i < 100; i++ {
		total += <-sums
	}
	fmt.Println("sum", total)

	var nodes int64
	var growing sync.WaitGroup
	for i := 0; i < 8; i++ {
		growing.Add(1)
		go func() { defer growing.Done(); atomic.AddInt64(&nodes, int64(grow(16).count())) }()
	}
	growing.Wait()
	fmt.Println("nodes", nodes, "faults", faults(), "deep", deep(100000))

	words := strings.Fields(strings.Repeat("one two three four ", 20000))
	sort.Strings(words)
	fmt.Printf("%s %s %x\n", words[0], words[len(words)-1], sha256.Sum256([]byte(strings.Join(words, ","))))

	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGUSR1)
	for i := 0; i < 100; i++ {
		syscall.Kill(syscall.Getpid(), syscall.SIGUSR1)
		<-told
	}
	out, err := exec.Command("/bin/echo", "a process").Output()
	fmt.Printf("%s%v\n", out, err)
}
