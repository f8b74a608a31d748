import com.sun.management.OperatingSystemMXBean;
import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.avro.Schema;
import org.apache.avro.SchemaNormalization;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.VersionedKeyValueStore;

/**
 * The same log as versioned state in Kafka Streams: each event decoded, each fact and end put into a persistent versioned
 * store under space, entity and slot as of its valid time. Retractions and observations are decoded and counted only.
 *
 * Arguments: bootstrap, topic, application id, state folder, folder of the schemas, events, threads, and `changelog` or
 * `no-changelog`. Prints `{"ready": true}` when it runs, `{"done": N}` every 20 ms while it moves, and when
 * `events` have been processed one line with what it took between the first and the last; then it ends.
 */
public final class StreamsPeer {
    private static final String STORE = "facts";
    private static final Duration RETENTION = Duration.ofDays(3_650);
    private static final OperatingSystemMXBean SYSTEM =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private final long events;
    private final Map<Long, Schema> schemas;
    private final AtomicLong done = new AtomicLong();
    private final AtomicLong puts = new AtomicLong();
    private final CountDownLatch ended = new CountDownLatch(1);
    private final List<Latencies> latencies = Collections.synchronizedList(new ArrayList<>());
    private volatile long firstNanos, lastNanos, firstCpu, lastCpu;

    private StreamsPeer(long events, Map<Long, Schema> schemas) {
        this.events = events;
        this.schemas = schemas;
    }

    public static void main(String[] args) throws Exception {
        StreamsPeer peer = new StreamsPeer(Long.parseLong(args[5]), schemas(new File(args[4])));
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[2]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[3]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, Integer.parseInt(args[6]));
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.ISOLATION_LEVEL_CONFIG), "read_committed");
        KafkaStreams streams = new KafkaStreams(peer.topology(args[1], args[7].equals("changelog")), settings);
        streams.setUncaughtExceptionHandler(failure -> {
            failure.printStackTrace();
            Runtime.getRuntime().halt(1);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                say("{\"ready\": true}");
            }
        });
        streams.start();
        peer.watch();
        streams.close();
        say(peer.result());
    }

    private Topology topology(String topic, boolean changelog) {
        StoreBuilder<VersionedKeyValueStore<byte[], byte[]>> store = Stores.versionedKeyValueStoreBuilder(
            Stores.persistentVersionedKeyValueStore(STORE, RETENTION), Serdes.ByteArray(), Serdes.ByteArray());
        store = changelog ? store.withLoggingEnabled(Map.of()) : store.withLoggingDisabled();
        Topology topology = new Topology();
        topology.addSource("events", Serdes.ByteArray().deserializer(), Serdes.ByteArray().deserializer(), topic);
        topology.addProcessor("fold", Fold::new, "events");
        topology.addStateStore(store, "fold");
        return topology;
    }

    private static Map<Long, Schema> schemas(File folder) throws IOException {
        Map<Long, Schema> found = new HashMap<>();
        for (File file : folder.listFiles((ignored, name) -> name.endsWith(".avsc"))) {
            Schema schema = new Schema.Parser().parse(file);
            found.put(SchemaNormalization.parsingFingerprint64(schema), schema);
        }
        return found;
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private void watch() throws InterruptedException {
        long told = 0;
        while (!ended.await(20, java.util.concurrent.TimeUnit.MILLISECONDS)) {
            long now = done.get();
            if (now != told) {
                say("{\"done\": " + now + "}");
                told = now;
            }
        }
        say("{\"done\": " + done.get() + "}");
    }

    private void begin() {
        synchronized (ended) {
            if (firstNanos == 0) {
                firstCpu = SYSTEM.getProcessCpuTime();
                firstNanos = System.nanoTime();
            }
        }
    }

    private void end() {
        lastNanos = System.nanoTime();
        lastCpu = SYSTEM.getProcessCpuTime();
        ended.countDown();
    }

    private String result() {
        long[] all = Latencies.sorted(latencies);
        return String.format(java.util.Locale.ROOT,
            "{\"events\": %d, \"puts\": %d, \"seconds\": %.6f, \"cpu_s\": %.6f, \"p50_ms\": %d, \"p99_ms\": %d}",
            done.get(), puts.get(), (lastNanos - firstNanos) / 1e9, (lastCpu - firstCpu) / 1e9,
            all[all.length / 2], all[(int) (all.length * 0.99)]);
    }

    /** One per task. A processor is never used by two threads at once. */
    private final class Fold implements Processor<byte[], byte[], Void, Void> {
        private final Map<Long, GenericDatumReader<GenericRecord>> readers = new HashMap<>();
        private final Map<Long, GenericRecord> reused = new HashMap<>();
        private final Latencies own = new Latencies();
        private VersionedKeyValueStore<byte[], byte[]> store;
        private BinaryDecoder decoder;

        Fold() {
            schemas.forEach((fingerprint, schema) -> readers.put(fingerprint, new GenericDatumReader<>(schema)));
            latencies.add(own);
        }

        @Override
        public void init(ProcessorContext<Void, Void> context) {
            store = context.getStateStore(STORE);
        }

        @Override
        public void process(Record<byte[], byte[]> message) {
            if (firstNanos == 0) {
                begin();
            }
            try {
                fold(message);
            } catch (IOException failed) {
                throw new java.io.UncheckedIOException(failed);
            }
            own.add(System.currentTimeMillis() - message.timestamp());
            if (done.incrementAndGet() == events) {
                end();
            }
        }

        private void fold(Record<byte[], byte[]> message) throws IOException {
            byte[] value = message.value();
            long fingerprint = ByteBuffer.wrap(value, 2, 8).order(ByteOrder.LITTLE_ENDIAN).getLong();
            decoder = DecoderFactory.get().binaryDecoder(value, 10, value.length - 10, decoder);
            GenericRecord event = readers.get(fingerprint).read(reused.get(fingerprint), decoder);
            reused.put(fingerprint, event);
            switch (event.getSchema().getName()) {
                case "FactAsserted" -> put(message, event, "valid_from", value);
                case "FactEnded" -> put(message, event, "at", null);
                default -> { }
            }
        }

        private void put(Record<byte[], byte[]> message, GenericRecord event, String when, byte[] value) {
            byte[] entity = event.get("entity").toString().getBytes(StandardCharsets.UTF_8);
            byte[] slot = event.get("slot").toString().getBytes(StandardCharsets.UTF_8);
            byte[] space = message.key();
            ByteBuffer key = ByteBuffer.allocate(space.length + entity.length + slot.length + 2);
            key.put(space).put((byte) 0).put(entity).put((byte) 0).put(slot);
            Object at = event.get(when);
            store.put(key.array(), value, at == null ? message.timestamp() : (Long) at / 1_000);
            puts.incrementAndGet();
        }
    }

    /** Milliseconds from append to put. */
    private static final class Latencies {
        private long[] values = new long[1_024];
        private int count;

        void add(long value) {
            if (count == values.length) {
                values = Arrays.copyOf(values, count * 2);
            }
            values[count++] = value;
        }

        static long[] sorted(List<Latencies> parts) {
            long[] all = parts.stream().flatMapToLong(one -> Arrays.stream(one.values, 0, one.count)).sorted().toArray();
            return all.length == 0 ? new long[1] : all;
        }
    }
}
