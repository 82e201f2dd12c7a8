// Plays MCP's TypeScript client against a server: as it comes, which is the older era, and in the modern one.
//
//   node mcp_client.mjs URL TOKEN
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

const require = createRequire(`${process.env.CLIENTS}/package.json`);
const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');

const [url, token] = process.argv.slice(2);
const HELLO = 'Hello there, world.';

async function open(options) {
  const client = new Client({ name: 'clients', version: '1' }, options);
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  return client;
}

async function both(options, version) {
  const client = await open(options);
  assert.equal(client.getNegotiatedProtocolVersion(), version);
  const tools = (await client.listTools()).tools.map((tool) => tool.name);
  assert.deepEqual(tools, ['helper', 'session_fork', 'session_read', 'submission_interrupt']);
  const progress = [];
  const call = { name: 'helper', arguments: { message: 'hi' } };
  const result = await client.callTool(call, { onprogress: (step) => progress.push(step.progress) });
  assert.equal(result.content[0].text, HELLO);
  assert(progress.length > 0 && progress.every((n, i) => i === 0 || progress[i - 1] < n), `${progress}`);
  const { session_id } = result.structuredContent;
  const uri = `session://${session_id}`;
  assert((await client.listResources()).resources.some((resource) => resource.uri === uri));
  assert((await client.readResource({ uri })).contents[0].text.includes(HELLO));
  const fork = await client.callTool({ name: 'session_fork', arguments: { session_id } });
  assert.notEqual(fork.structuredContent.session_id, session_id);
  assert.equal((await client.callTool({ name: 'helper', arguments: {} })).isError, true);
  await assert.rejects(client.callTool({ name: 'nobody', arguments: {} }), { code: -32602 });
  await client.close();
}

async function modern(options) {
  const client = await open({ ...options, capabilities: { elicitation: { form: {} } } });
  const asked = [];
  client.setRequestHandler('elicitation/create', async (request) => {
    asked.push(request.params.message);
    return { action: 'accept', content: { confirm: false, reason: 'Not now.' } };
  });
  const denied = await client.callTool({ name: 'helper', arguments: { message: 'send' } });
  assert.equal(asked.length, 1);
  const { session_id } = denied.structuredContent;
  const uri = `session://${session_id}`;
  assert((await client.readResource({ uri })).contents[0].text.includes('Not now.'));
  const updated = new Promise((done) => client.setNotificationHandler('notifications/resources/updated', done));
  const subscription = await client.listen({ resourceSubscriptions: [uri] });
  assert.deepEqual(subscription.honoredFilter.resourceSubscriptions, [uri]);
  await client.callTool({ name: 'helper', arguments: { message: 'hi', session_id } });
  assert.equal((await updated).params.uri, uri);
  await subscription.close();
  // A call that is given up ends its work.
  const leave = new AbortController();
  const call = { name: 'helper', arguments: { message: 'wait', session_id } };
  const given = client.callTool(call, { signal: leave.signal, onprogress: () => leave.abort() });
  await assert.rejects(given);
  for (;;) {
    const text = (await client.readResource({ uri }, { cacheMode: 'refresh' })).contents[0].text;
    if (text.includes('"interrupted"')) break;
    await new Promise((next) => setTimeout(next, 50));
  }
  await client.close();
}

await both({}, '2025-11-25');
const options = { versionNegotiation: { mode: { pin: '2026-07-28' } } };
await both(options, '2026-07-28');
await both({ versionNegotiation: { mode: 'auto' } }, '2026-07-28');
await modern(options);
console.log('mcp_client.mjs: done');
