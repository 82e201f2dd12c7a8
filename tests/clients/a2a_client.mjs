// Plays A2A's JavaScript client against a server, by both bindings.
//
//   node a2a_client.mjs URL TOKEN
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Role, TaskState } from "@a2a-js/sdk";
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from "@a2a-js/sdk/client";

const [url, token] = process.argv.slice(2);
const fetchImpl = (input, init = {}) =>
  fetch(input, { ...init, headers: { ...init.headers, Authorization: `Bearer ${token}` } });

const toSend = (text, configuration) => ({
  tenant: "",
  message: {
    messageId: randomUUID(), contextId: "", taskId: "", role: Role.ROLE_USER,
    parts: [{ content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "" }],
    metadata: undefined, extensions: [], referenceTaskIds: [],
  },
  configuration, metadata: undefined,
});

const collect = async (stream) => {
  const told = [];
  for await (const item of stream) told.push(item.payload ?? item);
  return told;
};

const play = async (transport) => {
  const factory = new ClientFactory({ transports: [transport] });
  const client = await factory.createFromUrl(url);
  const task = await client.sendMessage(toSend("Say something."));
  assert.equal(task.status.state, TaskState.TASK_STATE_COMPLETED);
  assert.ok(task.artifacts[0].parts[0].content.value);

  const told = await collect(client.sendMessageStream(toSend("Say something more.")));
  assert.equal(told[0].$case, "task");
  const last = told.at(-1);
  assert.equal(last.$case, "statusUpdate");
  assert.equal(last.value.status.state, TaskState.TASK_STATE_COMPLETED);
  assert.ok(told.some((item) => item.$case === "artifactUpdate" && item.value.lastChunk));

  const got = await client.getTask({ tenant: "", id: task.id, historyLength: undefined });
  assert.deepEqual(got, task);
  const page = { tenant: "", contextId: "", status: 0, pageSize: 1, pageToken: "" };
  const first = await client.listTasks(page);
  assert.equal(first.tasks[0].id, told[0].value.id);
  const second = await client.listTasks({ ...page, pageToken: first.nextPageToken });
  assert.equal(second.tasks[0].id, task.id);

  const of = (id) => ({ tenant: "", id, metadata: undefined });
  await assert.rejects(client.cancelTask(of(task.id)), /can't be canceled/);
  await assert.rejects(client.getTask(of("00-00000000000000000000000000")), /no such task/);
  await assert.rejects(collect(client.resubscribeTask(of(task.id))), /has its outcome/);

  // One that works is followed, and cancelled; whatever comes first wins.
  const configuration = { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately: true };
  const open = await client.sendMessage(toSend("And more.", configuration));
  const followed = collect(client.resubscribeTask(of(open.id))).catch((error) => {
    assert.match(error.message, /has its outcome/);
    return [];
  });
  await client.cancelTask(of(open.id)).catch((error) => assert.match(error.message, /can't be canceled/));
  const items = await followed;
  const end = await client.getTask(of(open.id));
  assert.ok([TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_CANCELED].includes(end.status.state));
  console.log(`@a2a-js/sdk by ${transport.protocolName}: ${items.length} items of a task that ended ${end.status.state}`);
};

for (const transport of [new JsonRpcTransportFactory({ fetchImpl }), new RestTransportFactory({ fetchImpl })]) {
  await play(transport);
}
