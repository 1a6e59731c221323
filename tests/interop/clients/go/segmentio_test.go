// The tour with segmentio/kafka-go, which speaks old versions of many requests.

package clients

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
)

func segmentioTopic(t *testing.T, partitions int) (string, *kafka.Client) {
	t.Helper()
	client := &kafka.Client{Addr: kafka.TCP(bootstrap(t)), Timeout: 10 * time.Second}
	topic := fresh("segmentio")
	created, err := client.CreateTopics(within(t), &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}},
	})
	must(t, err)
	must(t, created.Errors[topic])
	return topic, client
}

func TestSegmentioWriteAndRead(t *testing.T) {
	for name, codec := range map[string]kafka.Compression{
		"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
	} {
		t.Run(name, func(t *testing.T) {
			topic, _ := segmentioTopic(t, 1)
			writer := &kafka.Writer{Addr: kafka.TCP(bootstrap(t)), Topic: topic, Compression: codec, RequiredAcks: kafka.RequireAll, BatchTimeout: 10 * time.Millisecond}
			messages := make([]kafka.Message, 50)
			for i := range messages {
				messages[i] = kafka.Message{Key: []byte(fmt.Sprint(i)), Value: []byte(fmt.Sprint("value", i)), Headers: []kafka.Header{{Key: "h", Value: []byte("x")}}}
			}
			must(t, writer.WriteMessages(within(t), messages...))
			must(t, writer.Close())
			reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{bootstrap(t)}, Topic: topic, MaxWait: 200 * time.Millisecond})
			defer reader.Close()
			for i := range messages {
				message, err := reader.ReadMessage(within(t))
				must(t, err)
				if string(message.Value) != fmt.Sprint("value", i) || message.Offset != int64(i) || len(message.Headers) != 1 {
					t.Fatalf("message %d is %v", i, message)
				}
			}
			must(t, reader.SetOffset(20))
			message, err := reader.ReadMessage(within(t))
			must(t, err)
			same(t, "offset after the seek", message.Offset, 20)
		})
	}
}

func TestSegmentioGroup(t *testing.T) {
	topic, client := segmentioTopic(t, 3)
	group := fresh("group")
	writer := &kafka.Writer{Addr: kafka.TCP(bootstrap(t)), Topic: topic, Balancer: &kafka.RoundRobin{}, BatchTimeout: 10 * time.Millisecond}
	for i := range 30 {
		must(t, writer.WriteMessages(within(t), kafka.Message{Value: []byte(fmt.Sprint(i))}))
	}
	must(t, writer.Close())
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap(t)}, GroupID: group, Topic: topic, StartOffset: kafka.FirstOffset, MaxWait: 200 * time.Millisecond,
	})
	for range 30 {
		message, err := reader.FetchMessage(within(t))
		must(t, err)
		must(t, reader.CommitMessages(within(t), message))
	}
	must(t, reader.Close())
	fetched, err := client.OffsetFetch(within(t), &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {0, 1, 2}}})
	must(t, err)
	committed := int64(0)
	for _, partition := range fetched.Topics[topic] {
		must(t, partition.Error)
		committed += partition.CommittedOffset
	}
	same(t, "sum of committed offsets", committed, 30)
	deleted, err := client.DeleteGroups(within(t), &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	must(t, err)
	must(t, deleted.Errors[group])
}

func TestSegmentioOffsetsAndDeletion(t *testing.T) {
	topic, client := segmentioTopic(t, 1)
	connection, err := kafka.DialLeader(within(t), "tcp", bootstrap(t), topic, 0)
	must(t, err)
	defer connection.Close()
	for i := range 5 {
		_, err = connection.WriteMessages(kafka.Message{Value: []byte(fmt.Sprint(i)), Time: time.UnixMilli(1_700_000_000_000 + int64(i)*1000)})
		must(t, err)
	}
	offset, err := connection.ReadOffset(time.UnixMilli(1_700_000_002_500))
	must(t, err)
	same(t, "offset by time", offset, 3)
	first, last, err := connection.ReadOffsets()
	must(t, err)
	same(t, "first offset", first, 0)
	same(t, "last offset", last, 5)
	partitions, err := connection.ReadPartitions(topic)
	must(t, err)
	same(t, "partitions", int64(len(partitions)), 1)
	deleted, err := client.DeleteTopics(within(t), &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	must(t, err)
	must(t, deleted.Errors[topic])
	eventually(t, "the topic is gone", func() bool {
		metadata, err := client.Metadata(within(t), &kafka.MetadataRequest{})
		must(t, err)
		for _, listed := range metadata.Topics {
			if listed.Name == topic && !errors.Is(listed.Error, kafka.UnknownTopicOrPartition) {
				return false
			}
		}
		return true
	})
}
