// The counterpart of application.py with the official Go client: application SERVICE_URL LOG
//
// It lacks acknowledgement timeouts, schemas and transactions. README.md lists commands and events.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
)

const (
	resultTime = 20 * time.Second
	pollTime   = 200 * time.Millisecond
)

var types = map[string]pulsar.SubscriptionType{
	"Exclusive":  pulsar.Exclusive,
	"Failover":   pulsar.Failover,
	"Shared":     pulsar.Shared,
	"Key_Shared": pulsar.KeyShared,
}

var compressions = map[string]pulsar.CompressionType{
	"NONE": pulsar.NoCompression,
	"LZ4":  pulsar.LZ4,
	"ZLIB": pulsar.ZLib,
	"ZSTD": pulsar.ZSTD,
}

var accessModes = map[string]pulsar.ProducerAccessMode{
	"Shared":           pulsar.ProducerAccessModeShared,
	"Exclusive":        pulsar.ProducerAccessModeExclusive,
	"WaitForExclusive": pulsar.ProducerAccessModeWaitForExclusive,
}

// A command has the fields of a step.
type command map[string]any

func (c command) text(name, otherwise string) string {
	if text, ok := c[name].(string); ok {
		return text
	}
	return otherwise
}

func (c command) number(name string, otherwise int) int {
	if number, ok := c[name].(float64); ok {
		return int(number)
	}
	return otherwise
}

func (c command) is(name string) bool {
	value, _ := c[name].(bool)
	return value
}

func (c command) list(name string) []any {
	values, _ := c[name].([]any)
	return values
}

func (c command) milliseconds(name string, otherwise int) time.Duration {
	return time.Duration(c.number(name, otherwise)) * time.Millisecond
}

// A loop receives messages in the background.
type loop struct {
	stop context.CancelFunc
	done chan struct{}
}

type application struct {
	serviceURL string
	client     pulsar.Client
	lock       sync.Mutex
	log        *os.File
	producers  map[string]pulsar.Producer
	consumers  map[string]pulsar.Consumer
	readers    map[string]pulsar.Reader
	held       map[string][]pulsar.Message
	loops      map[string]loop
}

var commands = map[string]func(*application, command) (any, error){
	"connect":        (*application).connect,
	"producer":       (*application).producer,
	"send":           (*application).send,
	"close_producer": (*application).closeProducer,
	"subscribe":      (*application).subscribe,
	"receive":        (*application).receive,
	"consume":        (*application).consume,
	"stop":           (*application).stop,
	"ack":            (*application).ack,
	"nack":           (*application).nack,
	"seek":           (*application).seek,
	"unsubscribe":    (*application).unsubscribe,
	"close_consumer": (*application).closeConsumer,
	"read":           (*application).read,
	"exit":           (*application).exit,
	"close":          (*application).close,
}

func main() {
	file, err := os.Create(os.Args[2])
	if err != nil {
		panic(err)
	}
	app := &application{
		serviceURL: os.Args[1],
		log:        file,
		producers:  map[string]pulsar.Producer{},
		consumers:  map[string]pulsar.Consumer{},
		readers:    map[string]pulsar.Reader{},
		held:       map[string][]pulsar.Message{},
		loops:      map[string]loop{},
	}
	if app.client, err = app.newClient(); err != nil {
		panic(err)
	}
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 1<<20)
	for input.Scan() {
		step := command{}
		if err := json.Unmarshal(input.Bytes(), &step); err != nil {
			panic(err)
		}
		answer := map[string]any{"app": step["app"]}
		if result, err := app.execute(step); err != nil { // the plan decides whether a failure is expected
			app.write("failed", map[string]any{"do": step["do"], "error": err.Error()})
			answer["error"] = err.Error()
		} else {
			answer["result"] = result
		}
		line, _ := json.Marshal(answer)
		fmt.Println(string(line))
		if name := step.text("do", ""); name == "close" || name == "exit" {
			return // the end of main ends the process at once
		}
	}
}

func (a *application) execute(step command) (any, error) {
	run, ok := commands[step.text("do", "")]
	if !ok {
		return nil, fmt.Errorf("the Go client has no %v", step["do"])
	}
	return run(a, step)
}

func (a *application) newClient() (pulsar.Client, error) {
	return pulsar.NewClient(pulsar.ClientOptions{
		URL:              a.serviceURL,
		OperationTimeout: resultTime,
		Logger:           log.NewLoggerWithSlog(slog.New(slog.NewTextHandler(io.Discard, nil))),
	})
}

// write appends an event to the log.
func (a *application) write(kind string, fields map[string]any) {
	fields["t"], fields["type"] = float64(time.Now().UnixNano())/1e9, kind
	line, _ := json.Marshal(fields)
	a.lock.Lock()
	defer a.lock.Unlock()
	fmt.Fprintln(a.log, string(line))
}

func (a *application) connect(command) (any, error) {
	a.client.Close()
	var err error
	a.client, err = a.newClient()
	return nil, err
}

// -- producers

func (a *application) producer(step command) (any, error) {
	options := pulsar.ProducerOptions{
		Topic:                   step.text("topic", ""),
		Name:                    step.text("producer", ""),
		DisableBatching:         step.number("batch", 0) == 0,
		BatchingMaxMessages:     uint(step.number("batch", 0)),
		BatchingMaxPublishDelay: step.milliseconds("batch_ms", 10),
		EnableChunking:          step.is("chunking"),
		CompressionType:         compressions[step.text("compression", "NONE")],
		SendTimeout:             step.milliseconds("send_timeout_ms", 30_000),
		ProducerAccessMode:      accessModes[step.text("access", "Shared")],
	}
	producer, err := a.client.CreateProducer(options)
	if err == nil {
		a.producers[options.Name] = producer
	}
	return nil, err
}

// send waits for the receipts and returns the number of messages that the broker stored.
func (a *application) send(step command) (any, error) {
	name, first, count := step.text("producer", ""), step.number("first", 0), step.number("count", 0)
	keys, sequences := step.list("keys"), step.list("sequences")
	results := make(chan error, count)
	for number := first; number < first+count; number++ {
		payload := fmt.Sprintf("%s:%d:", name, number)
		if size := step.number("size", 20); len(payload) < size {
			payload += strings.Repeat("x", size-len(payload))
		}
		message := &pulsar.ProducerMessage{Payload: []byte(payload)}
		if len(keys) > 0 {
			message.Key = keys[number%len(keys)].(string)
		}
		if len(sequences) > 0 {
			sequence := int64(sequences[number-first].(float64))
			message.SequenceID = &sequence
		}
		a.write("sending", map[string]any{"producer": name, "n": number})
		sent := func(id pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			if err == nil {
				a.write("produced", map[string]any{"producer": name, "n": number, "message_id": idText(id)})
			} else {
				a.write("send_failed", map[string]any{"producer": name, "n": number, "error": err.Error()})
			}
			results <- err
		}
		a.producers[name].SendAsync(context.Background(), message, sent)
		if step.is("one_by_one") {
			_ = a.producers[name].Flush() // the result of the message contains the error
		}
		time.Sleep(step.milliseconds("interval_ms", 0))
	}
	if step.is("async") {
		return 0, nil
	}
	_ = a.producers[name].Flush()
	stored, timeout := 0, time.After(resultTime)
	var failure error
	for range count {
		select {
		case err := <-results:
			if err == nil {
				stored++
			} else if failure == nil {
				failure = err
			}
		case <-timeout:
			return nil, fmt.Errorf("a SEND has no result after %v", resultTime)
		}
	}
	return stored, failure
}

func (a *application) closeProducer(step command) (any, error) {
	a.producers[step.text("producer", "")].Close()
	delete(a.producers, step.text("producer", ""))
	return nil, nil
}

// -- consumers

func (a *application) subscribe(step command) (any, error) {
	name := step.text("consumer", "")
	options := pulsar.ConsumerOptions{
		Name:                           name,
		SubscriptionName:               step.text("subscription", ""),
		Type:                           types[step.text("type", "")],
		ReceiverQueueSize:              step.number("queue", 1000),
		NackRedeliveryDelay:            step.milliseconds("nack_delay_ms", 60_000),
		SubscriptionInitialPosition:    pulsar.SubscriptionPositionEarliest,
		EnableBatchIndexAcknowledgment: step.is("batch_index"),
	}
	options.EnableZeroQueueConsumer = options.ReceiverQueueSize == 0
	if step.text("position", "Earliest") == "Latest" {
		options.SubscriptionInitialPosition = pulsar.SubscriptionPositionLatest
	}
	if step.is("pattern") {
		options.TopicsPattern = step.text("topic", "")
	} else {
		options.Topic = step.text("topic", "")
	}
	if group := step.number("ack_group_ms", -1); group >= 0 {
		time := step.milliseconds("ack_group_ms", 0)
		options.AckGroupingOptions = &pulsar.AckGroupingOptions{MaxSize: 1000, MaxTime: time}
	}
	if letter := step.list("dead_letter"); len(letter) > 0 {
		options.DLQ = &pulsar.DLQPolicy{
			MaxDeliveries:           uint32(letter[0].(float64)) + 1, // the other clients count redeliveries
			DeadLetterTopic:         letter[1].(string),
			InitialSubscriptionName: "dead",
		}
	}
	consumer, err := a.client.Subscribe(options)
	if err != nil {
		return nil, err
	}
	a.consumers[name], a.held[name] = consumer, nil
	a.write("subscribed", map[string]any{"consumer": name})
	return nil, nil
}

// receive handles messages and returns their number. It ends early if none arrives for timeout_ms.
func (a *application) receive(step command) (any, error) {
	name, count, got := step.text("consumer", ""), step.number("count", 0), 0
	for got < count {
		within, cancel := context.WithTimeout(context.Background(), step.milliseconds("timeout_ms", 10_000))
		message, err := a.next(within, name)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil {
			return nil, err
		}
		got++
		time.Sleep(step.milliseconds("work_ms", 0))
		a.handle(name, message, step)
	}
	if got < count && !step.is("fewer") {
		return nil, fmt.Errorf("%s received %d of %d messages", name, got, count)
	}
	return got, nil
}

// consume handles messages in the background until stop or closeConsumer.
func (a *application) consume(step command) (any, error) {
	name := step.text("consumer", "")
	running, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	a.loops[name] = loop{stop, done}
	go func() {
		defer close(done)
		for running.Err() == nil {
			within, cancel := context.WithTimeout(running, pollTime)
			message, err := a.next(within, name)
			cancel()
			if err == nil {
				time.Sleep(step.milliseconds("work_ms", 0))
				a.handle(name, message, step)
			} else if !errors.Is(err, context.DeadlineExceeded) {
				return
			}
		}
	}()
	return nil, nil
}

func (a *application) stop(step command) (any, error) {
	name := step.text("consumer", "")
	a.loops[name].stop()
	<-a.loops[name].done
	delete(a.loops, name)
	return nil, nil
}

func (a *application) next(within context.Context, name string) (pulsar.Message, error) {
	message, err := a.consumers[name].Receive(within)
	if err != nil {
		return nil, err
	}
	a.write("received", map[string]any{
		"consumer":   name,
		"producer":   strings.SplitN(string(message.Payload()), ":", 2)[0],
		"n":          numberOf(message),
		"message_id": idText(message.ID()),
		"redelivery": message.RedeliveryCount(),
	})
	return message, nil
}

func numberOf(message pulsar.Message) int {
	number, _ := strconv.Atoi(strings.SplitN(string(message.Payload()), ":", 3)[1])
	return number
}

func idText(id pulsar.MessageID) string {
	return fmt.Sprintf("%d:%d:%d:%d", id.LedgerID(), id.EntryID(), id.PartitionIdx(), id.BatchIdx())
}

func (a *application) handle(name string, message pulsar.Message, step command) {
	rejected := step.text("ack", "each") == "nack"
	for _, number := range step.list("nacks") {
		rejected = rejected || int(number.(float64)) == numberOf(message)
	}
	if rejected {
		a.reject(name, message)
	} else if step.text("ack", "each") == "each" {
		a.acknowledge(name, message, false)
	} else {
		a.held[name] = append(a.held[name], message)
	}
}

func (a *application) reject(name string, message pulsar.Message) {
	a.consumers[name].Nack(message)
	a.write("nacked", map[string]any{"consumer": name, "n": numberOf(message)})
}

func (a *application) acknowledge(name string, message pulsar.Message, cumulative bool) {
	acknowledge := a.consumers[name].Ack
	if cumulative {
		acknowledge = a.consumers[name].AckCumulative
	}
	if err := acknowledge(message); err != nil {
		a.write("ack_failed", map[string]any{"consumer": name, "n": numberOf(message), "error": err.Error()})
	} else {
		a.write("acked", map[string]any{"consumer": name, "n": numberOf(message), "cumulative": cumulative})
	}
}

// take removes the first count held messages, or all.
func (a *application) take(step command) []pulsar.Message {
	all := a.held[step.text("consumer", "")]
	count := min(step.number("count", len(all)), len(all))
	a.held[step.text("consumer", "")] = all[count:]
	return all[:count]
}

func (a *application) ack(step command) (any, error) {
	taken := a.take(step)
	chosen := taken
	if step.is("cumulative") {
		chosen = taken[len(taken)-1:]
	}
	for _, message := range chosen {
		a.acknowledge(step.text("consumer", ""), message, step.is("cumulative"))
	}
	return len(taken), nil
}

func (a *application) nack(step command) (any, error) {
	taken := a.take(step)
	for _, message := range taken {
		a.reject(step.text("consumer", ""), message)
	}
	return len(taken), nil
}

func (a *application) seek(step command) (any, error) {
	position := pulsar.LatestMessageID()
	if step.text("to", "") == "earliest" {
		position = pulsar.EarliestMessageID()
	}
	err := a.consumers[step.text("consumer", "")].Seek(position)
	a.write("seek", map[string]any{"consumer": step.text("consumer", ""), "to": step.text("to", "")})
	return nil, err
}

func (a *application) unsubscribe(step command) (any, error) {
	name := step.text("consumer", "")
	err := a.consumers[name].Unsubscribe()
	delete(a.consumers, name)
	a.write("unsubscribed", map[string]any{"consumer": name})
	return nil, err
}

func (a *application) closeConsumer(step command) (any, error) {
	name := step.text("consumer", "")
	if _, ok := a.loops[name]; ok {
		_, _ = a.stop(step)
	}
	a.consumers[name].Close()
	delete(a.consumers, name)
	a.write("closed", map[string]any{"consumer": name})
	return nil, nil
}

// read returns the number of messages that a reader read from the start of the topic.
func (a *application) read(step command) (any, error) {
	name := step.text("reader", "")
	if _, ok := a.readers[name]; !ok {
		reader, err := a.client.CreateReader(pulsar.ReaderOptions{
			Topic:             step.text("topic", ""),
			Name:              name,
			StartMessageID:    pulsar.EarliestMessageID(),
			ReceiverQueueSize: step.number("queue", 1000),
			ReadCompacted:     step.is("compacted"),
		})
		if err != nil {
			return nil, err
		}
		a.readers[name] = reader
	}
	got := 0
	for got < step.number("count", 0) && a.readers[name].HasNext() {
		if _, err := a.readers[name].Next(context.Background()); err != nil {
			return nil, err
		}
		got++
	}
	return got, nil
}

// exit acknowledges the held messages of a consumer; the process ends without closing the client.
func (a *application) exit(step command) (any, error) {
	return a.ack(step)
}

// close closes the client with its producers and consumers.
func (a *application) close(command) (any, error) {
	for _, one := range a.loops {
		one.stop()
	}
	a.client.Close()
	return nil, nil
}
