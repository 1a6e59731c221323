import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.protocol.Errors;

/** Prints the error codes after which Apache Kafka's clients ask for metadata, one a line. */
public class InvalidMetadataCodes {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values()) {
            if (error.exception() instanceof InvalidMetadataException) {
                System.out.println(error.code());
            }
        }
    }
}
