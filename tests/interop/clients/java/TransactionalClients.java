/* Producers and consumers of Apache Kafka's Java clients, driven from outside by the commands of CommandLoop. */

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public final class TransactionalClients {
    private static final Map<String, KafkaProducer<String, String>> producers = new ConcurrentHashMap<>();
    private static final Map<String, KafkaConsumer<String, String>> consumers = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        CommandLoop.run(TransactionalClients::execute);
    }

    private static Object execute(JsonNode command) throws Exception {
        String client = command.get("client").asText();
        switch (command.get("do").asText()) {
            case "producer":
                producers.put(
                    client,
                    new KafkaProducer<>(CommandLoop.config(command), new StringSerializer(), new StringSerializer()));
                return null;
            case "init":
                producers.get(client).initTransactions();
                return null;
            case "begin":
                producers.get(client).beginTransaction();
                return null;
            case "send":
                return send(producers.get(client), command);
            case "send offsets":
                producers
                    .get(client)
                    .sendOffsetsToTransaction(
                        offsets(command), consumers.get(command.get("member").asText()).groupMetadata());
                return null;
            case "commit":
                producers.get(client).commitTransaction();
                return null;
            case "abort":
                producers.get(client).abortTransaction();
                return null;
            case "close producer":
                producers.remove(client).close(Duration.ZERO);
                return null;
            case "consumer":
                consumers.put(
                    client,
                    new KafkaConsumer<>(CommandLoop.config(command), new StringDeserializer(), new StringDeserializer()));
                return null;
            case "subscribe":
                subscribe(consumers.get(client), command);
                return null;
            case "assignment":
                return assignment(consumers.get(client));
            case "commit offsets":
                consumers.get(client).commitSync();
                return null;
            case "poll":
                return poll(consumers.get(client), command.get("timeout_ms").asLong());
            case "rewind":
                rewind(consumers.get(client));
                return null;
            case "read":
                return read(consumers.get(client), command.get("topic").asText());
            case "close consumer":
                KafkaConsumer<String, String> closed = consumers.remove(client);
                if (closed != null) {
                    closed.close();
                }
                return null;
            default:
                throw new IllegalArgumentException(command.toString());
        }
    }

    /** To a "topic" or, in clients of 4.0 and newer, to a "pattern". With "commits" what was polled is committed before it is given up. */
    private static void subscribe(KafkaConsumer<String, String> consumer, JsonNode command) throws Exception {
        if (command.has("pattern")) {
            Class<?> kind = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
            Object pattern = kind.getConstructor(String.class).newInstance(command.get("pattern").asText());
            KafkaConsumer.class.getMethod("subscribe", kind).invoke(consumer, pattern);
            return;
        }
        List<String> topics = List.of(command.get("topic").asText());
        if (!command.has("commits")) {
            consumer.subscribe(topics);
            return;
        }
        consumer.subscribe(topics, new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                consumer.commitSync();
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {}

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}
        });
    }

    private static List<Integer> assignment(KafkaConsumer<String, String> consumer) {
        List<Integer> partitions = new ArrayList<>();
        for (TopicPartition partition : consumer.assignment()) {
            partitions.add(partition.partition());
        }
        return partitions;
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode command) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (JsonNode one : command.get("offsets")) {
            TopicPartition partition = new TopicPartition(one.get(0).asText(), one.get(1).asInt());
            offsets.put(partition, new OffsetAndMetadata(one.get(2).asLong()));
        }
        return offsets;
    }

    /** Sends all values at once; the offsets, once every one is acknowledged. */
    private static List<Long> send(KafkaProducer<String, String> producer, JsonNode command) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode value : command.get("values")) {
            sent.add(
                producer.send(
                    new ProducerRecord<>(
                        command.get("topic").asText(), command.get("partition").asInt(), null, value.asText())));
        }
        producer.flush();
        List<Long> offsets = new ArrayList<>();
        for (Future<RecordMetadata> one : sent) {
            offsets.add(one.get().offset());
        }
        return offsets;
    }

    private static List<Object> poll(KafkaConsumer<String, String> consumer, long timeoutMs) {
        List<Object> rows = new ArrayList<>();
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(timeoutMs))) {
            rows.add(List.of(record.partition(), record.offset(), record.value()));
        }
        return rows;
    }

    /** Back to what is committed. */
    private static void rewind(KafkaConsumer<String, String> consumer) {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        for (TopicPartition partition : consumer.assignment()) {
            OffsetAndMetadata offset = committed.get(partition);
            if (offset == null) {
                consumer.seekToBeginning(List.of(partition));
            } else {
                consumer.seek(partition, offset.offset());
            }
        }
    }

    /** The values of every partition of a topic, each up to the end that its isolation level shows now. */
    private static List<List<String>> read(KafkaConsumer<String, String> consumer, String topic) {
        int count = consumer.partitionsFor(topic).size();
        List<List<String>> values = new ArrayList<>();
        List<TopicPartition> partitions = new ArrayList<>();
        for (int partition = 0; partition < count; partition++) {
            partitions.add(new TopicPartition(topic, partition));
            values.add(new ArrayList<>());
        }
        Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
        consumer.assign(partitions);
        consumer.seekToBeginning(partitions);
        while (partitions.stream().anyMatch(one -> consumer.position(one) < ends.get(one))) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                if (record.offset() < ends.get(new TopicPartition(topic, record.partition()))) {
                    values.get(record.partition()).add(record.value());
                }
            }
        }
        return values;
    }
}
