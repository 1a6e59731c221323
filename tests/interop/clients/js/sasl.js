// Records of a kafkajs client that authenticates: MECHANISM, SASL_USER and SASL_PASSWORD say how. It takes longer than several sessions.
"use strict";

const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");
const { test } = require("node:test");
const { setTimeout: pause } = require("node:timers/promises");
const { Kafka, logLevel } = require("kafkajs");

const { BOOTSTRAP, MECHANISM, SASL_USER, SASL_PASSWORD } = process.env;
const sasl = { mechanism: MECHANISM.toLowerCase(), username: SASL_USER, password: SASL_PASSWORD };
const kafka = new Kafka({ clientId: "sasl", brokers: [BOOTSTRAP], sasl, logLevel: logLevel.ERROR, reauthenticationThreshold: 500 });
const COUNT = 60;

test("records over several sessions", async () => {
  const topic = `kafkajs-${randomUUID().slice(0, 8)}`;
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: 1 }], waitForLeaders: true });
  await admin.disconnect();
  const producer = kafka.producer();
  await producer.connect();
  for (let i = 0; i < COUNT; i += 1) {
    await producer.send({ topic, messages: [{ value: `v${i}` }] });
    await pause(100);
  }
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: topic });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  const seen = [];
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
    consumer.run({
      eachMessage: async ({ message }) => {
        seen.push(message.value.toString());
        if (seen.length === COUNT) resolve();
      },
    });
  });
  await consumer.disconnect();
  assert.deepEqual(seen, Array.from({ length: COUNT }, (_, i) => `v${i}`));
});
