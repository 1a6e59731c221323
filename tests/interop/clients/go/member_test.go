// A member of a group that is driven from outside: it reads TOPIC in GROUP by PROTOCOL ("classic" or "consumer") until its standard
// input ends, tells on standard output what it reads and owns, and commits before it gives a partition up.

package clients

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestMember(t *testing.T) {
	topic, owned := os.Getenv("TOPIC"), map[int32]bool{}
	tell := func(partitions map[string][]int32, isOwned bool) {
		for _, partition := range partitions[topic] {
			delete(owned, partition)
			if isOwned {
				owned[partition] = true
			}
		}
		numbers := []string{}
		for partition := range owned {
			numbers = append(numbers, fmt.Sprint(partition))
		}
		slices.Sort(numbers)
		fmt.Println("owned", strings.Join(numbers, " "))
	}
	options := []kgo.Opt{
		kgo.ConsumerGroup(os.Getenv("GROUP")), kgo.ConsumeTopics(topic), kgo.Balancers(kgo.RangeBalancer()),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) { tell(partitions, true) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) { tell(partitions, false) }),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
			if err := client.CommitUncommittedOffsets(ctx); err != nil {
				fmt.Println("commit", err) // a broker's end prevented it: the next owner reads again
			}
			tell(partitions, false)
		}),
	}
	if os.Getenv("PROTOCOL") == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	} else {
		options = append(options, kgo.HeartbeatInterval(300*time.Millisecond))
	}
	client := franz(t, options...)
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	for {
		select {
		case <-ended:
			client.AllowRebalance()
			return
		default:
			for _, record := range polled(client) {
				fmt.Println("read", string(record.Value))
			}
			client.AllowRebalance()
		}
	}
}
