/*
 * Share consumers of Apache Kafka's Java clients, 4.2 and newer, driven from outside by the commands of CommandLoop.
 *
 * A record is [topic, partition, offset, value, delivery count]; an outcome of an acknowledgement is [topic, partition, name of the
 * exception's class or null].
 */

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

public final class ShareClients {
    /** A consumer, what it polled last by topic, partition and offset, and the outcomes that its callback was given. */
    private static final class Client {
        final KafkaShareConsumer<String, String> consumer;
        final Map<List<Object>, ConsumerRecord<String, String>> polled = new HashMap<>();
        List<Object> outcomes = new ArrayList<>();

        Client(KafkaShareConsumer<String, String> consumer) {
            this.consumer = consumer;
            consumer.setAcknowledgementCommitCallback((offsets, exception) ->
                offsets.keySet().forEach(partition -> outcomes.add(outcome(partition, exception))));
        }
    }

    private static final Map<String, Client> clients = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        CommandLoop.run(ShareClients::execute);
    }

    private static Object execute(JsonNode command) {
        String name = command.get("client").asText();
        if (command.get("do").asText().equals("share consumer")) {
            clients.put(
                name,
                new Client(
                    new KafkaShareConsumer<>(
                        CommandLoop.config(command), new StringDeserializer(), new StringDeserializer())));
            return null;
        }
        Client client = clients.get(name);
        switch (command.get("do").asText()) {
            case "subscribe":
                List<String> topics = new ArrayList<>();
                command.get("topics").forEach(topic -> topics.add(topic.asText()));
                client.consumer.subscribe(topics);
                return null;
            case "poll":
                return poll(client, command.get("timeout_ms").asLong());
            case "acknowledge":
                for (JsonNode one : command.get("records")) {
                    client.consumer.acknowledge(
                        client.polled.get(List.of(one.get(0).asText(), one.get(1).asInt(), one.get(2).asLong())),
                        AcknowledgeType.valueOf(one.get(3).asText()));
                }
                return null;
            case "commit":
                List<Object> outcomes = new ArrayList<>();
                client
                    .consumer
                    .commitSync(Duration.ofMillis(command.get("timeout_ms").asLong()))
                    .forEach((partition, error) -> outcomes.add(outcome(partition, error.orElse(null))));
                return outcomes;
            case "commit async":
                client.consumer.commitAsync();
                return null;
            case "outcomes": // those of the callback since the last time
                List<Object> told = client.outcomes;
                client.outcomes = new ArrayList<>();
                return told;
            case "lock timeout":
                return client.consumer.acquisitionLockTimeoutMs().orElse(null);
            case "close":
                // It would wait for 30 s to end a session with a broker that was killed and leads nothing since.
                clients.remove(name).consumer.close(Duration.ofSeconds(5));
                return null;
            default:
                throw new IllegalArgumentException(command.toString());
        }
    }

    private static List<Object> poll(Client client, long timeoutMs) {
        List<Object> rows = new ArrayList<>();
        for (ConsumerRecord<String, String> record : client.consumer.poll(Duration.ofMillis(timeoutMs))) {
            client.polled.put(List.of(record.topic(), record.partition(), record.offset()), record);
            List<Object> row = new ArrayList<>(List.of(record.topic(), record.partition(), record.offset()));
            row.add(record.value());
            row.add(record.deliveryCount().orElse(null));
            rows.add(row);
        }
        return rows;
    }

    private static List<Object> outcome(TopicIdPartition partition, Exception error) {
        List<Object> row = new ArrayList<>(List.of(partition.topic(), partition.partition()));
        row.add(error == null ? null : error.getClass().getSimpleName());
        return row;
    }
}
