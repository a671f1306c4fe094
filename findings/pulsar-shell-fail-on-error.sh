#!/usr/bin/env bash
# pulsar-shell --fail-on-error ends with exit code 1 after the first command, although the command succeeds.
#
# Versions: pulsar-client-tools 4.0.8, Pulsar broker 4.2.4.
#
# With --fail-on-error the shell should end at the first command that fails. It ends after the first command in each case:
# the command prints its result, the second one is not run, and the exit code is 1. Without the option both commands run
# and the exit code is 0. A script that relies on the option to stop at errors runs one command only.
#
# Output on 2026-11-28:
#   without the option: 2 commands, exit code 0
#   with --fail-on-error: 1 commands, exit code 1
#   result of the command with --fail-on-error: public pulsar
source "$(dirname "$0")/support/broker.bash"
start_broker
POM_HEAD="<dependencyManagement><dependencies>$(imported io.netty netty-bom 4.1.128.Final)</dependencies></dependencyManagement>" \
    pom "$work/shell" org.apache.pulsar:pulsar-client-tools:4.0.8
class_path "$work/shell"
cd "$work/shell"
printf 'webServiceUrl=%s\nbrokerServiceUrl=%s\n' "$ADMIN_URL" "$SERVICE_URL" > client.conf
printf 'admin tenants list\nadmin tenants list\n' > script

shell() {
    local code=0
    HOME=$work java -Duser.home="$work" -cp "$(cat class-path)" org.apache.pulsar.shell.PulsarShell \
        -c client.conf -np -f script "$@" > output 2> errors || code=$?
    echo "$(grep -c 'Executing admin tenants list' output) commands, exit code $code"
}
expect "without the option" "2 commands, exit code 0" "$(shell)"
expect "with --fail-on-error" "1 commands, exit code 1" "$(shell --fail-on-error)"
expect "result of the command with --fail-on-error" "public pulsar" "$(grep -x 'public\|pulsar' output | paste -sd ' ')"
