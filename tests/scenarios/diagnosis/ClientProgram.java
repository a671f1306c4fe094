import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * What the programs with the Java clients share: commands on stdin, answers on stdout, and the log.
 *
 * <p>A program runs several applications, each with its own client, thread and log: {@code PROGRAM SERVICE_URL FOLDER}.
 * A command names its application in {@code app}; its log is FOLDER/APP.ndjson. A command {@code close_consumer} is
 * executed by the method {@code closeConsumerCommand}. README.md lists commands and events.
 */
abstract class ClientProgram {
    static final int RESULT_S = 20;
    static final int POLL_MS = 200;

    private static final Gson GSON = new Gson();
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    final String serviceUrl;
    final Map<String, Loop> loops = new ConcurrentHashMap<>();
    private final String name;
    private final BufferedWriter log;
    private final ExecutorService thread = Executors.newSingleThreadExecutor();

    ClientProgram(String name, String serviceUrl, Path folder) throws IOException {
        this.name = name;
        this.serviceUrl = serviceUrl;
        this.log = Files.newBufferedWriter(folder.resolve(name + ".ndjson"));
    }

    /** The constructor of a program. */
    interface Maker {
        ClientProgram make(String name, String serviceUrl, Path folder) throws IOException;
    }

    /** Execute the commands on stdin until its end. */
    static void run(String[] words, Maker maker) throws IOException {
        Map<String, ClientProgram> applications = new HashMap<>();
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Command command = new Command(GSON.fromJson(line, JsonObject.class));
            String name = command.text("app", "");
            if (!applications.containsKey(name)) {
                applications.put(name, maker.make(name, words[0], Path.of(words[1])));
            }
            applications.get(name).submit(command);
        }
        Runtime.getRuntime().halt(0);
    }

    private void submit(Command command) {
        thread.execute(() -> {
            Map<String, Object> answer = new LinkedHashMap<>();
            answer.put("app", name);
            try {
                answer.put("result", execute(command));
            } catch (Throwable fault) { // the plan decides whether a failure is expected
                Throwable cause = fault instanceof InvocationTargetException ? fault.getCause() : fault;
                log("failed", "do", command.text("do", ""), "error", cause.toString());
                answer.put("error", cause.toString());
            }
            OUT.println(GSON.toJson(answer));
            if (command.text("do", "").equals("exit")) {
                System.exit(0);
            }
        });
    }

    private Object execute(Command command) throws Exception {
        StringBuilder method = new StringBuilder();
        for (String word : command.text("do", "").split("_")) {
            method.append(method.isEmpty() ? word : word.substring(0, 1).toUpperCase() + word.substring(1));
        }
        Class<?> owner = method.toString().equals("stop") ? ClientProgram.class : getClass();
        Method found = owner.getDeclaredMethod(method + "Command", Command.class);
        found.setAccessible(true);
        return found.invoke(this, command);
    }

    /** Write an event; the words are names and values in turn. */
    synchronized void log(String kind, Object... words) {
        Map<String, Object> event = new LinkedHashMap<>();
        Instant now = Instant.now();
        event.put("t", now.getEpochSecond() + now.getNano() / 1e9);
        event.put("type", kind);
        for (int at = 0; at < words.length; at += 2) {
            event.put((String) words[at], words[at + 1]);
        }
        try {
            log.write(GSON.toJson(event));
            log.newLine();
            log.flush();
        } catch (IOException fault) {
            throw new IllegalStateException(fault);
        }
    }

    static byte[] payload(String producer, int number, int size) {
        StringBuilder text = new StringBuilder(producer + ":" + number + ":");
        while (text.length() < size) {
            text.append('x');
        }
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }

    /** End the background loop of a consumer. */
    Object stopCommand(Command command) throws InterruptedException {
        Loop loop = loops.remove(command.text("consumer", ""));
        loop.over.set(true);
        loop.thread.join(2 * POLL_MS);
        loop.thread.interrupt(); // a consumer with a receiver queue of 0 waits in receive
        loop.thread.join();
        return null;
    }

    /** A thread that receives messages. */
    record Loop(Thread thread, AtomicBoolean over) {
    }

    /** The fields of a command, with their defaults. */
    record Command(JsonObject fields) {
        boolean has(String field) {
            return fields.has(field) && !fields.get(field).isJsonNull();
        }

        boolean is(String field) {
            return has(field) && fields.get(field).getAsBoolean();
        }

        String text(String field, String otherwise) {
            return has(field) ? fields.get(field).getAsString() : otherwise;
        }

        int number(String field, int otherwise) {
            return has(field) ? fields.get(field).getAsInt() : otherwise;
        }

        List<JsonElement> list(String field) {
            return has(field) ? fields.getAsJsonArray(field).asList() : List.of();
        }
    }
}
