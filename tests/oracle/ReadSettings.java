import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;

/**
 * Reads broker settings as Apache Kafka reads server.properties: a line of JSON in, `{name: text}`, a line of JSON out.
 *
 * Out: `listeners` and `advertised` as [name, host, port], and `values`, the texts of those names whose text the reading changed,
 * with secrets in clear; or `error`, the class of what stops the start.
 */
public class ReadSettings {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(mapper.writeValueAsString(answer(mapper.readValue(line, Map.class))));
        }
    }

    private static Map<String, Object> answer(Map<?, ?> given) {
        Map<String, Object> answer = new LinkedHashMap<>();
        Properties properties = new Properties();
        given.forEach((name, value) -> properties.setProperty((String) name, (String) value));
        try {
            kafka.server.KafkaConfig config = kafka.server.KafkaConfig.fromProps(properties, false);
            answer.put("listeners", endpoints(config.listeners()));
            answer.put("advertised", endpoints(config.effectiveAdvertisedBrokerListeners()));
            Map<String, Object> values = new LinkedHashMap<>();
            given.forEach((name, value) -> {
                String read = shown(config.originals().get(name));
                if (!value.equals(read)) values.put((String) name, read);
            });
            if (!values.isEmpty()) answer.put("values", values);
        } catch (Throwable error) {
            answer.clear();
            answer.put("error", error.getClass().getSimpleName());
        }
        return answer;
    }

    private static String shown(Object value) {
        return value == null ? null : value.toString();
    }

    private static Object[][] endpoints(scala.collection.Seq<kafka.cluster.EndPoint> found) {
        Object[][] answer = new Object[found.size()][];
        for (int index = 0; index < answer.length; index++) {
            kafka.cluster.EndPoint one = found.apply(index);
            answer[index] = new Object[] {one.listenerName().value(), one.host(), one.port()};
        }
        return answer;
    }
}
