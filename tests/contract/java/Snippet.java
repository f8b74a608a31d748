import java.io.File;
import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.generic.GenericRecordBuilder;
import org.apache.avro.message.BinaryMessageEncoder;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteBufferSerializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What the README shows of Java, between the two lines of dashes. Arguments: bootstrap, topic, folder of the schemas. */
public final class Snippet {
    public static void main(String[] args) throws Exception {
        String bootstrap = args[0], topic = args[1], schemas = args[2];
        // ----
        Schema schema = new Schema.Parser().parse(new File(schemas, "FactAsserted.avsc"));
        SecureRandom chance = new SecureRandom();
        long now = System.currentTimeMillis();
        byte[] id = ByteBuffer.allocate(16).putLong(now << 16 | 0x7000 | chance.nextInt(0x1000))
            .putLong(0x8L << 60 | chance.nextLong() >>> 2).array(); // a UUIDv7; keep it for a retry
        GenericRecord fact = new GenericRecordBuilder(schema) // fills in the defaults
            .set("event_id", new GenericData.Fixed(schema.getField("event_id").schema(), id))
            .set("space", "acme/support").set("actor", "agent:planner").set("recorded_at", now * 1000)
            .set("entity", "user:alice").set("slot", "seats").set("value", 7L).build(); // 7L: a plain 7 is an int
        ByteBuffer bytes = new BinaryMessageEncoder<GenericRecord>(GenericData.get(), schema).encode(fact);
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "acks", "all");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new ByteBufferSerializer())) {
            producer.send(new ProducerRecord<>(topic, "acme/support", bytes)).get(); // the key is the space
        }
        // ----
    }
}
