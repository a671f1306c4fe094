#!/usr/bin/env bash
# With spring.pulsar.transaction.enabled=true, a Spring Boot application with a default @PulsarListener does not start.
#
# Versions: Spring Boot 4.0.7 (spring-pulsar 2.0.6, pulsar-client 4.1.3), Pulsar broker 4.2.4.
#
# The property is needed to send in transactions with PulsarTemplate. It also makes each listener transactional, and the
# acknowledgement mode of listeners is BATCH by default, which a transactional record listener refuses when it starts. So
# the property alone ends an application whose listeners have no settings. The listener must set
# `ackMode = AckMode.RECORD`, or `transactional = "false"`.
#
# Output on 2026-11-28:
#   without transactions: started
#   with transactions: IllegalStateException: Transactional record listeners can not use batch ack mode
#   with transactions and AckMode.RECORD: started
source "$(dirname "$0")/support/broker.bash"
start_broker
POM_HEAD="<dependencyManagement><dependencies>$(imported org.springframework.boot spring-boot-dependencies 4.0.7)</dependencies></dependencyManagement>" \
    pom "$work/app" org.springframework.boot:spring-boot-starter-pulsar
class_path "$work/app"
cd "$work/app"

# application NAME OPTIONS: compile an application with one listener.
application() {
    mkdir -p "$1"
    cat > "$1/Application.java" <<JAVA
package $1;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.pulsar.annotation.PulsarListener;
import org.springframework.pulsar.listener.AckMode;

@SpringBootApplication
public class Application {
    @PulsarListener(topics = "$1-orders", subscriptionName = "audit"$2)
    void onOrder(String order) {
    }

    public static void main(String[] arguments) {
        try (var context = SpringApplication.run(Application.class, arguments)) {
            System.out.println("started");
        } catch (Exception failure) {
            Throwable cause = failure;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            System.out.println(cause.getClass().getSimpleName() + ": " + cause.getMessage());
            System.exit(1);
        }
    }
}
JAVA
    javac -proc:none -parameters -d classes -cp "$(cat class-path)" "$1/Application.java" 2> log || { tail -n 5 log >&2; exit 2; }
}
run() {
    java -cp "classes:$(cat class-path)" "$1.Application" --logging.level.root=OFF --spring.main.banner-mode=off \
        --spring.pulsar.client.service-url="$SERVICE_URL" --spring.pulsar.admin.service-url="$ADMIN_URL" \
        --spring.pulsar.transaction.enabled="$2" 2> log || true
}
application plain ''
application record ', ackMode = AckMode.RECORD'
expect "without transactions" started "$(run plain false)"
expect "with transactions" "IllegalStateException: Transactional record listeners can not use batch ack mode" \
    "$(run plain true)"
expect "with transactions and AckMode.RECORD" started "$(run record true)"
