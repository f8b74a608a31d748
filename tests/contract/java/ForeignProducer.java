import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.generic.GenericRecordBuilder;
import org.apache.avro.io.DecoderFactory;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * A producer of events that shares no code with slotlog: Apache Avro, kafka-clients and the released schemas.
 *
 * Arguments: bootstrap, topic, folder of the schemas, and what to do:
 * events       the events of one session, made here
 * relay        an event for each line of standard input, `TYPE space JSON`, the JSON being Avro's own
 * int          try a Java int, which no value is; prints the exception and sends nothing
 * newer        one event of a schema that has a field more than the released one
 * compressed   an event with each codec of Kafka
 * transaction  one transaction that is aborted, then one that is committed, an event in each
 * Prints `partition:offset` for each event that was sent.
 */
public final class ForeignProducer {
    private static final long T0 = 1_700_000_000_000_001L;
    private static final String SPACE = "acme/größe-😀";

    private final String bootstrap;
    private final Wire wire;
    private int number;

    private ForeignProducer(String bootstrap, Wire wire) {
        this.bootstrap = bootstrap;
        this.wire = wire;
    }

    public static void main(String[] args) throws Exception {
        ForeignProducer foreign = new ForeignProducer(args[0], new Wire(args[2], args[1]));
        switch (args[3]) {
            case "events" -> foreign.send(foreign.session(), Map.of());
            case "relay" -> foreign.send(foreign.relayed(), Map.of("max.request.size", 2_000_000));
            case "int" -> foreign.tryInt();
            case "newer" -> foreign.send(List.of(foreign.newer()), Map.of());
            case "compressed" -> {
                for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
                    GenericRecord event = foreign.fact("user:java", codec, "x".repeat(2_000)).build();
                    foreign.send(List.of(event), Map.of("compression.type", codec));
                }
            }
            case "transaction" -> foreign.transactions();
            default -> throw new IllegalArgumentException(args[3]);
        }
    }

    private void send(List<GenericRecord> events, Map<String, Object> settings) throws Exception {
        try (KafkaProducer<String, byte[]> producer = Wire.producer(bootstrap, settings)) {
            for (GenericRecord event : events) {
                say(producer.send(wire.message(event)).get());
            }
        }
    }

    private static void say(RecordMetadata sent) {
        System.out.println(sent.partition() + ":" + sent.offset());
    }

    private GenericRecordBuilder event(String type) throws Exception {
        Schema schema = wire.schema(type);
        number++;
        return new GenericRecordBuilder(schema)
            .set("event_id", id(schema, number))
            .set("space", SPACE)
            .set("session", "run-7")
            .set("actor", "agent:java")
            .set("recorded_at", T0 + number);
    }

    private GenericRecordBuilder fact(String entity, String slot, Object value) throws Exception {
        return event("FactAsserted").set("entity", entity).set("slot", slot).set("value", value);
    }

    private static GenericData.Fixed id(Schema schema, int number) {
        byte[] bytes = ByteBuffer.allocate(16).putLong(0x018f2f6e8c007000L).putLong(0x8000L << 48 | number).array();
        return new GenericData.Fixed(schema.getField("event_id").schema(), bytes);
    }

    private static Object symbol(Schema enumeration, String name) {
        return new GenericData.EnumSymbol(enumeration, name);
    }

    private static Schema record(Schema nullable) {
        return nullable.getTypes().get(1);
    }

    private List<GenericRecord> session() throws Exception {
        Schema declared = wire.schema("SlotDeclared"), asserted = wire.schema("FactAsserted");
        List<GenericRecord> events = new ArrayList<>();
        events.add(event("SlotDeclared").set("slot", "tag").set("entity_kind", "user") // 1
            .set("cardinality", symbol(declared.getField("cardinality").schema(), "many"))
            .set("value_type", symbol(record(declared.getField("value_type").schema()), "string")).build());
        events.add(event("SessionStarted").set("agent", "planner")
            .set("attributes", Map.of("größe", "𝄞")).build());
        events.add(event("Observed").set("role", "user").set("text", "Ich heiße 𝔘𝔫𝔦 😀\u0000\tأهلا").build());
        events.add(fact("user:alice", "employer", "Acme 😀𝔘").set("valid_from", T0).set("valid_to", T0 + 5)
            .set("confidence", 0.1).set("origin", symbol(asserted.getField("origin").schema(), "extracted"))
            .set("engine", "rules@1").set("source", "https://example.org/?id=7").set("cause", id(asserted, 3))
            .set("code", new GenericRecordBuilder(record(asserted.getField("code").schema()))
                .set("repo", "acme/app").set("sha", "0f".repeat(20)).build()).build()); // 4
        events.add(fact("user:alice", "age", 41L).build());
        events.add(fact("user:alice", "least", Long.MIN_VALUE).build());
        events.add(fact("user:alice", "greatest", Long.MAX_VALUE).build());
        events.add(fact("user:alice", "share", 0.1).build());
        events.add(fact("user:alice", "tiny", Double.MIN_VALUE).build());
        events.add(fact("user:alice", "minus", -0.0).build()); // 10
        events.add(fact("user:alice", "active", true).build());
        events.add(fact("user:alice", "note", "").build());
        events.add(fact("user:alice", "tag", "ä").build());
        events.add(fact("user:alice", "tag", "a\u0308").build());
        events.add(fact("user:alice", "wrong", "a secret").build()); // 15
        Schema retracted = wire.schema("FactRetracted");
        events.add(event("FactRetracted").set("target", id(retracted, 15)).set("reason", "misheard").build());
        events.add(event("FactEnded").set("entity", "user:alice").set("slot", "tag").set("value", "ä").build());
        events.add(event("FactEnded").set("entity", "user:alice").set("slot", "age").build());
        Schema reviewed = wire.schema("FactReviewed");
        events.add(event("FactReviewed").set("target", id(reviewed, 8))
            .set("verdict", symbol(reviewed.getField("verdict").schema(), "verified")).build());
        events.add(event("SessionEnded").build()); // 20
        return events;
    }

    private List<GenericRecord> relayed() throws Exception {
        List<GenericRecord> events = new ArrayList<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            int space = line.indexOf(' ');
            Schema schema = wire.schema(line.substring(0, space));
            GenericDatumReader<GenericRecord> reader = new GenericDatumReader<>(schema);
            events.add(reader.read(null, DecoderFactory.get().jsonDecoder(schema, line.substring(space + 1))));
        }
        return events;
    }

    private void tryInt() throws Exception {
        for (Object value : List.of(41, 0.5f)) {
            try {
                send(List.of(fact("user:alice", "age", value).build()), Map.of());
            } catch (AvroRuntimeException refused) {
                System.out.println("refused " + refused.getMessage());
            }
        }
    }

    private GenericRecord newer() throws Exception {
        Schema released = wire.schema("FactAsserted");
        List<Schema.Field> fields = new ArrayList<>();
        for (Schema.Field field : released.getFields()) {
            fields.add(new Schema.Field(field, field.schema()));
        }
        fields.add(new Schema.Field("mood", Schema.create(Schema.Type.STRING), null, "fine"));
        Schema newer = Schema.createRecord(released.getName(), null, released.getNamespace(), false, fields);
        GenericRecordBuilder event = new GenericRecordBuilder(newer);
        GenericRecord known = fact("user:alice", "employer", "Acme").build();
        for (Schema.Field field : released.getFields()) {
            event.set(field.name(), known.get(field.name()));
        }
        return event.build();
    }

    private void transactions() throws Exception {
        Map<String, Object> settings = Map.of("transactional.id", "foreign-" + System.nanoTime());
        try (KafkaProducer<String, byte[]> producer = Wire.producer(bootstrap, settings)) {
            producer.initTransactions();
            for (boolean commit : new boolean[] {false, true}) {
                ProducerRecord<String, byte[]> record = wire.message(fact("user:alice", "committed", commit).build());
                producer.beginTransaction();
                RecordMetadata sent = producer.send(record).get();
                if (commit) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
                say(sent);
            }
        }
    }
}
