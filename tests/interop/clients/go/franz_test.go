// The whole tour with franz-go: kgo for records and groups, kadm for administration.

package clients

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func franz(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(strings.Split(bootstrap(t), ",")...)}, options...)...)
	must(t, err)
	t.Cleanup(client.Close)
	return client
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func franzTopic(t *testing.T, partitions int32) (string, *kadm.Client) {
	t.Helper()
	admin := kadm.NewClient(franz(t))
	topic := fresh("franz")
	_, err := admin.CreateTopic(within(t), partitions, 1, nil, topic)
	must(t, err)
	return topic, admin
}

func franzProduce(t *testing.T, topic string, count int, options ...kgo.Opt) {
	t.Helper()
	client := franz(t, append(options, kgo.DefaultProduceTopic(topic))...)
	records := make([]*kgo.Record, count)
	for i := range records {
		records[i] = kgo.KeyStringRecord(fmt.Sprint("key", i), fmt.Sprint("value", i))
		records[i].Headers = []kgo.RecordHeader{{Key: "number", Value: []byte(fmt.Sprint(i))}}
	}
	must(t, client.ProduceSync(within(t), records...).FirstErr())
}

// polled answers what comes within 100 ms. Each poll has a context of its own: with one that has ended, kgo answers at once
// and hands out nothing, so that a second member polled after an idle first one would keep its records for ever.
func polled(client *kgo.Client) []*kgo.Record {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	return client.PollFetches(ctx).Records()
}

func TestFranzCompressions(t *testing.T) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			topic, _ := franzTopic(t, 1)
			franzProduce(t, topic, 100, kgo.ProducerBatchCompression(codec))
			franzProduce(t, topic, 100, kgo.ProducerBatchCompression(codec), kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()))
			reader := franz(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			seen := 0
			for seen < 200 {
				fetches := reader.PollFetches(within(t))
				must(t, fetches.Err())
				fetches.EachRecord(func(record *kgo.Record) {
					expected := fmt.Sprint("value", seen%100)
					if string(record.Value) != expected || record.Offset != int64(seen) || len(record.Headers) != 1 {
						t.Fatalf("record %d is %q at %d with %v", seen, record.Value, record.Offset, record.Headers)
					}
					seen++
				})
			}
		})
	}
}

func TestFranzGroups(t *testing.T) {
	for name, balancer := range map[string]kgo.GroupBalancer{
		"range": kgo.RangeBalancer(), "round robin": kgo.RoundRobinBalancer(), "sticky": kgo.StickyBalancer(), "cooperative": kgo.CooperativeStickyBalancer(),
	} {
		t.Run(name, func(t *testing.T) {
			topic, admin := franzTopic(t, 4)
			group := fresh("group")
			franzProduce(t, topic, 400)
			options := []kgo.Opt{
				kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.Balancers(balancer), kgo.DisableAutoCommit(),
				kgo.HeartbeatInterval(200 * time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			}
			first := franz(t, append(options, kgo.InstanceID("one"))...)
			seen := 0
			for seen < 400 {
				fetches := first.PollFetches(within(t))
				must(t, fetches.Err())
				seen += fetches.NumRecords()
			}
			must(t, first.CommitUncommittedOffsets(within(t)))
			second := franz(t, append(options, kgo.InstanceID("two"))...)
			eventually(t, "two members with two partitions each", func() bool {
				polled(first)
				polled(second)
				described, err := admin.DescribeGroups(within(t), group)
				must(t, err)
				if described[group].State != "Stable" || len(described[group].Members) != 2 {
					return false
				}
				for _, member := range described[group].Members {
					assigned, isConsumer := member.Assigned.AsConsumer()
					if !isConsumer || member.InstanceID == nil || len(assigned.Topics) != 1 || len(assigned.Topics[0].Partitions) != 2 {
						return false
					}
				}
				return true
			})
			lags, err := admin.Lag(within(t), group)
			must(t, err)
			if lag := lags[group]; lag.Error() != nil || lag.Lag.Total() != 0 {
				t.Fatalf("lag is %d, error %v", lag.Lag.Total(), lag.Error())
			}
			franzProduce(t, topic, 40)
			for end := time.Now().Add(60 * time.Second); seen < 440; {
				seen += len(polled(first)) + len(polled(second))
				if time.Now().After(end) {
					t.Fatalf("only %d of 440 records came; uncommitted: %v and %v", seen, first.UncommittedOffsets(), second.UncommittedOffsets())
				}
			}
			first.Close()
			second.Close()
			left, err := admin.LeaveGroup(within(t), kadm.LeaveGroup(group).InstanceIDs("one", "two"))
			must(t, err)
			must(t, left.Error())
			offsets, err := admin.FetchOffsets(within(t), group)
			must(t, err)
			if len(offsets[topic]) != 4 {
				t.Fatalf("offsets are %v", offsets)
			}
			_, err = admin.DeleteOffsets(within(t), group, kadm.TopicsSet{topic: {0: {}}})
			must(t, err)
			must(t, admin.CommitAllOffsets(within(t), group, kadm.OffsetsFromRecords(kgo.Record{Topic: topic, Partition: 1, Offset: 6})))
			again := admin.FetchManyOffsets(within(t), group)
			if committed := again[group].Fetched[topic]; len(committed) != 3 || committed[1].At != 7 {
				t.Fatalf("offsets after deletion are %v", committed)
			}
			_, err = admin.DeleteGroup(within(t), group)
			must(t, err)
		})
	}
}

func TestFranzOffsets(t *testing.T) {
	topic, admin := franzTopic(t, 1)
	client := franz(t, kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
	day := time.UnixMilli(1_700_000_000_000)
	for i := range 10 {
		record := kgo.StringRecord(fmt.Sprint(i))
		record.Timestamp = day.Add(time.Duration(i) * time.Hour)
		must(t, client.ProduceSync(within(t), record).FirstErr())
	}
	after, err := admin.ListOffsetsAfterMilli(within(t), day.Add(90*time.Minute).UnixMilli(), topic)
	must(t, err)
	same(t, "offset by time", after[topic][0].Offset, 2)
	latest, err := admin.ListMaxTimestampOffsets(within(t), topic)
	must(t, err)
	same(t, "offset of the largest timestamp", latest[topic][0].Offset, 9)
	deleted, err := admin.DeleteRecords(within(t), kadm.OffsetsFromRecords(kgo.Record{Topic: topic, Offset: 3}))
	must(t, err)
	must(t, deleted.Error())
	start, err := admin.ListStartOffsets(within(t), topic)
	must(t, err)
	same(t, "start after deletion", start[topic][0].Offset, 4)
	end, err := admin.ListEndOffsets(within(t), topic)
	must(t, err)
	same(t, "end", end[topic][0].Offset, 10)
	committed, err := admin.ListCommittedOffsets(within(t), topic)
	must(t, err)
	same(t, "last stable offset", committed[topic][0].Offset, 10)
	var asked kadm.OffsetForLeaderEpochRequest
	asked.Add(topic, 0, 0)
	epochs, err := admin.OffsetForLeaderEpoch(within(t), asked)
	must(t, err)
	same(t, "end of epoch 0", epochs[topic][0].EndOffset, 10)
	reader := franz(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AfterMilli(day.Add(7 * time.Hour).UnixMilli())}}))
	seen := 0
	for seen < 3 {
		fetches := reader.PollFetches(within(t))
		must(t, fetches.Err())
		seen += fetches.NumRecords()
	}
	same(t, "records after the time", int64(seen), 3)
}

func TestFranzFetchSessionFollowsProduce(t *testing.T) {
	topic, _ := franzTopic(t, 50)
	reader := franz(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(500*time.Millisecond))
	for round := range 5 {
		franzProduce(t, topic, 100)
		for seen := 0; seen < 100; {
			fetches := reader.PollFetches(within(t))
			if err := fetches.Err(); err != nil {
				t.Fatalf("round %d after %d records: %v", round, seen, err)
			}
			seen += fetches.NumRecords()
		}
	}
}

func TestFranzAdministration(t *testing.T) {
	topic, admin := franzTopic(t, 2)
	brokers, err := admin.ListBrokers(within(t))
	must(t, err)
	same(t, "brokers", int64(len(brokers)), 1)
	node := brokers[0].NodeID

	grown, err := admin.UpdatePartitions(within(t), 5, topic)
	must(t, err)
	must(t, grown.Error())
	value := "123456789"
	altered, err := admin.AlterTopicConfigs(within(t), []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}, {Op: kadm.AppendConfig, Name: "cleanup.policy", Value: kadm.StringPtr("compact")},
	}, topic)
	must(t, err)
	for _, answer := range altered {
		must(t, answer.Err)
	}
	refused, err := admin.AlterTopicConfigs(within(t), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "no.such.setting", Value: &value}}, topic)
	must(t, err)
	if refused[0].Err == nil {
		t.Fatal("an unknown setting was taken")
	}
	configs, err := admin.DescribeTopicConfigs(within(t), topic)
	must(t, err)
	described := map[string]string{}
	for _, config := range configs[0].Configs {
		described[config.Key] = config.MaybeValue()
	}
	if described["retention.ms"] != value || described["cleanup.policy"] != "delete,compact" {
		t.Fatalf("settings are %v", described)
	}
	settings, err := admin.DescribeBrokerConfigs(within(t), node)
	must(t, err)
	if settings[0].Err != nil || !slices.ContainsFunc(settings[0].Configs, func(config kadm.Config) bool { return config.Key == "log.dirs" }) {
		t.Fatalf("broker settings are %v", settings)
	}

	franzProduce(t, topic, 20)
	folders, err := admin.DescribeAllLogDirs(within(t), kadm.TopicsSet{topic: {0: {}, 1: {}, 2: {}, 3: {}, 4: {}}})
	must(t, err)
	same(t, "log folders", int64(len(folders[node])), 1)
	folders[node].EachPartition(func(partition kadm.DescribedLogDirPartition) {
		if partition.Topic != topic || partition.IsFuture {
			t.Fatalf("log is %v", partition)
		}
	})
	elected, err := admin.ElectLeaders(within(t), kadm.ElectPreferredReplica, kadm.TopicsSet{topic: {0: {}}})
	must(t, err)
	if answer := elected[topic][0]; answer.Err == nil || !strings.Contains(answer.Err.Error(), "ELECTION_NOT_NEEDED") {
		t.Fatalf("election answered %v", answer)
	}
	versions, err := admin.ApiVersions(within(t))
	must(t, err)
	versions.Each(func(answer kadm.BrokerApiVersions) { must(t, answer.Err) })
	answer := versions[node]
	t.Log(answer.VersionGuess())

	details, err := admin.ListTopics(within(t), topic)
	must(t, err)
	if detail := details[topic]; detail.Err != nil || len(detail.Partitions) != 5 || detail.ID == (kadm.TopicID{}) {
		t.Fatalf("topic is %v", detail)
	}
	groups, err := admin.ListGroups(within(t), "Stable", "Empty")
	must(t, err)
	for _, group := range groups {
		if group.State != "Stable" && group.State != "Empty" {
			t.Fatalf("group is %v", group)
		}
	}
	_, err = admin.CreateTopic(within(t), 1, 1, nil, topic)
	if err == nil || !strings.Contains(err.Error(), "TOPIC_ALREADY_EXISTS") {
		t.Fatalf("a topic was created twice: %v", err)
	}
	_, err = admin.DeleteTopic(within(t), topic)
	must(t, err)
	eventually(t, "the topic is gone", func() bool {
		left, err := admin.ListTopics(within(t))
		must(t, err)
		return !left.Has(topic)
	})
}

func TestFranzAutoCreation(t *testing.T) {
	topic := fresh("auto")
	client := franz(t, kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic(topic))
	must(t, client.ProduceSync(within(t), kgo.StringRecord("first")).FirstErr())
}

// With balancing by brokers switched on: the brokers do not serve it, and franz-go balances as before.
func TestFranzServerSideBalancer(t *testing.T) {
	topic, _ := franzTopic(t, 1)
	franzProduce(t, topic, 3)
	reader := franz(t, kgo.ConsumerGroup(fresh("g")), kgo.ConsumeTopics(topic), kgo.ServerSideBalancer(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for seen := 0; seen < 3; {
		fetches := reader.PollFetches(within(t))
		must(t, fetches.Err())
		seen += fetches.NumRecords()
	}
}
