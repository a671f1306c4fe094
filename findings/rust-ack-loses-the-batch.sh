#!/usr/bin/env bash
# With the Rust client, the acknowledgement of one message of a batch acknowledges the whole batch.
#
# Versions: crate pulsar 6.9.1, Pulsar broker 4.2.4.
#
# A consumer receives ten messages, acknowledges the first and closes. If each message is an entry, the next consumer of
# the subscription gets the other nine. If the ten messages are one batch, it gets none: the client sends an ACK with the
# index of the message and without an ack set, with which the broker acknowledges the entry. Nine messages are lost that
# the application has not acknowledged. The clients in Java, Python and Go deliver them.
#
# Output on 2026-11-28:
#   single messages: 10 received, 1 acknowledged, 9 delivered to the next consumer
#   one batch: 10 received, 1 acknowledged, 0 delivered to the next consumer
source "$(dirname "$0")/support/broker.bash"
need cargo
start_broker
# The crate generates code with protoc, which the package grpcio-tools contains.
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q --disable-pip-version-check install grpcio-tools==1.73.1 setuptools==80.9.0
printf '#!/bin/sh\nexec "%s" -m grpc_tools.protoc "$@"\n' "$work/venv/bin/python" > "$work/protoc"
chmod +x "$work/protoc"
mkdir -p "$work/program/src"
cd "$work/program"
cat > Cargo.toml <<'TOML'
[package]
name = "finding"
version = "0.1.0"
edition = "2021"

[dependencies]
futures = "=0.3.31"
pulsar = { version = "=6.9.1", default-features = false, features = ["tokio-runtime"] }
tokio = { version = "1", features = ["macros", "rt-multi-thread", "time"] }
TOML
cat > src/main.rs <<'RUST'
use std::time::Duration;

use futures::TryStreamExt;
use pulsar::{Consumer, ProducerOptions, Pulsar, SubType, TokioExecutor};

async fn consumer(pulsar: &Pulsar<TokioExecutor>, topic: &str) -> Consumer<Vec<u8>, TokioExecutor> {
    pulsar
        .consumer()
        .with_topic(topic)
        .with_subscription("audit")
        .with_subscription_type(SubType::Shared)
        .build()
        .await
        .expect("subscribe")
}

/// Receive messages until none arrives for five seconds; acknowledge the first `acknowledged` of them.
async fn receive(consumer: &mut Consumer<Vec<u8>, TokioExecutor>, acknowledged: usize) -> usize {
    let mut received = 0;
    while let Ok(Ok(Some(message))) = tokio::time::timeout(Duration::from_secs(5), consumer.try_next()).await {
        received += 1;
        if received <= acknowledged {
            consumer.ack(&message).await.expect("ack");
        }
    }
    received
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (url, topic, batch) = (&arguments[1], &arguments[2], arguments[3].parse::<u32>().unwrap());
    let pulsar: Pulsar<_> = Pulsar::builder(url, TokioExecutor).build().await.expect("connect");
    let mut first = consumer(&pulsar, topic).await;
    let options = ProducerOptions { batch_size: (batch > 1).then_some(batch), ..Default::default() };
    let mut producer = pulsar.producer().with_topic(topic).with_options(options).build().await.expect("producer");
    let mut receipts = Vec::new();
    for n in 0..10 {
        receipts.push(producer.send_non_blocking(format!("message-{n}").into_bytes()).await.expect("send"));
    }
    if batch > 1 {
        producer.send_batch().await.expect("batch");
    }
    futures::future::try_join_all(receipts).await.expect("receipts");
    let received = receive(&mut first, 1).await;
    first.close().await.expect("close");
    let mut second = consumer(&pulsar, topic).await;
    let again = receive(&mut second, 10).await;
    println!("{received} received, 1 acknowledged, {again} delivered to the next consumer");
}
RUST
PROTOC=$work/protoc cargo build --quiet > log 2>&1 || { tail -n 5 log >&2; exit 2; }
program() { ./target/debug/finding "$SERVICE_URL" "persistent://public/default/$1" "$2"; }
expect "single messages" "10 received, 1 acknowledged, 9 delivered to the next consumer" "$(program single 1)"
expect "one batch" "10 received, 1 acknowledged, 0 delivered to the next consumer" "$(program batch 10)"
