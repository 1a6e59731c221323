/*
 * Kafka Streams with exactly_once_v2, until standard input ends: bootstrap servers, application id, state folder, topology.
 *
 * "count": words of <id>-words are counted, each new count goes to <id>-counts. "join": records of <id>-orders are joined with the
 * table <id>-customers by their key, into <id>-joined.
 */

import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;

public final class ExactlyOnceStreams {
    public static void main(String[] arguments) throws Exception {
        String id = arguments[1];
        Properties properties = new Properties();
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, id);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0); // every update goes on
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, -1);
        properties.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 10_000);
        properties.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 500);
        StreamsBuilder builder = new StreamsBuilder();
        if (arguments[3].equals("count")) {
            KStream<String, String> lines = builder.stream(id + "-words");
            lines
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word)
                .count()
                .toStream()
                .mapValues(String::valueOf)
                .to(id + "-counts");
        } else {
            KTable<String, String> customers = builder.table(id + "-customers");
            KStream<String, String> orders = builder.stream(id + "-orders");
            orders.join(customers, (order, customer) -> order + " of " + customer).to(id + "-joined");
        }
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        // A thread that an error ends is replaced, as in production.
        streams.setUncaughtExceptionHandler(
            error -> {
                error.printStackTrace();
                return StreamThreadExceptionResponse.REPLACE_THREAD;
            });
        streams.start();
        while (System.in.read() >= 0) {}
        System.exit(streams.close(Duration.ofSeconds(30)) ? 0 : 1);
    }
}
