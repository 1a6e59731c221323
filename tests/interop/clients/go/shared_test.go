// What every tour needs. The broker's address comes in BOOTSTRAP.

package clients

import (
	"crypto/rand"
	"os"
	"testing"
	"time"
)

func bootstrap(t *testing.T) string {
	t.Helper()
	address := os.Getenv("BOOTSTRAP")
	if address == "" {
		t.Fatal("BOOTSTRAP must hold host:port of a broker")
	}
	return address
}

// fresh makes names that no other test uses.
func fresh(name string) string { return name + "-" + rand.Text()[:8] }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, what string, found, expected int64) {
	t.Helper()
	if found != expected {
		t.Fatalf("%s is %d, not %d", what, found, expected)
	}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not in time: " + what)
		}
	}
}
