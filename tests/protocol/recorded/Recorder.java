// Asks Apache Kafka's own message classes: reads "class version hex" lines, answers "hex<TAB>json" lines, where hex is
// what Kafka writes after reading the bytes, and json is what it read; an empty line for a class or version that there is not.
// The key of a record is read behind its version, which says only what kind of record it is in newer releases: all have version 0.
// Run by tests.protocol.record_kafka.
import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class Recorder {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ", -1);
            Class<?> type;
            try {
                type = Class.forName(parts[0]);
            } catch (ClassNotFoundException absent) {
                System.out.println();
                continue;
            }
            boolean keyOfKind = parts[0].matches(".*\\.(Consumer|Share)Group\\w+Key|.*\\.ShareUpdateKey");
            short version = keyOfKind ? 0 : Short.parseShort(parts[1]);
            if (version > type.getField("HIGHEST_SUPPORTED_VERSION").getShort(null)) {
                System.out.println();
                continue;
            }
            Message message = (Message) type.getDeclaredConstructor().newInstance();
            ByteBuffer input = ByteBuffer.wrap(HexFormat.of().parseHex(parts[2]));
            message.read(new ByteBufferAccessor(input), version);
            if (input.hasRemaining()) throw new IllegalStateException(line);
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer output = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(output), cache, version);
            Class<?> converter = Class.forName(parts[0] + "JsonConverter");
            JsonNode json = (JsonNode) converter.getMethod("write", type, short.class).invoke(null, message, version);
            System.out.println(HexFormat.of().formatHex(output.array()) + "\t" + json);
        }
    }
}
