import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** What the loads of the crash trials have in common. */
abstract class CrashLoad {
    static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    interface Work {
        void run() throws Exception;
    }

    static void waitForEndOfInput() throws IOException {
        while (System.in.read() >= 0) {
            // The harness closes the input to stop the load.
        }
    }

    static Thread start(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Exception fault) {
                OUT.println("FAULT\t" + fault.toString().replace('\n', ' '));
            }
        });
        thread.start();
        return thread;
    }
}
