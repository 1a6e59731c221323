// The tour with sarama, once for each protocol generation that it can be told to speak.

package clients

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/IBM/sarama"
)

var generations = []sarama.KafkaVersion{
	sarama.V0_11_0_0, sarama.V1_0_0_0, sarama.V1_1_0_0, sarama.V2_0_0_0, sarama.V2_1_0_0, sarama.V2_3_0_0, sarama.V2_4_0_0, sarama.V2_6_0_0,
	sarama.V2_8_0_0, sarama.V3_3_0_0, sarama.V3_9_0_0, sarama.MaxVersion,
}

func saramaConfig(version sarama.KafkaVersion) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = version
	config.Producer.Return.Successes = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	return config
}

type group struct {
	seen chan *sarama.ConsumerMessage
}

func (group) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (group) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (g group) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "seen")
		g.seen <- message
	}
	return nil
}

func TestSaramaGenerations(t *testing.T) {
	for _, version := range generations {
		t.Run(version.String(), func(t *testing.T) {
			admin, err := sarama.NewClusterAdmin([]string{bootstrap(t)}, saramaConfig(version))
			must(t, err)
			defer admin.Close()
			topic := fresh("sarama")
			retention := "3600000"
			must(t, admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &retention}}, false))
			produced := saramaProduce(t, version, topic)
			saramaConsume(t, admin, version, topic, produced)
			entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}})
			must(t, err)
			if len(entries) != 1 || entries[0].Value != retention {
				t.Fatalf("settings are %v", entries)
			}
			if version.IsAtLeast(sarama.V1_0_0_0) { // sarama's own rule
				must(t, admin.CreatePartitions(topic, 3, nil, false))
			}
			must(t, admin.DeleteRecords(topic, map[int32]int64{0: 5}))
			must(t, admin.DeleteTopic(topic))
		})
	}
}

// saramaProduce answers how many records it wrote: every compression the generation has, plainly and idempotently.
func saramaProduce(t *testing.T, version sarama.KafkaVersion, topic string) int {
	t.Helper()
	count := 0
	codecs := []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4}
	if version.IsAtLeast(sarama.V2_1_0_0) {
		codecs = append(codecs, sarama.CompressionZSTD)
	}
	for _, codec := range codecs {
		for _, idempotent := range []bool{false, true} {
			config := saramaConfig(version)
			config.Producer.Compression = codec
			config.Producer.Partitioner = sarama.NewRoundRobinPartitioner
			if idempotent {
				config.Producer.Idempotent = true
				config.Producer.RequiredAcks = sarama.WaitForAll
				config.Net.MaxOpenRequests = 1
			}
			client := connected(t, config, topic)
			producer, err := sarama.NewSyncProducerFromClient(client)
			must(t, err)
			messages := make([]*sarama.ProducerMessage, 20)
			for i := range messages {
				messages[i] = &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(fmt.Sprint(codec, i)), Headers: []sarama.RecordHeader{{Key: []byte("h")}}}
			}
			must(t, producer.SendMessages(messages))
			must(t, producer.Close())
			must(t, client.Close())
			count += len(messages)
		}
	}
	return count
}

// connected answers a client that has its connection to the leader of both partitions. A producer that is made sooner now and
// then takes the connection for broken, closes it with a request on its way, and writes the same records again.
func connected(t *testing.T, config *sarama.Config, topic string) sarama.Client {
	t.Helper()
	client, err := sarama.NewClient([]string{bootstrap(t)}, config)
	must(t, err)
	for _, partition := range []int32{0, 1} {
		eventually(t, "connected to the leader", func() bool {
			leader, err := client.Leader(topic, partition)
			must(t, err)
			is, err := leader.Connected()
			return is && err == nil
		})
	}
	return client
}

func saramaConsume(t *testing.T, admin sarama.ClusterAdmin, version sarama.KafkaVersion, topic string, count int) {
	t.Helper()
	name := fresh("group")
	config := saramaConfig(version)
	if version.IsAtLeast(sarama.V2_3_0_0) {
		config.Consumer.Group.InstanceId = "one"
	}
	consumer, err := sarama.NewConsumerGroup([]string{bootstrap(t)}, name, config)
	must(t, err)
	ctx, cancel := context.WithCancel(within(t))
	handler := group{seen: make(chan *sarama.ConsumerMessage, count)}
	ended := make(chan error, 1)
	go func() { ended <- consumer.Consume(ctx, []string{topic}, handler) }()
	for range count {
		select {
		case message := <-handler.seen:
			if len(message.Headers) != 1 {
				t.Fatalf("message has headers %v", message.Headers)
			}
		case err := <-ended:
			t.Fatalf("the group ended early: %v", err)
		case <-ctx.Done():
			t.Fatal("records are missing")
		}
	}
	described, err := admin.DescribeConsumerGroups([]string{name})
	must(t, err)
	if described[0].State != "Stable" || len(described[0].Members) != 1 {
		t.Fatalf("group is %+v", described[0])
	}
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	must(t, consumer.Close())
	if version.IsAtLeast(sarama.V2_4_0_0) {
		_, err := admin.RemoveMemberFromConsumerGroup(name, []string{"one"})
		must(t, err)
	}
	offsets, err := admin.ListConsumerGroupOffsets(name, map[string][]int32{topic: {0, 1}})
	must(t, err)
	sum := int64(0)
	for _, partition := range []int32{0, 1} {
		block := offsets.GetBlock(topic, partition)
		if block.Metadata != "seen" {
			t.Fatalf("metadata of the commit is %q", block.Metadata)
		}
		sum += block.Offset
	}
	same(t, "sum of committed offsets", sum, int64(count))
	if version.IsAtLeast(sarama.V1_1_0_0) && (!version.IsAtLeast(sarama.V2_3_0_0) || version.IsAtLeast(sarama.V2_4_0_0)) {
		must(t, admin.DeleteConsumerGroup(name))
	}
}

func TestSaramaListOffsetsByTime(t *testing.T) {
	client, err := sarama.NewClient([]string{bootstrap(t)}, saramaConfig(sarama.MaxVersion))
	must(t, err)
	defer client.Close()
	producer, err := sarama.NewSyncProducerFromClient(client)
	must(t, err)
	topic := fresh("sarama-times")
	for i := range 5 {
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("x"), Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i)*1000)})
		must(t, err)
	}
	offset, err := client.GetOffset(topic, 0, 1_700_000_001_500)
	must(t, err)
	same(t, "offset by time", offset, 2)
}
