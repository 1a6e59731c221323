import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.PriorityQueue;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import kafka.server.share.SharePartition;
import org.apache.kafka.clients.consumer.internals.ShareAcquireMode;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.ShareFetchResponseData.AcquiredRecords;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.share.persister.PartitionFactory;
import org.apache.kafka.server.share.persister.PartitionStateBatchData;
import org.apache.kafka.server.share.persister.Persister;
import org.apache.kafka.server.share.persister.PersisterStateBatch;
import org.apache.kafka.server.share.persister.ReadShareGroupStateResult;
import org.apache.kafka.server.share.persister.TopicData;
import org.apache.kafka.server.share.persister.WriteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.WriteShareGroupStateResult;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.storage.log.FetchPartitionData;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;

/**
 * Plays scripts on Apache Kafka's share partition: a line of JSON in,
 * `{deliveries, locks, lock_ms, start, stored: [[first, last, state, count]], log: [[first, last]], steps: [[what, ...]]}`, a line
 * of JSON out, a list with an answer for each step:
 *
 *   acquire      member, limited, batch size, max records, number of batches to read from the next fetch offset: the rows
 *   acknowledge  member, [[first, last, [types]]]: the error, if any
 *   release      member
 *   stored       whether the oldest write succeeds
 *   time         the clock: locks end, and what is written of it is stored at once
 *   log_start    offset
 *
 * Each answer also has what was written, and the offsets afterwards.
 */
public class SharePartitions {
    static final TopicIdPartition PARTITION = new TopicIdPartition(new Uuid(1, 2), new TopicPartition("t", 0));

    public static class NoConfigs extends GroupConfigManager {
        public NoConfigs() {
            super(null, null, null);
        }

        @Override
        public Optional<GroupConfig> groupConfig(String groupId) {
            return Optional.empty();
        }
    }

    record Write(List<Object> row, CompletableFuture<WriteShareGroupStateResult> outcome) {
    }

    record Due(long at, long order, TimerTask task, TimerTaskEntry entry) {
    }

    final JsonNode script;
    final Deque<Write> pending = new ArrayDeque<>();
    final PriorityQueue<Due> timers = new PriorityQueue<>(
        (a, b) -> a.at != b.at ? Long.compare(a.at, b.at) : Long.compare(a.order, b.order));
    final List<Object> written = new ArrayList<>();
    long nowMs = 0;
    long order = 0;
    SharePartition share;

    SharePartitions(JsonNode script) throws Exception {
        this.script = script;
        Time time = (Time) Proxy.newProxyInstance(Time.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, arguments) -> method.getName().equals("nanoseconds") ? (Object) (nowMs * 1_000_000) : (Object) nowMs);
        Timer timer = new Timer() {
            public void add(TimerTask task) {
                timers.add(new Due(nowMs + task.delayMs, order++, task, new TimerTaskEntry(task, nowMs + task.delayMs)));
            }

            public boolean advanceClock(long timeoutMs) {
                return false;
            }

            public int size() {
                return timers.size();
            }

            public void close() {
            }
        };
        Persister persister = (Persister) Proxy.newProxyInstance(Persister.class.getClassLoader(), new Class<?>[] {Persister.class},
            (proxy, method, arguments) -> method.getName().equals("readState") ? read() : write((WriteShareGroupStateParameters) arguments[0]));
        for (Constructor<?> constructor : SharePartition.class.getDeclaredConstructors()) {
            if (constructor.getParameterCount() == 12) {
                constructor.setAccessible(true);
                share = (SharePartition) constructor.newInstance("g", PARTITION, 0, script.get("locks").asInt(),
                    script.get("deliveries").asInt(), script.get("lock_ms").asInt(), timer, time, persister, null, noConfigs(), null);
            }
        }
        share.maybeInitialize().get();
    }

    static GroupConfigManager noConfigs() throws Exception {
        Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return (GroupConfigManager) ((sun.misc.Unsafe) field.get(null)).allocateInstance(NoConfigs.class);
    }

    CompletableFuture<ReadShareGroupStateResult> read() {
        List<PersisterStateBatch> batches = new ArrayList<>();
        for (JsonNode row : script.get("stored")) {
            batches.add(new PersisterStateBatch(row.get(0).asLong(), row.get(1).asLong(), (byte) row.get(2).asInt(), (short) row.get(3).asInt()));
        }
        return CompletableFuture.completedFuture(new ReadShareGroupStateResult.Builder().setTopicsData(List.of(
            new TopicData<>(PARTITION.topicId(), List.of(PartitionFactory.newPartitionAllData(0, 0, script.get("start").asLong(), (short) 0, "", batches))))).build());
    }

    CompletableFuture<WriteShareGroupStateResult> write(WriteShareGroupStateParameters parameters) {
        PartitionStateBatchData data = parameters.groupTopicPartitionData().topicsData().get(0).partitions().get(0);
        List<Object> batches = new ArrayList<>();
        for (PersisterStateBatch batch : data.stateBatches()) {
            batches.add(List.of(batch.firstOffset(), batch.lastOffset(), batch.deliveryState(), batch.deliveryCount()));
        }
        Write write = new Write(List.of(data.startOffset(), data.deliveryCompleteCount(), batches), new CompletableFuture<>());
        written.add(write.row());
        pending.add(write);
        return write.outcome();
    }

    void complete(Write write, boolean succeeds) {
        Errors error = succeeds ? Errors.NONE : Errors.NOT_COORDINATOR;
        try {
            write.outcome().complete(new WriteShareGroupStateResult.Builder().setTopicsData(List.of(new TopicData<>(PARTITION.topicId(),
                List.of(PartitionFactory.newPartitionErrorData(0, error.code(), error.message()))))).build());
        } catch (NullPointerException wakesFetchesOfNoReplicaManager) {
            return;
        }
    }

    Object call(String name) throws Exception {
        Method method = SharePartition.class.getDeclaredMethod(name);
        method.setAccessible(true);
        return method.invoke(share);
    }

    Map<String, Object> play(JsonNode step) throws Exception {
        Map<String, Object> answer = new LinkedHashMap<>();
        written.clear();
        switch (step.get(0).asText()) {
            case "acquire" -> answer.put("rows", acquire(step));
            case "acknowledge" -> {
                List<ShareAcknowledgementBatch> batches = new ArrayList<>();
                for (JsonNode row : step.get(2)) {
                    List<Byte> types = new ArrayList<>();
                    row.get(2).forEach(each -> types.add((byte) each.asInt()));
                    batches.add(new ShareAcknowledgementBatch(row.get(0).asLong(), row.get(1).asLong(), types));
                }
                CompletableFuture<Void> outcome = share.acknowledge(step.get(1).asText(), batches);
                answer.put("error", outcome.isCompletedExceptionally() ? outcome.handle((value, error) -> error.getMessage()).get() : null);
            }
            case "release" -> share.releaseAcquiredRecords(step.get(1).asText());
            case "stored" -> {
                if (!pending.isEmpty()) {
                    complete(pending.poll(), step.get(1).asBoolean());
                }
            }
            case "time" -> {
                int before = pending.size();
                while (!timers.isEmpty() && timers.peek().at() <= step.get(1).asLong()) {
                    Due due = timers.poll();
                    nowMs = due.at();
                    if (!due.entry().cancelled()) {
                        try {
                            due.task().run();
                        } catch (NullPointerException wakesFetchesOfNoReplicaManager) {
                            continue;
                        }
                    }
                }
                nowMs = step.get(1).asLong();
                while (pending.size() > before) {
                    complete(pending.pollLast(), true);
                }
            }
            case "log_start" -> {
                Method method = SharePartition.class.getDeclaredMethod("updateCacheAndOffsets", long.class);
                method.setAccessible(true);
                method.invoke(share, step.get(1).asLong());
            }
            default -> throw new IllegalArgumentException(step.toString());
        }
        answer.put("written", new ArrayList<>(written));
        answer.put("offsets", List.of(call("startOffset"), call("endOffset"), share.nextFetchOffset()));
        answer.put("can_acquire", call("canAcquireRecords"));
        answer.put("delivery_complete_count", call("deliveryCompleteCount"));
        return answer;
    }

    List<Object> acquire(JsonNode step) {
        long fetchOffset = share.nextFetchOffset();
        ByteBuffer buffer = ByteBuffer.allocate(1 << 16);
        int left = step.get(5).asInt();
        for (JsonNode batch : script.get("log")) {
            long first = batch.get(0).asLong();
            long last = batch.get(1).asLong();
            if (last >= fetchOffset && left-- > 0) {
                MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, Compression.NONE, TimestampType.CREATE_TIME, first);
                builder.appendWithOffset(first, new SimpleRecord(0L, new byte[0]));
                if (last > first) {
                    builder.appendWithOffset(last, new SimpleRecord(0L, new byte[0]));
                }
                builder.close();
            }
        }
        buffer.flip();
        List<Object> rows = new ArrayList<>();
        FetchPartitionData data = new FetchPartitionData(Errors.NONE, 0, 0, MemoryRecords.readableRecords(buffer), Optional.empty(),
            OptionalLong.empty(), Optional.empty(), OptionalInt.empty(), false);
        ShareAcquireMode mode = step.get(2).asBoolean() ? ShareAcquireMode.RECORD_LIMIT : ShareAcquireMode.BATCH_OPTIMIZED;
        for (AcquiredRecords row : share.acquire(step.get(1).asText(), mode, step.get(3).asInt(), step.get(4).asInt(), fetchOffset, data,
                FetchIsolation.HIGH_WATERMARK).acquiredRecords()) {
            rows.add(List.of(row.firstOffset(), row.lastOffset(), row.deliveryCount()));
        }
        return rows;
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        PrintStream out = System.out;
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            SharePartitions player = new SharePartitions(mapper.readTree(line));
            List<Object> answers = new ArrayList<>();
            for (JsonNode step : player.script.get("steps")) {
                try {
                    answers.add(player.play(step));
                } catch (Exception error) {
                    Throwable cause = error.getCause() == null ? error : error.getCause();
                    answers.add(Map.of("failure", cause.toString()));
                    break;
                }
            }
            out.println(mapper.writeValueAsString(answers));
            out.flush();
        }
    }
}
