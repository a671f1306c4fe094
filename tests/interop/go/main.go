// Scenarios of the Go client. The conversation on stdin and stdout, and what a scenario does: see README.md.
package main

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/backoff"
	"github.com/apache/pulsar-client-go/pulsar/log"
)

const (
	wait  = 10 * time.Second
	quiet = 200 * time.Millisecond
)

const userSchema = `{"type":"record","name":"User","fields":[{"name":"name","type":["null","string"]},` +
	`{"name":"age","type":"int"}]}`

var scenarios = map[string]func(play) any{
	"exchange":     exchange,
	"failover":     failover,
	"shared":       shared,
	"nack":         nack,
	"key_shared":   keyShared,
	"sticky":       sticky,
	"chunks":       chunks,
	"schema":       schema,
	"seek":         seek,
	"reader":       reader,
	"table_view":   tableView,
	"dead_letter":  deadLetter,
	"retry_letter": retryLetter,
	"delayed":      delayed,
	"cumulative":   cumulative,
	"batch_index":  batchIndex,
	"receipts":     receipts,
	"unsubscribe":  unsubscribe,
	"zero_queue":   zeroQueue,
	"partitions":   partitions,
	"topics":       topics,
	"pattern":      pattern,
	"deduplicate":  deduplicate,
	"access_modes": accessModes,
	"reconnect":    reconnect,
	"habits":       habits,
}

var input = bufio.NewReader(os.Stdin)

// A play is a scenario that runs, with what it was told.
type play struct {
	pulsar.Client
	args  map[string]any
	topic string
}

type user struct {
	Name string `json:"name" avro:"name"`
	Age  int    `json:"age" avro:"age"`
}

func main() {
	for _, word := range os.Args[1:] {
		run(word)
	}
	for len(os.Args) == 1 {
		line, err := input.ReadString('\n')
		if err != nil {
			return
		}
		run(line)
	}
}

func run(line string) {
	args := map[string]any{}
	must(json.Unmarshal([]byte(line), &args))
	name := args["scenario"].(string)
	answer := map[string]any{"scenario": name}
	defer func() {
		if failure := recover(); failure != nil {
			answer["failed"] = fmt.Sprint(failure)
		}
		say(answer)
	}()
	if name == "list" {
		names := []string{}
		for one := range scenarios {
			names = append(names, one)
		}
		sort.Strings(names)
		answer["saw"] = names
		return
	}
	client := got(pulsar.NewClient(pulsar.ClientOptions{
		URL:              args["url"].(string),
		OperationTimeout: wait,
		Logger:           log.NewLoggerWithSlog(slog.New(slog.NewTextHandler(io.Discard, nil))),
	}))
	defer client.Close()
	with := play{Client: client, args: args}
	with.topic = with.text("topic", "orders")
	answer["saw"] = scenarios[name](with)
}

// -- scenarios

func exchange(with play) any {
	consumer := with.consumer(pulsar.ConsumerOptions{Type: with.kind()})
	defer consumer.Close()
	producer := with.producer(pulsar.ProducerOptions{})
	defer producer.Close()
	please("look")
	for n := 0; n < with.count(20); n++ {
		producer.SendAsync(context.Background(), whole(n), func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			must(err)
		})
	}
	must(producer.Flush())
	received := []any{}
	messages := []pulsar.Message{}
	for n := 0; n < with.count(20); n++ {
		messages = append(messages, take(consumer))
		received = append(received, record(messages[n]))
	}
	// Non-persistent messages have the same id, and the client drops messages with an id that it is about to acknowledge.
	for _, message := range messages {
		must(consumer.Ack(message))
	}
	return map[string]any{"received": received}
}

func failover(with play) any {
	first := with.consumer(pulsar.ConsumerOptions{Type: pulsar.Failover, Name: "c1"})
	second := with.consumer(pulsar.ConsumerOptions{Type: pulsar.Failover, Name: "c2"})
	defer second.Close()
	producer := with.producer(pulsar.ProducerOptions{})
	defer producer.Close()
	send(producer, 0, 5)
	saw := map[string]any{"c1": takeAll(first, 5), "c2 meanwhile": rest(second)}
	first.Close()
	send(producer, 5, 10)
	saw["c2"] = takeAll(second, 5)
	return saw
}

func shared(with play) any {
	first := with.consumer(pulsar.ConsumerOptions{Type: pulsar.Shared})
	defer first.Close()
	second := with.consumer(pulsar.ConsumerOptions{Type: pulsar.Shared})
	defer second.Close()
	producer := with.producer(pulsar.ProducerOptions{})
	defer producer.Close()
	send(producer, 0, 20)
	return deal(map[string]pulsar.Consumer{"c1": first, "c2": second}, 20)
}

func nack(with play) any {
	consumer := with.consumer(pulsar.ConsumerOptions{Type: pulsar.Shared, NackRedeliveryDelay: 100 * time.Millisecond})
	defer consumer.Close()
	producer := with.producer(pulsar.ProducerOptions{})
	defer producer.Close()
	send(producer, 0, 3)
	received := []any{}
	for n := 0; n < 4; n++ {
		message := take(consumer)
		if data(message) == "message-1" && message.RedeliveryCount() == 0 {
			consumer.Nack(message)
		} else {
			must(consumer.Ack(message))
		}
		received = append(received, []any{data(message), message.RedeliveryCount()})
	}
	return map[string]any{"received": received}
}

func habits(with play) any {
	options := pulsar.ConsumerOptions{Topic: with.topic, SubscriptionName: "work", Type: pulsar.Shared}
	consumer := got(with.Subscribe(options))
	defer consumer.Close()
	sendAll := func(options pulsar.ProducerOptions, count int) {
		options.Topic = with.topic
		producer := got(with.CreateProducer(options))
		defer producer.Close()
		for n := range count {
			message := &pulsar.ProducerMessage{Payload: []byte(fmt.Sprintf("message-%d", n))}
			producer.SendAsync(context.Background(), message, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
				must(err)
			})
		}
		must(producer.Flush())
	}
	sendAll(pulsar.ProducerOptions{}, 1200)
	for range 1200 {
		must(consumer.Ack(take(consumer)))
	}
	sendAll(pulsar.ProducerOptions{BatchingMaxPublishDelay: time.Second}, 10)
	for n := range 10 {
		message := take(consumer)
		if n < 4 {
			must(consumer.Ack(message))
		} else if n < 7 {
			consumer.Nack(message)
		}
	}
	please("idle")
	return map[string]any{}
}

func keyShared(with play) any {
	first := with.consumer(pulsar.ConsumerOptions{Type: pulsar.KeyShared})
	defer first.Close()
	second := with.consumer(pulsar.ConsumerOptions{Type: pulsar.KeyShared})
	defer second.Close()
	producer := with.producer(pulsar.ProducerOptions{})
	defer producer.Close()
	sendKeyed(producer, 40)
	return deal(map[string]pulsar.Consumer{"c1": first, "c2": second}, 40)
}

func sticky(with play) any {
	options := func(first, last int) pulsar.ConsumerOptions {
		policy := got(pulsar.NewKeySharedPolicySticky([]int{first, last}))
		return pulsar.ConsumerOptions{
			Topic: with.topic, SubscriptionName: "work", Type: pulsar.KeyShared, KeySharedPolicy: policy,
		}
	}
	low := got(with.Subscribe(options(0, 32767)))
	defer low.Close()
	high := got(with.Subscribe(options(32768, 65535)))
	defer high.Close()
	_, refused := with.Subscribe(options(30000, 40000))
	producer := with.producer(pulsar.ProducerOptions{})
	defer producer.Close()
	sendKeyed(producer, 40)
	saw := deal(map[string]pulsar.Consumer{"low": low, "high": high}, 40)
	saw["refused"] = refusal(refused)
	return saw
}

func chunks(with play) any {
	large := make([]byte, with.count(100_000))
	for n := range large {
		large[n] = byte(n*7 + n/256)
	}
	consumer := with.consumer(pulsar.ConsumerOptions{})
	defer consumer.Close()
	producer := with.producer(pulsar.ProducerOptions{EnableChunking: true})
	defer producer.Close()
	for _, payload := range [][]byte{[]byte("before"), large, []byte("after")} {
		got(producer.Send(context.Background(), &pulsar.ProducerMessage{Payload: payload}))
	}
	received := []any{}
	for n := 0; n < 3; n++ {
		message := take(consumer)
		must(consumer.Ack(message))
		received = append(received, []any{len(message.Payload()), hash(message.Payload())})
	}
	return map[string]any{"received": received, "sent": []any{len(large), hash(large)}}
}

func schema(with play) any {
	switch with.text("kind", "string") {
	case "string":
		var place *string
		return with.typed(pulsar.NewStringSchema(nil), "eins", &place, pulsar.NewInt64Schema(nil))
	case "json":
		return with.typed(pulsar.NewJSONSchema(userSchema, nil), user{"Ada", 36}, &user{}, pulsar.NewStringSchema(nil))
	default:
		// The library writes a plain string where the schema has no union.
		plain := strings.Replace(userSchema, `["null","string"]`, `"string"`, 1)
		return with.typed(pulsar.NewAvroSchema(plain, nil), user{"Ada", 36}, &user{}, pulsar.NewStringSchema(nil))
	}
}

func (with play) typed(schema pulsar.Schema, value, place any, other pulsar.Schema) any {
	consumer := with.consumer(pulsar.ConsumerOptions{Schema: schema})
	defer consumer.Close()
	producer := with.producer(pulsar.ProducerOptions{Schema: schema})
	defer producer.Close()
	got(producer.Send(context.Background(), &pulsar.ProducerMessage{Value: value}))
	message := take(consumer)
	must(message.GetSchemaValue(place))
	must(consumer.Ack(message))
	_, refused := with.CreateProducer(pulsar.ProducerOptions{Topic: with.topic, Schema: other, MaxReconnectToBroker: never()})
	return map[string]any{"value": place, "refused": refusal(refused)}
}

func seek(with play) any {
	consumer := with.consumer(pulsar.ConsumerOptions{})
	defer consumer.Close()
	producer := with.producer(pulsar.ProducerOptions{})
	defer producer.Close()
	for n := 0; n < 10; n++ {
		got(producer.Send(context.Background(), whole(n)))
		time.Sleep(5 * time.Millisecond)
	}
	all := []pulsar.Message{}
	for n := 0; n < 10; n++ {
		all = append(all, take(consumer))
		must(consumer.Ack(all[n]))
	}
	saw := map[string]any{}
	// Of EarliestMessageID the library says that there is no such partition; and what is before the id that was
	// sought last it throws away, so that comes last.
	must(consumer.SeekByTime(time.UnixMilli(1)))
	saw["earliest"] = takeUntil(consumer, "message-9")
	must(consumer.SeekByTime(all[7].PublishTime()))
	saw["by_time"] = takeUntil(consumer, "message-9")
	must(consumer.Seek(all[4].ID()))
	saw["by_id"] = takeUntil(consumer, "message-9")
	return saw
}

func reader(with play) any {
	open := func(start pulsar.MessageID, inclusive bool) pulsar.Reader {
		return got(with.CreateReader(pulsar.ReaderOptions{
			Topic: with.topic, StartMessageID: start, StartMessageIDInclusive: inclusive,
		}))
	}
	producer := with.producer(pulsar.ProducerOptions{})
	defer producer.Close()
	latest := open(pulsar.LatestMessageID(), false)
	defer latest.Close()
	saw := map[string]any{"available in nothing": latest.HasNext()}
	ids := []pulsar.MessageID{}
	for n := 0; n < 5; n++ {
		ids = append(ids, got(producer.Send(context.Background(), whole(n))))
	}
	saw["latest"] = readAll(latest)
	earliest := open(pulsar.EarliestMessageID(), false)
	defer earliest.Close()
	saw["earliest"] = readAll(earliest)
	saw["available at the end"] = earliest.HasNext()
	must(earliest.Seek(ids[2]))
	saw["sought"] = readAll(earliest)
	after := open(ids[2], false)
	defer after.Close()
	saw["after an id"] = readAll(after)
	from := open(ids[2], true)
	defer from.Close()
	saw["from an id"] = readAll(from)
	return saw
}

func tableView(with play) any {
	schema := pulsar.NewStringSchema(nil) // a view without a schema is no option of this library
	producer := with.producer(pulsar.ProducerOptions{Schema: schema})
	defer producer.Close()
	sendKeyed(producer, 20)
	view := got(with.CreateTableView(pulsar.TableViewOptions{
		Topic: with.topic, Schema: schema, SchemaValueType: reflect.TypeOf((*string)(nil)),
	}))
	defer view.Close()
	got(producer.Send(context.Background(), &pulsar.ProducerMessage{Key: "k0", Payload: []byte("changed")}))
	rows := map[string]string{}
	for end := time.Now().Add(wait); rows["k0"] != "changed" && time.Now().Before(end); time.Sleep(quiet / 20) {
		for key, value := range view.Entries() {
			rows[key] = *value.(*string)
		}
	}
	return map[string]any{"rows": rows}
}

func deadLetter(with play) any {
	consumer := with.consumer(pulsar.ConsumerOptions{
		Type: pulsar.Shared, NackRedeliveryDelay: 50 * time.Millisecond,
		DLQ: &pulsar.DLQPolicy{MaxDeliveries: 3, DeadLetterTopic: "dead", InitialSubscriptionName: "undertaker"},
	})
	defer consumer.Close()
	producer := with.producer(pulsar.ProducerOptions{})
	defer producer.Close()
	for _, word := range []string{"poison", "good"} {
		got(producer.Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte(word)}))
	}
	deliveries := []string{}
	for len(deliveries) < 4 {
		message := take(consumer)
		deliveries = append(deliveries, fmt.Sprintf("%s %d", data(message), message.RedeliveryCount()))
		if data(message) == "good" {
			must(consumer.Ack(message))
		} else {
			consumer.Nack(message)
		}
	}
	dead := got(with.Subscribe(pulsar.ConsumerOptions{Topic: "dead", SubscriptionName: "undertaker"}))
	defer dead.Close()
	message := take(dead)
	must(dead.Ack(message))
	return map[string]any{"deliveries": deliveries, "dead": record(message)}
}

func retryLetter(with play) any {
	consumer := with.consumer(pulsar.ConsumerOptions{
		Type: pulsar.Shared, RetryEnable: true,
		DLQ: &pulsar.DLQPolicy{
			MaxDeliveries: 2, RetryLetterTopic: "again", DeadLetterTopic: "dead", InitialSubscriptionName: "undertaker",
		},
	})
	defer consumer.Close()
	producer := with.producer(pulsar.ProducerOptions{})
	defer producer.Close()
	got(producer.Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte("poison")}))
	deliveries := []string{}
	for n := 0; n < 3; n++ {
		message := take(consumer)
		times, found := message.Properties()["RECONSUMETIMES"]
		if !found {
			times = "0"
		}
		deliveries = append(deliveries, times)
		consumer.ReconsumeLater(message, 100*time.Millisecond)
	}
	dead := got(with.Subscribe(pulsar.ConsumerOptions{Topic: "dead", SubscriptionName: "undertaker"}))
	defer dead.Close()
	return map[string]any{"deliveries": deliveries, "dead": data(take(dead))}
}

func delayed(with play) any {
	consumer := with.consumer(pulsar.ConsumerOptions{Type: pulsar.Shared})
	defer consumer.Close()
	producer := with.producer(pulsar.ProducerOptions{})
	defer producer.Close()
	got(producer.Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte("later"), DeliverAfter: time.Hour}))
	got(producer.Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte("at once")}))
	received := append(takeAll(consumer, 1), rest(consumer)...)
	please("advance")
	return map[string]any{"received": append(received, takeAll(consumer, 1)...)}
}

func cumulative(with play) any {
	producer := with.producer(pulsar.ProducerOptions{})
	defer producer.Close()
	consumer := with.consumer(pulsar.ConsumerOptions{})
	send(producer, 0, 10)
	for n := 0; n < 10; n++ {
		message := take(consumer)
		if n == 5 {
			must(consumer.AckCumulative(message))
		}
	}
	consumer.Close()
	again := with.consumer(pulsar.ConsumerOptions{})
	defer again.Close()
	return map[string]any{"again": takeUntil(again, "message-9")}
}

func batchIndex(with play) any {
	producer := got(with.CreateProducer(pulsar.ProducerOptions{
		Topic: with.topic, BatchingMaxMessages: 10, BatchingMaxPublishDelay: time.Second,
	}))
	defer producer.Close()
	consumer := with.consumer(pulsar.ConsumerOptions{EnableBatchIndexAcknowledgment: true})
	for n := 0; n < 10; n++ {
		message := &pulsar.ProducerMessage{Payload: payload(n)}
		producer.SendAsync(context.Background(), message, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			must(err)
		})
	}
	must(producer.Flush())
	for n := 0; n < 10; n++ {
		message := take(consumer)
		if n == 0 || n == 2 || n == 4 {
			must(consumer.Ack(message))
		}
	}
	consumer.Close()
	please("look")
	again := with.consumer(pulsar.ConsumerOptions{EnableBatchIndexAcknowledgment: true})
	defer again.Close()
	return map[string]any{"again": takeUntil(again, "message-9")}
}

func receipts(with play) any {
	consumer := with.consumer(pulsar.ConsumerOptions{Type: pulsar.Shared, AckWithResponse: true})
	defer consumer.Close()
	producer := with.producer(pulsar.ProducerOptions{})
	defer producer.Close()
	send(producer, 0, 3)
	acked := 0
	for ; acked < 3; acked++ {
		must(consumer.Ack(take(consumer)))
	}
	please("look")
	return map[string]any{"acked": acked}
}

func unsubscribe(with play) any {
	consumer := with.consumer(pulsar.ConsumerOptions{})
	please("look")
	must(consumer.Unsubscribe())
	return map[string]any{}
}

func zeroQueue(with play) any {
	consumer := with.consumer(pulsar.ConsumerOptions{Type: pulsar.Shared, EnableZeroQueueConsumer: true})
	defer consumer.Close()
	producer := with.producer(pulsar.ProducerOptions{})
	defer producer.Close()
	send(producer, 0, 3)
	please("look")
	return map[string]any{"received": takeAll(consumer, 3)}
}

func partitions(with play) any {
	consumer := with.consumer(pulsar.ConsumerOptions{})
	defer consumer.Close()
	next := -1
	producer := with.producer(pulsar.ProducerOptions{MessageRouter: func(
		message *pulsar.ProducerMessage, topic pulsar.TopicMetadata,
	) int {
		if message.Key != "" {
			digit, _ := strconv.Atoi(message.Key[1:])
			return digit % int(topic.NumPartitions())
		}
		next++
		return next % int(topic.NumPartitions())
	}})
	defer producer.Close()
	send(producer, 0, 9)
	sendKeyed(producer, 20)
	received := []any{}
	for n := 0; n < 29; n++ {
		message := take(consumer)
		must(consumer.Ack(message))
		name := message.Topic()
		received = append(received, []any{name[strings.LastIndex(name, "-")+1:], message.Key(), data(message)})
	}
	return map[string]any{"received": received}
}

func topics(with play) any {
	consumer := got(with.Subscribe(pulsar.ConsumerOptions{Topics: []string{"a", "b"}, SubscriptionName: "work"}))
	defer consumer.Close()
	for n, topic := range []string{"a", "b"} {
		producer := got(with.CreateProducer(pulsar.ProducerOptions{Topic: topic}))
		defer producer.Close()
		send(producer, n*5, n*5+5)
	}
	return map[string]any{"received": byTopic(consumer, 10)}
}

func pattern(with play) any {
	producers := map[string]pulsar.Producer{}
	for _, topic := range []string{"watch-a", "other"} {
		producers[topic] = got(with.CreateProducer(pulsar.ProducerOptions{Topic: topic}))
		defer producers[topic].Close()
	}
	consumer := got(with.Subscribe(pulsar.ConsumerOptions{
		TopicsPattern: "persistent://public/default/watch-.*", SubscriptionName: "work",
		AutoDiscoveryPeriod:         quiet,
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
	}))
	defer consumer.Close()
	late := got(with.CreateProducer(pulsar.ProducerOptions{Topic: "watch-b"}))
	defer late.Close()
	got(producers["other"].Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte("elsewhere")}))
	send(producers["watch-a"], 0, 2)
	send(late, 2, 4)
	return map[string]any{"received": byTopic(consumer, 4)}
}

func deduplicate(with play) any {
	consumer := with.consumer(pulsar.ConsumerOptions{})
	defer consumer.Close()
	last := []int64{}
	for _, numbers := range [][]int{{0, 1, 2}, {1, 2, 3}} {
		producer := with.producer(pulsar.ProducerOptions{Name: "p"})
		last = append(last, producer.LastSequenceID())
		for _, n := range numbers {
			sequence := int64(n)
			message := &pulsar.ProducerMessage{Payload: payload(n), SequenceID: &sequence}
			got(producer.Send(context.Background(), message))
		}
		producer.Close()
	}
	received := append(takeUntil(consumer, "message-3"), rest(consumer)...)
	return map[string]any{"received": received, "last": last}
}

func accessModes(with play) any {
	options := pulsar.ProducerOptions{
		Topic: with.topic, ProducerAccessMode: pulsar.ProducerAccessModeExclusive, MaxReconnectToBroker: never(),
	}
	holder := got(with.CreateProducer(options))
	_, refused := with.CreateProducer(options)
	options.ProducerAccessMode = pulsar.ProducerAccessModeWaitForExclusive
	waiting := make(chan pulsar.Producer)
	go func() { waiting <- got(with.CreateProducer(options)) }()
	var heir pulsar.Producer
	early := false
	select {
	case heir = <-waiting:
		early = true
	case <-time.After(quiet):
	}
	got(holder.Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte("holder")}))
	holder.Close()
	if heir == nil {
		heir = <-waiting
	}
	defer heir.Close()
	got(heir.Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte("heir")}))
	return map[string]any{"refused": refusal(refused), "early": early}
}

func reconnect(with play) any {
	consumer := with.consumer(pulsar.ConsumerOptions{Type: with.kind()})
	defer consumer.Close()
	producer := with.producer(pulsar.ProducerOptions{})
	defer producer.Close()
	send(producer, 0, 10)
	received := takeAll(consumer, 5)
	please("interrupt")
	send(producer, 10, 20)
	return map[string]any{"received": append(received, takeUntil(consumer, "message-19")...)}
}

// -- words of the scenarios

func (with play) consumer(options pulsar.ConsumerOptions) pulsar.Consumer {
	options.Topic, options.SubscriptionName = with.topic, "work"
	options.BackOffPolicyFunc = soon
	return got(with.Subscribe(options))
}

func (with play) producer(options pulsar.ProducerOptions) pulsar.Producer {
	batching := with.text("batching", "none")
	options.Topic = with.topic
	options.DisableBatching = batching == "none"
	options.BatchingMaxPublishDelay = 10 * time.Millisecond
	options.HashingScheme = pulsar.Murmur3_32Hash
	options.BackOffPolicyFunc = soon
	if batching == "key" {
		options.BatcherBuilderType = pulsar.KeyBasedBatchBuilder
	}
	options.CompressionType = map[string]pulsar.CompressionType{
		"NONE": pulsar.NoCompression, "LZ4": pulsar.LZ4, "ZLIB": pulsar.ZLib, "ZSTD": pulsar.ZSTD, "SNAPPY": pulsar.SNAPPY,
	}[with.text("compression", "NONE")]
	return got(with.CreateProducer(options))
}

func whole(n int) *pulsar.ProducerMessage {
	return &pulsar.ProducerMessage{
		Payload: payload(n), Key: fmt.Sprint("k", n%5), OrderingKey: fmt.Sprint("o", n%5),
		Properties: map[string]string{"n": fmt.Sprint(n)}, EventTime: time.UnixMilli(int64(1000 + n)),
	}
}

func send(producer pulsar.Producer, first, end int) {
	for n := first; n < end; n++ {
		got(producer.Send(context.Background(), &pulsar.ProducerMessage{Payload: payload(n)}))
	}
}

func sendKeyed(producer pulsar.Producer, count int) {
	for n := 0; n < count; n++ {
		message := &pulsar.ProducerMessage{Key: fmt.Sprint("k", n%10), Payload: payload(n)}
		producer.SendAsync(context.Background(), message, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			must(err)
		})
	}
	must(producer.Flush())
}

func payload(n int) []byte { return []byte(fmt.Sprint("message-", n)) }

func receive(consumer pulsar.Consumer, patience time.Duration) (pulsar.Message, error) {
	limit, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return consumer.Receive(limit)
}

func take(consumer pulsar.Consumer) pulsar.Message { return got(receive(consumer, wait)) }

func takeAll(consumer pulsar.Consumer, count int) []string {
	received := []string{}
	for len(received) < count {
		message := take(consumer)
		must(consumer.Ack(message))
		received = append(received, data(message))
	}
	return received
}

func takeUntil(consumer pulsar.Consumer, last string) []string {
	received := takeAll(consumer, 1)
	for received[len(received)-1] != last {
		received = append(received, takeAll(consumer, 1)...)
	}
	return received
}

func rest(consumer pulsar.Consumer) []string {
	received := []string{}
	for {
		message, err := receive(consumer, quiet)
		if errors.Is(err, context.DeadlineExceeded) {
			return received
		}
		must(err)
		received = append(received, data(message))
	}
}

func readAll(reader pulsar.Reader) []string {
	read := []string{}
	for reader.HasNext() {
		limit, cancel := context.WithTimeout(context.Background(), wait)
		read = append(read, data(got(reader.Next(limit))))
		cancel()
	}
	return read
}

func byTopic(consumer pulsar.Consumer, count int) []any {
	received := []any{}
	for len(received) < count {
		message := take(consumer)
		must(consumer.Ack(message))
		received = append(received, []any{message.Topic(), data(message)})
	}
	return received
}

func deal(consumers map[string]pulsar.Consumer, count int) map[string]any {
	hands := map[string][]string{}
	dealt := 0
	for end := time.Now().Add(wait); dealt < count && time.Now().Before(end); {
		for name, consumer := range consumers {
			message, err := receive(consumer, quiet/10)
			if err != nil {
				continue
			}
			must(consumer.Ack(message))
			text := data(message)
			if message.Key() != "" {
				text = message.Key() + "=" + text
			}
			hands[name] = append(hands[name], text)
			dealt++
		}
	}
	saw := map[string]any{}
	for name := range consumers {
		saw[name] = append([]string{}, hands[name]...)
	}
	return saw
}

func data(message pulsar.Message) string { return string(message.Payload()) }

func record(message pulsar.Message) map[string]any {
	eventTime := int64(0)
	if !message.EventTime().IsZero() {
		eventTime = message.EventTime().UnixMilli()
	}
	return map[string]any{
		"data": data(message), "key": message.Key(), "ordering_key": message.OrderingKey(),
		"properties": message.Properties(), "event_time": eventTime,
	}
}

func hash(bytes []byte) string {
	sum := sha1.Sum(bytes)
	return hex.EncodeToString(sum[:])
}

func refusal(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func never() *uint {
	times := uint(0)
	return &times
}

func soon() backoff.Policy {
	return backoff.NewDefaultBackoffWithInitialBackOff(50 * time.Millisecond)
}

func (with play) kind() pulsar.SubscriptionType {
	return map[string]pulsar.SubscriptionType{
		"Exclusive": pulsar.Exclusive, "Failover": pulsar.Failover, "Shared": pulsar.Shared, "Key_Shared": pulsar.KeyShared,
	}[with.text("type", "Exclusive")]
}

func (with play) count(usual int) int {
	if count, found := with.args["count"].(float64); found {
		return int(count)
	}
	return usual
}

func (with play) text(name, usual string) string {
	if text, found := with.args[name].(string); found {
		return text
	}
	return usual
}

func please(what string) {
	say(map[string]any{"please": what})
	got(input.ReadString('\n'))
}

func say(what any) {
	fmt.Println(string(got(json.Marshal(what))))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func got[T any](value T, err error) T {
	must(err)
	return value
}
