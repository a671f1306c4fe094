# Functions of the findings about OpenTelemetry's Java agent. Sourced after broker.bash.

# java_agent: install the agent and a Pulsar client, and enter the folder of the application.
java_agent() {
    agent=2.33.1
    pom "$work/app" org.apache.pulsar:pulsar-client:4.2.4 io.opentelemetry.javaagent:opentelemetry-javaagent:"$agent"
    class_path "$work/app"
    cd "$work/app"
}

# traced CLASS ARGUMENTS…: compile and run CLASS with the agent, and print its spans as a JSON array.
traced() {
    local classes jar
    classes=$(cat class-path)
    jar=$(tr : '\n' < class-path | grep opentelemetry-javaagent)
    javac -proc:none -cp "$classes" "$1.java" 2> log || { tail -n 5 log >&2; exit 2; }
    OTEL_TRACES_EXPORTER=logging-otlp OTEL_METRICS_EXPORTER=none OTEL_LOGS_EXPORTER=none \
        java -javaagent:"$jar" -cp "$classes:." "$@" > output 2>&1 || { tail -n 5 output >&2; exit 2; }
    python3 -c '
import json, re
found = []
for line in open("output"):
    if match := re.search(r"\{\"resource.*", line):
        read = json.loads(match[0])
        for one in read.get("resourceSpans", [read]):
            found += [span for scope in one["scopeSpans"] for span in scope["spans"]]
print(json.dumps(found))'
}
