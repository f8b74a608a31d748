import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.HashMap;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.message.BinaryMessageEncoder;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Records of the released schemas as Kafka messages: single-object encoding, the space as key, CloudEvents headers. */
final class Wire {
    private final File folder;
    private final String topic;
    private final Map<String, Schema> schemas = new HashMap<>();

    Wire(String folder, String topic) {
        this.folder = new File(folder);
        this.topic = topic;
    }

    /** A producer as Java makes one: idempotent, acks=all, its own default partitioner. */
    static KafkaProducer<String, byte[]> producer(String bootstrap, Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("bootstrap.servers", bootstrap);
        return new KafkaProducer<>(all, new StringSerializer(), new ByteArraySerializer());
    }

    Schema schema(String type) throws IOException {
        Schema known = schemas.get(type);
        if (known == null) {
            known = new Schema.Parser().parse(new File(folder, type + ".avsc"));
            schemas.put(type, known);
        }
        return known;
    }

    static byte[] encoded(GenericRecord event) throws IOException {
        ByteBuffer buffer = new BinaryMessageEncoder<GenericRecord>(GenericData.get(), event.getSchema()).encode(event);
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    ProducerRecord<String, byte[]> message(GenericRecord event) throws IOException {
        ProducerRecord<String, byte[]> record =
            new ProducerRecord<>(topic, event.get("space").toString(), encoded(event));
        header(record, "ce_specversion", "1.0");
        header(record, "ce_id", idText(((GenericData.Fixed) event.get("event_id")).bytes()));
        header(record, "ce_source", event.get("actor").toString());
        header(record, "ce_type", event.getSchema().getFullName());
        header(record, "ce_time", Instant.EPOCH.plus((Long) event.get("recorded_at"), ChronoUnit.MICROS).toString());
        header(record, "content-type", "application/avro");
        return record;
    }

    private static void header(ProducerRecord<String, byte[]> record, String name, String content) {
        record.headers().add(name, content.getBytes(StandardCharsets.UTF_8));
    }

    private static String idText(byte[] id) {
        ByteBuffer buffer = ByteBuffer.wrap(id);
        return new java.util.UUID(buffer.getLong(), buffer.getLong()).toString();
    }
}
