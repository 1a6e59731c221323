package org.springframework.kafka.retrytopic; // for the type of a destination, which is visible only here

import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.ListenerExecutionFailedException;

/** Has Spring Kafka write a dead letter, a first retry and a later one into the topic that is named. */
public class SpringLetters {
    public static void main(String[] arguments) {
        String topic = arguments[1];
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0]);
        var factory = new DefaultKafkaProducerFactory<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        var template = new KafkaTemplate<>(factory);
        Exception error = new ListenerExecutionFailedException("Listener failed", "billing", new IllegalStateException("boom"));

        new DeadLetterPublishingRecoverer(template, (record, e) -> new TopicPartition(topic, 0)).accept(record(0), error);

        var next = new DestinationTopic(topic, new DestinationTopic.Properties(
            1000, "-retry", DestinationTopic.Type.RETRY, 4, 1, DltStrategy.FAIL_ON_ERROR, template, (attempt, e) -> true, -1));
        var resolver = (DestinationTopicResolver) Proxy.newProxyInstance(
            SpringLetters.class.getClassLoader(), new Class<?>[] {DestinationTopicResolver.class}, (self, method, given) -> next);
        var retries = new DeadLetterPublishingRecovererFactory(resolver).create("listener");
        retries.accept(record(0), error);
        retries.accept(record(3), error);
        template.flush();
        factory.destroy();
    }

    /** A record that is read for the attempt of this number, or for the first time. */
    private static ConsumerRecord<byte[], byte[]> record(int attempt) {
        var headers = new RecordHeaders();
        headers.add("trace", "1".getBytes());
        if (attempt > 0) {
            headers.add(RetryTopicHeaders.DEFAULT_HEADER_ATTEMPTS, ByteBuffer.allocate(4).putInt(attempt).array());
        }
        return new ConsumerRecord<>("payments", 0, (1L << 32) + 7, 1_700_000_000_000L, TimestampType.CREATE_TIME, 3, 5,
            "key".getBytes(), "value".getBytes(), headers, Optional.empty());
    }
}
