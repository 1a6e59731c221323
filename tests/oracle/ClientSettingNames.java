import java.util.TreeSet;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;

/** Prints the names of the settings that Apache Kafka's clients have, one a line. */
public class ClientSettingNames {
    public static void main(String[] arguments) {
        TreeSet<String> names = new TreeSet<>(AdminClientConfig.configNames());
        names.addAll(ProducerConfig.configNames());
        names.addAll(ConsumerConfig.configNames());
        names.forEach(System.out::println);
    }
}
