/*
 * A load of share consumers, each in a thread of its own: bootstrap servers, group, topic, how many consumers, how many records.
 *
 * They acknowledge implicitly. "started N" is printed when each has got records, N of which were acknowledged until then; "ended N
 * M" when so many were acknowledged, and M records were delivered.
 */

import java.time.Duration;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public final class ShareLoad {
    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[3]);
        long records = Long.parseLong(arguments[4]);
        AtomicLong delivered = new AtomicLong();
        AtomicLong acknowledged = new AtomicLong();
        CountDownLatch waiting = new CountDownLatch(count);
        CountDownLatch ended = new CountDownLatch(1);
        for (int number = 0; number < count; number++) {
            Thread thread = new Thread(() -> {
                Properties config = new Properties();
                config.put("bootstrap.servers", arguments[0]);
                config.put("group.id", arguments[1]);
                KafkaShareConsumer<byte[], byte[]> consumer =
                    new KafkaShareConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
                consumer.setAcknowledgementCommitCallback((offsets, error) -> {
                    if (error != null) {
                        error.printStackTrace();
                        return;
                    }
                    long sum = offsets.values().stream().mapToLong(Set::size).sum();
                    if (acknowledged.addAndGet(sum) >= records) {
                        ended.countDown();
                    }
                });
                consumer.subscribe(Set.of(arguments[2]));
                boolean isFirst = true;
                while (ended.getCount() > 0) {
                    int got = consumer.poll(Duration.ofMillis(200)).count();
                    delivered.addAndGet(got);
                    if (isFirst && got > 0) {
                        isFirst = false;
                        waiting.countDown();
                    }
                }
                consumer.close();
            });
            thread.start();
        }
        waiting.await();
        System.out.println("started " + acknowledged.get());
        ended.await();
        System.out.println("ended " + acknowledged.get() + " " + delivered.get());
        System.exit(0);
    }
}
