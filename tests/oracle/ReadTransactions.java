import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import kafka.coordinator.transaction.TransactionLog;

/** Answers what Apache Kafka 3.9.1 reads from values of `__transaction_state`: a line in hex in, a line of its words out. */
public class ReadTransactions {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(TransactionLog.readTxnRecordValue("t", ByteBuffer.wrap(HexFormat.of().parseHex(line))).get());
        }
    }
}
