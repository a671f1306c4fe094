// Scenarios of pulsar-flex. The conversation on stdin and stdout, and what a scenario does: see README.md.
//
// The library looks for messages once a second, has no keys, schemas, compression, chunks or readers, and its
// `unsubscribe` closes a consumer: the subscription stays.

'use strict';

const readline = require('node:readline');
const { Consumer, Producer, logLevel } = require('pulsar-flex');

const WAIT_MS = 25_000; // after a lookup in vain the library waits ten seconds
const QUIET_MS = 200;
const RETRY_MS = 100;

const quiet = { logLevel: logLevel.NOTHING };
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);

async function please(what) {
  say({ please: what });
  await lines.next();
}

const payload = (n) => `message-${n}`;

class Play {
  constructor(args) {
    this.servers = [args.url.replace('pulsar://', '')];
    this.topic = `persistent://public/default/${args.topic ?? 'orders'}`;
    this.type = (args.type ?? 'Exclusive').toUpperCase();
    this.batching = (args.batching ?? 'none') !== 'none';
    this.count = args.count ?? 20;
  }

  // -- scenarios

  async exchange() {
    const consumer = await this.consumer(this.type);
    const producer = await this.producer();
    await please('look');
    const messages = Array.from({ length: this.count }, (_, n) => ({ payload: payload(n), properties: { n: `${n}` } }));
    if (this.batching) await producer.sendBatch({ messages });
    else for (const message of messages) await producer.sendMessage(message);
    const received = [];
    await this.take(consumer, this.count, async ({ message, properties, ack }) => {
      received.push({ data: `${message}`, properties });
      if (!this.batching || received.length === this.count) await ack(); // an ack is for the entry, all of the batch
    });
    await consumer.unsubscribe();
    await producer.close();
    return { received };
  }

  async failover() {
    const [first, second] = [await this.consumer('FAILOVER', 'c1'), await this.consumer('FAILOVER', 'c2')];
    const producer = await this.producer();
    await this.send(producer, 0, 5);
    const meanwhile = [];
    let hear = (text) => meanwhile.push(text);
    await second.run({ autoAck: true, onMessage: async ({ message }) => hear(`${message}`) });
    const c1 = await this.takeAll(first, 5);
    await first.unsubscribe();
    const c2 = new Promise((resolve) => {
      const received = [];
      hear = (text) => received.push(text) === 5 && resolve(received);
    });
    await this.send(producer, 5, 10);
    const saw = { c1, 'c2 meanwhile': [...meanwhile], c2: await limited(c2) };
    await second.unsubscribe();
    await producer.close();
    return saw;
  }

  async shared() {
    const consumers = { c1: await this.consumer('SHARED', 'c1'), c2: await this.consumer('SHARED', 'c2') };
    const producer = await this.producer();
    const saw = { c1: [], c2: [] };
    const all = new Promise((resolve) => {
      for (const [name, consumer] of Object.entries(consumers)) {
        const onMessage = async ({ message, ack }) => {
          await ack();
          saw[name].push(`${message}`);
          if (saw.c1.length + saw.c2.length === 20) resolve();
        };
        consumer.run({ autoAck: false, onMessage });
      }
    });
    await this.send(producer, 0, 20);
    await limited(all);
    for (const consumer of Object.values(consumers)) await consumer.unsubscribe();
    await producer.close();
    return saw;
  }

  async nack() {
    const consumer = await this.consumer('SHARED');
    const producer = await this.producer();
    await this.send(producer, 0, 3);
    const received = [];
    await this.take(consumer, 4, async ({ message, redeliveryCount, ack }) => {
      const refuse = `${message}` === 'message-1' && redeliveryCount === 0;
      await ack({ type: refuse ? Consumer.ACK_TYPES.NEGATIVE : Consumer.ACK_TYPES.INDIVIDUAL });
      received.push([`${message}`, redeliveryCount]);
    });
    await consumer.unsubscribe();
    await producer.close();
    return { received };
  }

  async habits() {
    const consumer = await this.consumer('SHARED');
    const producer = await this.producer();
    await this.send(producer, 0, 1200);
    await producer.sendBatch({ messages: Array.from({ length: 10 }, (_, n) => ({ payload: payload(n), properties: {} })) });
    let n = 0;
    await this.take(consumer, 1210, async ({ ack }) => {
      n += 1;
      if (n <= 1204) await ack();
      else if (n <= 1207) await ack({ type: Consumer.ACK_TYPES.NEGATIVE });
    });
    await please('idle');
    await consumer.unsubscribe();
    await producer.close();
    return {};
  }

  async cumulative() {
    const producer = await this.producer();
    const consumer = await this.consumer('EXCLUSIVE');
    await this.send(producer, 0, 10);
    let seen = 0;
    await this.take(consumer, 10, async ({ ack }) => {
      seen += 1;
      if (seen === 6) await ack({ type: Consumer.ACK_TYPES.CUMULATIVE });
    });
    await consumer.unsubscribe();
    const next = await this.consumer('EXCLUSIVE');
    const again = await this.takeAll(next, 4);
    await next.unsubscribe();
    await producer.close();
    return { again };
  }

  async receipts() {
    const consumer = await this.consumer('SHARED');
    const producer = await this.producer();
    await this.send(producer, 0, 3);
    const acked = (await this.takeAll(consumer, 3)).length;
    await please('look');
    await consumer.unsubscribe();
    await producer.close();
    return { acked };
  }

  async access_modes() {
    const holder = await this.producer(Producer.ACCESS_MODES.EXCLUSIVE);
    const refused = await this.producer(Producer.ACCESS_MODES.EXCLUSIVE).then(
      () => '',
      (error) => error.name,
    );
    await holder.sendMessage({ payload: 'holder' });
    await holder.close();
    const heir = await this.producer(Producer.ACCESS_MODES.EXCLUSIVE);
    await heir.sendMessage({ payload: 'heir' });
    await heir.close();
    return { refused, early: false };
  }

  async reconnect() {
    const consumer = await this.consumer(this.type);
    const producer = await this.producer();
    const received = [];
    const heard = new Promise((resolve) => {
      const onMessage = async ({ message, ack }) => {
        received.push(`${message}`);
        await ack();
        if (`${message}` === 'message-19') resolve();
      };
      consumer.run({ autoAck: false, onMessage });
    });
    await this.send(producer, 0, 10);
    await please('interrupt');
    await sleep(QUIET_MS); // what the library writes to a socket that is just ending it neither repeats nor reports
    await this.send(producer, 10, 20);
    await limited(heard);
    await consumer.unsubscribe();
    await producer.close();
    return { received };
  }

  // -- words of the scenarios

  async consumer(type, consumerName = 'c1') {
    const consumer = new Consumer({
      topic: this.topic,
      discoveryServers: this.servers,
      subscription: 'work',
      subType: Consumer.SUB_TYPES[type],
      consumerName,
      reconnectInterval: RETRY_MS,
      ...quiet,
    });
    await consumer.subscribe();
    return consumer;
  }

  async producer(producerAccessMode = Producer.ACCESS_MODES.SHARED) {
    const producer = new Producer({ topic: this.topic, discoveryServers: this.servers, producerAccessMode, ...quiet });
    await producer.create();
    return producer;
  }

  async send(producer, first, end) {
    for (let n = first; n < end; n += 1) await producer.sendMessage({ payload: payload(n), properties: {} });
  }

  take(consumer, count, deal) {
    let seen = 0;
    return limited(
      new Promise((resolve, reject) => {
        const onMessage = async (message) => {
          await deal(message).catch(reject);
          seen += 1;
          if (seen === count) resolve();
        };
        consumer.run({ autoAck: false, onMessage }).catch(reject);
      }),
    );
  }

  async takeAll(consumer, count) {
    const received = [];
    await this.take(consumer, count, async ({ message, ack }) => {
      await ack();
      received.push(`${message}`);
    });
    return received;
  }
}

function limited(promise) {
  const late = new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`not reached within ${WAIT_MS} ms`)), WAIT_MS).unref();
  });
  return Promise.race([promise, late]);
}

const WORDS = ['constructor', 'consumer', 'producer', 'send', 'take', 'takeAll'];
const SCENARIOS = Object.getOwnPropertyNames(Play.prototype).filter((name) => !WORDS.includes(name));

async function run(line) {
  const args = JSON.parse(line);
  const { scenario } = args;
  if (scenario === 'list') return { scenario, saw: SCENARIOS.sort() };
  try {
    return { scenario, saw: await new Play(args)[scenario]() };
  } catch (error) {
    return { scenario, failed: `${error?.stack ?? error}` };
  }
}

async function main(orders) {
  for (const order of orders) say(await run(order));
  for (;;) {
    if (orders.length) break;
    const { value, done } = await lines.next();
    if (done) break;
    say(await run(value));
  }
  process.exit(0);
}

main(process.argv.slice(2));
