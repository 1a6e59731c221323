// Records of a franz-go client that authenticates: MECHANISM, SASL_USER and SASL_PASSWORD say how.

package clients

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func mechanism(t *testing.T) sasl.Mechanism {
	t.Helper()
	user, password := os.Getenv("SASL_USER"), os.Getenv("SASL_PASSWORD")
	switch name := os.Getenv("MECHANISM"); name {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	default:
		t.Fatalf("MECHANISM is %q", name)
		return nil
	}
}

// TestSasl takes longer than several sessions: franz-go authenticates again in between.
func TestSasl(t *testing.T) {
	login := kgo.SASL(mechanism(t))
	topic := fresh("sasl")
	_, err := kadm.NewClient(franz(t, login)).CreateTopic(within(t), 1, 1, nil, topic)
	must(t, err)
	producer := franz(t, login, kgo.DefaultProduceTopic(topic))
	const count = 60
	for i := range count {
		must(t, producer.ProduceSync(within(t), kgo.StringRecord(fmt.Sprint("value", i))).FirstErr())
		time.Sleep(100 * time.Millisecond)
	}
	consumer := franz(t, login, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var values []string
	eventually(t, "all records are consumed", func() bool {
		for _, record := range polled(consumer) {
			values = append(values, string(record.Value))
		}
		return len(values) == count
	})
	for i, value := range values {
		if value != fmt.Sprint("value", i) {
			t.Fatalf("record %d is %q", i, value)
		}
	}
}
