// Publish orders and subscribe to them with Dapr's component pubsub.pulsar, and print what the subscriber received.
//
//	dapr HOST:PORT TOPIC COUNT
//
// The handler fails once for one order, which the component rejects with a negative acknowledgement after 1 s.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/dapr/components-contrib/metadata"
	"github.com/dapr/components-contrib/pubsub"
	"github.com/dapr/components-contrib/pubsub/pulsar"
	"github.com/dapr/kit/logger"
)

const rejectedOnce = "order-3"

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	host, topic := os.Args[1], os.Args[2]
	count, err := strconv.Atoi(os.Args[3])
	check(err)
	log := logger.NewLogger("dapr")
	log.SetOutput(io.Discard)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	component := pulsar.NewPulsar(log)
	check(component.Init(ctx, pubsub.Metadata{Base: metadata.Base{Properties: map[string]string{
		"host": host, "consumerID": "audit", "redeliveryDelay": "1s", "subscribeType": "shared",
	}}}))

	var lock sync.Mutex
	received, rejected := map[string]int{}, false
	all := make(chan struct{})
	handler := func(_ context.Context, message *pubsub.NewMessage) error {
		lock.Lock()
		defer lock.Unlock()
		order := string(message.Data)
		if order == rejectedOnce && !rejected {
			rejected = true
			return errors.New("rejected once")
		}
		received[order]++
		if len(received) == count {
			close(all)
		}
		return nil
	}
	check(component.Subscribe(ctx, pubsub.SubscribeRequest{Topic: topic}, handler))
	for n := range count {
		data := []byte(fmt.Sprintf("order-%d", n))
		check(component.Publish(ctx, &pubsub.PublishRequest{Topic: topic, Data: data}))
	}
	select {
	case <-all:
	case <-ctx.Done():
		check(ctx.Err())
	}
	check(component.Close())
	check(json.NewEncoder(os.Stdout).Encode(received))
}
