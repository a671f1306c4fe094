#!/usr/bin/env bash
# The Go client cannot seek a consumer to the earliest or the latest message by their message ids.
#
# Versions: github.com/apache/pulsar-client-go v0.19.0, Pulsar broker 4.2.4.
#
# Consumer.Seek(EarliestMessageID()) fails in the client, without a SEEK: the id has the partition -1, and the consumer
# of a topic without partitions expects 0. So does LatestMessageID(). As start position of a reader both ids work, and
# SeekByTime(time.Unix(1, 0)) moves the consumer to the first message.
#
# Output on 2026-11-28:
#   Seek(EarliestMessageID()): invalid partition index -1 expected a partition between [0-1]
#   Seek(LatestMessageID()): invalid partition index -1 expected a partition between [0-1]
#   SeekByTime: received message 0 again
#   reader from EarliestMessageID(): received message 0
source "$(dirname "$0")/support/broker.bash"
need go
start_broker
mkdir "$work/program"
cd "$work/program"
cat > main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/sirupsen/logrus"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	quiet := logrus.New()
	quiet.SetLevel(logrus.PanicLevel)
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: os.Args[1], Logger: log.NewLoggerWithLogrus(quiet)})
	check(err)
	defer client.Close()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	consumer, err := client.Subscribe(pulsar.ConsumerOptions{Topic: "seek", SubscriptionName: "s"})
	check(err)
	producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: "seek"})
	check(err)
	for number := 0; number < 3; number++ {
		_, err = producer.Send(ctx, &pulsar.ProducerMessage{Payload: []byte(fmt.Sprint("message ", number))})
		check(err)
	}
	for number := 0; number < 3; number++ {
		message, err := consumer.Receive(ctx)
		check(err)
		check(consumer.Ack(message))
	}
	fmt.Println(consumer.Seek(pulsar.EarliestMessageID()))
	fmt.Println(consumer.Seek(pulsar.LatestMessageID()))
	check(consumer.SeekByTime(time.Unix(1, 0)))
	message, err := consumer.Receive(ctx)
	check(err)
	fmt.Println("received", string(message.Payload()), "again")
	reader, err := client.CreateReader(pulsar.ReaderOptions{Topic: "seek", StartMessageID: pulsar.EarliestMessageID()})
	check(err)
	message, err = reader.Next(ctx)
	check(err)
	fmt.Println("received", string(message.Payload()))
}
GO
build_go github.com/apache/pulsar-client-go v0.19.0
./program "$SERVICE_URL" > output
REFUSED='invalid partition index -1 expected a partition between [0-1]'
expect "Seek(EarliestMessageID())" "$REFUSED" "$(sed -n 1p output)"
expect "Seek(LatestMessageID())" "$REFUSED" "$(sed -n 2p output)"
expect SeekByTime "received message 0 again" "$(sed -n 3p output)"
expect "reader from EarliestMessageID()" "received message 0" "$(sed -n 4p output)"
