// Prints Apache Kafka's error codes: "code<TAB>name<TAB>retriable<TAB>text". Run by tests.protocol.record_kafka.
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

public class ErrorCodes {
    public static void main(String[] args) {
        for (Errors error : Errors.values()) {
            boolean retriable = error.exception() instanceof RetriableException;
            System.out.println(error.code() + "\t" + error.name() + "\t" + retriable + "\t" + error.message());
        }
    }
}
