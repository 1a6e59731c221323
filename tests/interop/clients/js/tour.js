// The whole tour with kafkajs; the broker's address comes in BOOTSTRAP. Run by node's own test runner.
"use strict";

const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");
const { test } = require("node:test");
const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require("kafkajs");

const kafka = new Kafka({ clientId: "tour", brokers: [process.env.BOOTSTRAP], logLevel: logLevel.ERROR });
const fresh = (name) => `${name}-${randomUUID().slice(0, 8)}`;

async function withAdmin(work) {
  const admin = kafka.admin();
  await admin.connect();
  try {
    await work(admin);
  } finally {
    await admin.disconnect();
  }
}

async function created(admin, numPartitions) {
  const topic = fresh("kafkajs");
  assert.equal(await admin.createTopics({ topics: [{ topic, numPartitions }], waitForLeaders: true }), true);
  return topic;
}

async function produced(topic, count, { idempotent = false, compression = CompressionTypes.None, acks = -1 } = {}) {
  const producer = kafka.producer({ idempotent, maxInFlightRequests: idempotent ? 1 : undefined });
  await producer.connect();
  const messages = Array.from({ length: count }, (_, i) => ({ key: `k${i}`, value: `v${i}`, headers: { number: `${i}` } }));
  await producer.send({ topic, messages, compression, acks });
  await producer.disconnect();
}

// A member that reads until `enough` says so; `seen` grows as messages arrive.
async function member(groupId, topic, seen, options = {}) {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 30000, heartbeatInterval: 200, rebalanceTimeout: 30000, maxWaitTimeInMs: 200, ...options });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  const joined = new Promise((resolve) => consumer.on(consumer.events.GROUP_JOIN, resolve));
  await consumer.run({ partitionsConsumedConcurrently: 2, eachMessage: async ({ partition, message }) => seen.push({ partition, message }) });
  await joined;
  return consumer;
}

async function eventually(what, condition) {
  for (const end = Date.now() + 60000; Date.now() < end; ) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  assert.fail(`not in time: ${what}`);
}

test("topics and settings", () =>
  withAdmin(async (admin) => {
    const topic = await created(admin, 2);
    assert.equal(await admin.createTopics({ topics: [{ topic }] }), false);
    await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] });
    const metadata = await admin.fetchTopicMetadata({ topics: [topic] });
    assert.equal(metadata.topics[0].partitions.length, 4);
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic };
    await admin.alterConfigs({ resources: [{ ...resource, configEntries: [{ name: "retention.ms", value: "3600000" }] }] });
    const { resources } = await admin.describeConfigs({ resources: [{ ...resource, configNames: ["retention.ms"] }] });
    assert.equal(resources[0].configEntries[0].configValue, "3600000");
    const cluster = await admin.describeCluster();
    assert.equal(cluster.brokers.length, 1);
    assert.equal(cluster.controller, cluster.brokers[0].nodeId);
    assert.ok((await admin.listTopics()).includes(topic));
    await admin.deleteTopics({ topics: [topic] });
    await eventually("the topic is gone", async () => !(await admin.listTopics()).includes(topic));
  }));

test("records: plain, gzip, idempotent, with every kind of acknowledgement", () =>
  withAdmin(async (admin) => {
    const topic = await created(admin, 1);
    await produced(topic, 20);
    await produced(topic, 20, { compression: CompressionTypes.GZIP });
    await produced(topic, 20, { idempotent: true });
    await produced(topic, 20, { acks: 1 });
    await produced(topic, 20, { acks: 0 });
    await eventually("all are written", async () => (await admin.fetchTopicOffsets(topic))[0].high === "100");
    const seen = [];
    const consumer = await member(fresh("group"), topic, seen);
    await eventually("all are read", () => seen.length === 100);
    await consumer.disconnect();
    seen.forEach(({ message }, i) => {
      assert.equal(message.offset, `${i}`);
      assert.equal(message.value.toString(), `v${i % 20}`);
      assert.equal(message.headers.number.toString(), `${i % 20}`);
    });
  }));

test("a group of two shares the partitions and keeps its offsets", () =>
  withAdmin(async (admin) => {
    const topic = await created(admin, 4);
    const groupId = fresh("group");
    await produced(topic, 200);
    const seen = [];
    const first = await member(groupId, topic, seen);
    await eventually("one member reads all", () => seen.length === 200);
    const second = await member(groupId, topic, seen);
    await eventually("two members share", async () => {
      const group = (await admin.describeGroups([groupId])).groups[0];
      return group.state === "Stable" && group.members.length === 2;
    });
    await produced(topic, 100);
    const different = () => new Set(seen.map(({ partition, message }) => `${partition}/${message.offset}`)).size;
    await eventually("two members read the rest", () => different() === 300);
    await first.disconnect();
    await second.disconnect();
    const [{ partitions }] = await admin.fetchOffsets({ groupId, topics: [topic] });
    assert.equal(partitions.reduce((sum, { offset }) => sum + Number(offset), 0), 300);
    await admin.resetOffsets({ groupId, topic, earliest: true });
    assert.ok((await admin.listGroups()).groups.some((group) => group.groupId === groupId));
    await admin.deleteGroups([groupId]);
  }));

test("offsets by time, seek and deletion of records", () =>
  withAdmin(async (admin) => {
    const topic = await created(admin, 1);
    const producer = kafka.producer();
    await producer.connect();
    for (let i = 0; i < 10; i++) {
      await producer.send({ topic, messages: [{ value: `${i}`, timestamp: `${1700000000000 + i * 1000}` }] });
    }
    await producer.disconnect();
    const [{ offset }] = await admin.fetchTopicOffsetsByTimestamp(topic, 1700000003500);
    assert.equal(offset, "4");
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "6" }] });
    assert.equal((await admin.fetchTopicOffsets(topic))[0].low, "6");
    const seen = [];
    const consumer = await member(fresh("group"), topic, seen);
    await eventually("what is left is read", () => seen.length === 4);
    consumer.seek({ topic, partition: 0, offset: "8" });
    await eventually("the seek took effect", () => seen.length === 6 && seen[4].message.offset === "8");
    await consumer.disconnect();
  }));

test("a topic comes into being when it is written to", async () => {
  await produced(fresh("auto"), 1);
});
