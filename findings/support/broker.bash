# Functions of the findings: a temporary folder, packages from Maven Central, and a Pulsar 4.2.4 standalone broker.
# Sourced by findings/NAME.sh. It sets `work`, and start_broker sets SERVICE_URL and ADMIN_URL.
set -euo pipefail
work=$(mktemp -d)
broker=''
clean_up() {
    [ -z "$broker" ] || { kill "$broker" 2> /dev/null || true; wait "$broker" 2> /dev/null || true; }
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

need() { for tool in "$@"; do command -v "$tool" > /dev/null || { echo "$tool is not installed" >&2; exit 2; }; done; }

# class_path FOLDER: resolve FOLDER/pom.xml, and write the class path to FOLDER/class-path.
class_path() {
    mvn -q -B -f "$1/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath \
        -Dmdep.outputFile="$1/class-path" > "$1/maven.log" 2>&1 || { tail -n 5 "$1/maven.log" >&2; exit 2; }
}

# pom FOLDER DEPENDENCY…: write FOLDER/pom.xml; a dependency is GROUP:ARTIFACT:VERSION.
pom() {
    local folder=$1 group artifact version
    shift
    mkdir -p "$folder"
    {
        echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        echo '<groupId>local</groupId><artifactId>finding</artifactId><version>1</version>'
        echo "${POM_HEAD:-}<dependencies>"
        for dependency in "$@"; do
            IFS=: read -r group artifact version <<< "$dependency"
            echo "<dependency><groupId>$group</groupId><artifactId>$artifact</artifactId>"
            echo "${version:+<version>$version</version>}${POM_EXCLUSIONS:-}</dependency>"
        done
        echo '</dependencies></project>'
    } > "$folder/pom.xml"
}

# build_go MODULE VERSION: build `program` from main.go in the current folder, with a module at a version.
build_go() {
    printf 'module finding\n\ngo 1.24.0\n\nrequire %s %s\n' "$1" "$2" > go.mod
    go mod tidy > log 2>&1 && CGO_ENABLED=0 go build -o program . >> log 2>&1 || { tail -n 5 log >&2; exit 2; }
}

free_port() { python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

imported() {
    echo "<dependency><groupId>$1</groupId><artifactId>$2</artifactId><version>$3</version>"
    echo '<type>pom</type><scope>import</scope></dependency>'
}

# start_broker: start a Pulsar 4.2.4 standalone broker on free ports, and wait until it answers.
start_broker() {
    need java mvn curl python3
    local folder=$work/broker port web_port setting opens=()
    POM_HEAD="<dependencyManagement><dependencies>$(imported io.opentelemetry opentelemetry-bom 1.62.0)$(
        imported io.opentelemetry opentelemetry-bom-alpha 1.62.0-alpha)$(
        imported org.apache.logging.log4j log4j-bom 2.25.4)</dependencies></dependencyManagement>" \
        pom "$folder" org.apache.pulsar:pulsar-broker:4.2.4 org.apache.pulsar:pulsar-client-original:4.2.4 \
        org.apache.pulsar:pulsar-client-admin-original:4.2.4
    class_path "$folder"
    port=$(free_port) web_port=$(free_port)
    for setting in clusterName=standalone bindAddress=127.0.0.1 advertisedAddress=127.0.0.1 \
        brokerServicePort="$port" webServicePort="$web_port" managedLedgerDefaultEnsembleSize=1 \
        managedLedgerDefaultWriteQuorum=1 managedLedgerDefaultAckQuorum=1 loadBalancerEnabled=false \
        transactionCoordinatorEnabled=true allowLoopback=true nettyMaxFrameSizeBytes=5253120 \
        diskUsageThreshold=0.999 diskUsageWarnThreshold=0.99 \
        ledgerStorageClass=org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage; do
        echo "$setting"
    done > "$folder/standalone.conf"
    for package in java.base/java.nio java.base/jdk.internal.misc java.base/sun.net java.base/jdk.internal.platform \
        java.management/sun.management jdk.management/com.sun.management.internal; do
        opens+=(--add-opens "$package=ALL-UNNAMED")
    done
    java -Xmx1g -XX:MaxDirectMemorySize=1g "${opens[@]}" -cp "$(cat "$folder/class-path")" \
        org.apache.pulsar.PulsarStandaloneStarter --config "$folder/standalone.conf" \
        --metadata-dir "$folder/metadata" --bookkeeper-dir "$folder/bookkeeper" \
        --no-functions-worker --no-stream-storage > "$folder/log" 2>&1 &
    broker=$!
    SERVICE_URL=pulsar://127.0.0.1:$port ADMIN_URL=http://127.0.0.1:$web_port
    for _ in $(seq 240); do
        ! curl -sf "$ADMIN_URL/admin/v2/persistent/public/default" > /dev/null || return 0
        kill -0 "$broker" 2> /dev/null || { tail -n 5 "$folder/log" >&2; exit 2; }
        sleep 0.5
    done
    echo "the broker does not answer" >&2
    exit 2
}

# expect NAME EXPECTED ACTUAL: end with code 1 if the behaviour has changed.
expect() {
    echo "$1: $3"
    [ "$2" = "$3" ] || { echo "changed: $1 was: $2" >&2; exit 1; }
}
