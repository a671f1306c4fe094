#!/bin/bash
# What the executable does on a machine without Python. tests/fresh/run.sh --executable runs it in a folder with captures.
set -euo pipefail
export LANG=C.UTF-8 TERM=screen

fail() { echo "executable: $1" >&2; exit 1; }

# prints TEXT COMMAND …: the command succeeds, and its output contains the text.
prints() {
    local text=$1 out
    shift
    out=$("$@" 2>&1) || fail "$*: exit code $?: $out"
    grep -qF -- "$text" <<< "$out" || fail "$*: no '$text' in: $out"
}

# refuses TEXT COMMAND …: the exit code is 2, and the output is one line, which contains the text.
refuses() {
    local text=$1 out code=0
    shift
    out=$("$@" 2>&1) || code=$?
    { [ "$code" = 2 ] && [ "$(wc -l <<< "$out")" = 1 ]; } || fail "$*: exit code $code: $out"
    grep -qF -- "$text" <<< "$out" || fail "$*: no '$text' in: $out"
}

# awaits TEXT COMMAND …: within a minute, the output of the command contains the text.
awaits() {
    local text=$1 end=$((SECONDS + 60))
    shift
    until "$@" 2> /dev/null | grep -aqF -- "$text"; do
        [ "$SECONDS" -lt "$end" ] || fail "$*: no '$text' after a minute: $("$@" 2>&1)"
        sleep 0.2
    done
}

# get URL [HEADERS]: the response, which the server ends, is on file 3.
get() {
    local host=${1#http://}
    exec 3<> "/dev/tcp/127.0.0.1/$(expr "$host" : '[^:]*:\([0-9]*\)')"
    printf 'GET /%s HTTP/1.1\r\nHost: %s\r\n%s\r\n' "${host#*/}" "${host%%/*}" "${2:-$'Connection: close\r\n'}" >&3
}

! command -v python3 || fail "this machine has Python"
flow=captures/python/25-no-flow.pcapng
lz4=captures/python/03-compression-lz4.pcap.gz
zstd=captures/python/04-compression-zlib.pcapng.zst

echo "the first start"
refuses "HOME is not set" env -u HOME pcli --version
refuses "/readonly/pcli/executable: Read-only file system" env XDG_CACHE_HOME=/readonly pcli --version
refuses "/full/pcli/executable: No space left on device" env XDG_CACHE_HOME=/full pcli --version
[ "$(ls /full/pcli/executable)" = lock ] || fail "a first start on a full disk left files"
head -c 50000000 "$(command -v pcli)" > truncated && chmod +x truncated
refuses "./truncated: incomplete or damaged" ./truncated --version
rm truncated
starts=()
for _ in 1 2 3; do
    pcli --version & starts+=($!)
done
for start in "${starts[@]}"; do wait "$start"; done
folders=(~/.cache/pcli/executable/*/)
{ [ ${#folders[@]} = 1 ] && [ -x "${folders[0]}pcli" ]; } || fail "not one folder in the cache: ${folders[*]}"

echo "captures"
prints "stuck-no-permits" pcli diagnose -r "$flow"
prints "stuck-no-permits" pcli why never-asks -r "$flow"
prints "SUBSCRIBE" pcli dissect -r "$flow"
prints "SEND" pcli dissect -r "$lz4" --payload
prints "SEND" pcli dissect -r "$zstd" --payload
prints "consumer_id: 1" pcli decode 0000000c00000008080b5a040801100a
prints "never-asks" pcli top --once -r "$flow"
prints "explained" pcli replay captures/flex/01-produce-consume.pcap
prints "vl-convert-python" pcli doctor report
prints "scapy" pcli doctor

echo "tables, in two processes"
head -c 24 captures/flex/01-produce-consume.pcap > large.pcap
tail -c +25 captures/flex/01-produce-consume.pcap > packets
for _ in 1 2 3 4 5 6 7 8 9 10; do cat packets packets > more && mv more packets; done
cat packets >> large.pcap && rm packets
for command in "analyze large.pcap -o tables" "diagnose -r large.pcap"; do
    # shellcheck disable=SC2086
    pcli $command -j 2 > out 2>&1 &
    until grep -qs forkserver /proc/[0-9]*/cmdline; do
        kill -0 $! 2> /dev/null || fail "$command: no worker processes: $(cat out)"
        sleep 0.05
    done
    wait $! || fail "$command: exit code $?: $(cat out)"
done
prints "35" pcli sql tables "select count(*) from messages"
pcli report tables -o report.html > out 2>&1 || fail "report: $(cat out)"
grep -q "<svg" report.html || fail "the report has no chart"

echo "what needs the package"
refuses "Spark is not part of the executable" pcli spark-analyze "$flow" -o spark
prints "not part of the executable" pcli doctor

echo "the broker"
coproc BROKER { exec pcli broker --port 0 --http-port 0 --ready-json --exit-with-parent; }
broker=$BROKER_PID
read -r -t 30 -u "${BROKER[0]}" ready || fail "the broker is not ready"
url=$(grep -o 'pulsar://[0-9.:]*' <<< "$ready")
web=$(grep -o 'http://[0-9.:]*' <<< "$ready")
prints "" pcli produce orders -u "$url" -m hello
prints "hello" pcli consume orders -u "$url" -s work --from earliest -n 1
prints "orders" pcli top --once --broker "$web"
exec {BROKER[1]}>&-
wait "$broker" || fail "the broker ended with exit code $?"

echo "full screen"
tmux new-session -d -s pcli -x 120 -y 40 "pcli browse -r $flow; sleep 100"
awaits "CONNECTED" tmux capture-pane -p -t pcli
tmux respawn-pane -k -t pcli "pcli top -r $flow --speed max; sleep 100"
awaits "never-asks" tmux capture-pane -p -t pcli
tmux kill-session -t pcli

echo "in a web browser"
pcli browse -r "$flow" --web > web 2>&1 &
server=$!
awaits "http://" cat web
page=$(grep -o 'http://.*' web)
get "$page"
grep -q "<title>" <&3 || fail "the page has no title"
websocket=$'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r
Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n'
get "${page}ws?width=120&height=40" "$websocket"
timeout 60 grep -aqm 1 "CONNECTED" <&3 || fail "the page shows no frames"
exec 3>&-
kill -TERM "$server"
wait "$server" || true

echo "metrics"
pcli top -r "$flow" --speed max --prometheus 0 > metrics 2>&1 &
server=$!
awaits "http://" cat metrics
get "$(grep -o 'http://.*' metrics)"
grep -q 'topic="persistent://public/25-no-flow/queue"' <&3 || fail "the metrics lack the topic"
kill -TERM "$server"
wait "$server" || true
echo "spans"
for protocol in http/protobuf grpc; do
    pcli export -r "$flow" --otlp http://127.0.0.1:1 --otlp-protocol $protocol > spans 2>&1 &
    server=$!
    awaits "Connection refused" cat spans
    kill -KILL "$server"
    wait "$server" 2> /dev/null || true
done
echo "executable: all passed"
