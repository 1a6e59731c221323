import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Asks the server-side assignors of Apache Kafka 4.3.0. A line of JSON in, `{assignor, topics: {id: partitions}, rounds}`, where a
 * round is a list of `[member, instance or null, rack, [ids]]`; a line of JSON out: for each round, by member, `{id: [partitions]}`.
 * Each round owns what the round before answered. Members keep the order in which they are given, topics and partitions that are
 * owned come in ascending order.
 */
public class AssignPartitions {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode asked = mapper.readTree(line);
            boolean isRange = asked.get("assignor").asText().equals("range");
            ConsumerGroupPartitionAssignor assignor = isRange ? new RangeAssignor() : new UniformAssignor();
            Map<String, Map<Uuid, Set<Integer>>> owned = new HashMap<>();
            List<Object> answers = new ArrayList<>();
            for (JsonNode round : asked.get("rounds")) {
                owned = assign(assignor, asked.get("topics"), round, owned);
                answers.add(names(round, owned));
            }
            System.out.println(mapper.writeValueAsString(answers));
        }
    }

    private static Map<String, Map<Uuid, Set<Integer>>> assign(
            ConsumerGroupPartitionAssignor assignor, JsonNode topics, JsonNode round, Map<String, Map<Uuid, Set<Integer>>> owned) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<Uuid>> subscriptions = new LinkedHashSet<>();
        for (JsonNode member : round) {
            String id = member.get(0).asText();
            Set<Uuid> subscribed = new LinkedHashSet<>();
            for (JsonNode topic : member.get(3)) subscribed.add(Uuid.fromString(topic.asText()));
            subscriptions.add(subscribed);
            Map<Uuid, Set<Integer>> share = owned.getOrDefault(id, Map.of());
            share.forEach((topic, partitions) ->
                partitions.forEach(each -> owners.computeIfAbsent(topic, any -> new HashMap<>()).put(each, id)));
            Optional<String> instance = member.get(1).isNull() ? Optional.empty() : Optional.of(member.get(1).asText());
            members.put(id, new MemberSubscriptionAndAssignmentImpl(
                Optional.of(member.get(2).asText()), instance, subscribed, new Assignment(share)));
        }
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return topics.get(topic.toString()).asInt();
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of("rack-" + partition % 3);
            }
        };
        SubscriptionType type = subscriptions.size() > 1 ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS;
        Map<String, Map<Uuid, Set<Integer>>> answer = new HashMap<>();
        assignor.assign(new GroupSpecImpl(members, type, owners), describer).members().forEach((id, member) -> {
            Map<Uuid, Set<Integer>> share = new TreeMap<>();
            member.partitions().forEach((topic, partitions) -> share.put(topic, new TreeSet<>(partitions)));
            answer.put(id, share);
        });
        return answer;
    }

    private static Map<String, Map<String, Set<Integer>>> names(JsonNode round, Map<String, Map<Uuid, Set<Integer>>> answer) {
        Map<String, Map<String, Set<Integer>>> names = new TreeMap<>();
        for (JsonNode member : round) {
            Map<String, Set<Integer>> share = new TreeMap<>();
            answer.getOrDefault(member.get(0).asText(), Map.of()).forEach((topic, parts) -> share.put(topic.toString(), parts));
            names.put(member.get(0).asText(), share);
        }
        return names;
    }
}
