// The protocol's own TypeScript client against `writ acp`; each line of stdout is held against the protocol's schema.
//
//   node acp_client.mjs WRIT SCRIPT DATA
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { Readable, Transform, Writable } from 'node:stream';

const require = createRequire(`${process.env.CLIENTS}/package.json`);
const acp = await import(require.resolve('@agentclientprotocol/sdk'));
const Ajv = require('ajv/dist/2020').default;
const { methods } = acp;

const schema = JSON.parse(readFileSync(require.resolve('@agentclientprotocol/sdk/schema/v1/schema.json')));
const ajv = new Ajv({ strict: false, validateFormats: false });
ajv.addSchema(schema, 'acp');
const RESULTS = {
  'initialize': 'InitializeResponse',
  'session/new': 'NewSessionResponse',
  'session/load': 'LoadSessionResponse',
  'session/resume': 'ResumeSessionResponse',
  'session/list': 'ListSessionsResponse',
  'session/close': 'CloseSessionResponse',
  'session/delete': 'DeleteSessionResponse',
  'session/prompt': 'PromptResponse',
};
const PARAMS = { 'session/update': 'SessionNotification', 'session/request_permission': 'RequestPermissionRequest' };
let lines = 0;

function fits(value, type, line) {
  const validate = ajv.getSchema(`acp#/$defs/${type}`);
  assert(validate(value), `${type}: ${ajv.errorsText(validate.errors)}: ${line}`);
}

function hold(line, asked) {
  const message = JSON.parse(line);
  assert.equal(message.jsonrpc, '2.0', line);
  const whole = ajv.getSchema('acp');
  assert(whole(message), `${ajv.errorsText(whole.errors)}: ${line}`);
  if (message.method) fits(message.params, PARAMS[message.method], line);
  else if (message.error) fits(message.error, 'Error', line);
  else fits(message.result, RESULTS[asked.get(message.id)], line);
  lines += 1;
}

/** Splits into lines and hands each over; the bytes pass on. */
function tap(each) {
  let rest = '';
  return new Transform({
    transform(chunk, _, done) {
      rest += chunk;
      const all = rest.split('\n');
      rest = all.pop();
      try {
        all.forEach(each);
        done(null, chunk);
      } catch (error) {
        console.error(error);
        process.exit(1);
      }
    },
    flush(done) {
      assert.equal(rest, '', 'what is on stdout ends with a line');
      done();
    },
  });
}

const [writ, script, data] = process.argv.slice(2);

/** Starts an agent, greets it, and does something with it; `end` says how it ends. */
async function agent(work, { permit = 'allow_once', end = 'leave' } = {}) {
  const child = spawn(writ, ['acp', '--data', data, '--script', script], { stdio: ['pipe', 'pipe', 'inherit'] });
  const exited = new Promise((resolve) => child.on('exit', (code, signal) => resolve(signal ?? code)));
  const asked = new Map();
  const stdin = tap((line) => {
    const message = JSON.parse(line);
    if (message.method && message.id !== undefined) asked.set(message.id, message.method);
  });
  stdin.pipe(child.stdin);
  child.stdin.on('error', () => {});
  const stdout = child.stdout.pipe(tap((line) => hold(line, asked)));
  const seen = [];
  const questions = [];
  const waiters = [];
  const client = acp
    .client({ name: 'writ-tests' })
    .onNotification(methods.client.session.update, ({ params }) => {
      seen.push(params);
      waiters.splice(0).forEach((look) => look());
    })
    .onRequest(methods.client.session.requestPermission, ({ params }) => {
      questions.push(params);
      return { outcome: { outcome: 'selected', optionId: permit } };
    });
  const until = async (fits) => {
    while (!seen.some(fits)) await new Promise((resolve) => waiters.push(resolve));
  };
  const stream = acp.ndJsonStream(Writable.toWeb(stdin), Readable.toWeb(stdout));
  const connection = client.connect(stream);
  const ask = (method, params) => connection.agent.request(method, params);
  const greeted = await ask(methods.agent.initialize, { protocolVersion: acp.PROTOCOL_VERSION ?? 1, clientCapabilities: {} });
  assert.equal(greeted.protocolVersion, 1);
  assert.equal(greeted.agentCapabilities.loadSession, true);
  const notify = (method, params) => connection.agent.notify(method, params);
  const given = await work({ ask, notify, seen, questions, until });
  if (end === 'kill') child.kill('SIGKILL');
  else stdin.end();
  assert.equal(await exited, end === 'kill' ? 'SIGKILL' : 0);
  return given;
}

const text = (text) => [{ type: 'text', text }];
const place = { cwd: '/work', mcpServers: [] };
const said = (seen, kind) => seen.filter(({ update }) => update.sessionUpdate === kind).map(({ update }) => update);
const words = (seen) => said(seen, 'agent_message_chunk').map((update) => update.content.text).join('');

const session = await agent(async ({ ask, notify, seen, questions, until }) => {
  const { sessionId } = await ask(methods.agent.session.new, place);
  const prompt = (words) => ask(methods.agent.session.prompt, { sessionId, prompt: text(words) });

  assert.equal((await prompt('hi')).stopReason, 'end_turn');
  assert.equal(words(seen), 'Hello there, world.');

  seen.length = 0;
  assert.equal((await prompt('look')).stopReason, 'end_turn');
  assert.equal(said(seen, 'tool_call')[0].status, 'pending');
  const statuses = said(seen, 'tool_call_update').map((update) => update.status);
  assert.deepEqual(statuses, ['in_progress', 'completed']);

  seen.length = 0;
  assert.equal((await prompt('send')).stopReason, 'end_turn');
  assert.equal(questions.length, 1);
  assert.equal(questions[0].toolCall.toolCallId, said(seen, 'tool_call')[0].toolCallId);
  assert.equal(said(seen, 'tool_call_update').at(-1).status, 'completed');

  seen.length = 0;
  const waiting = prompt('wait');
  await until(({ update }) => update.status === 'in_progress');
  await notify(methods.agent.session.cancel, { sessionId });
  assert.equal((await waiting).stopReason, 'cancelled');

  await assert.rejects(ask(methods.agent.session.prompt, { sessionId: 'helper/none', prompt: text('hi') }), { code: -32002 });
  await assert.rejects(ask('session/nonsense', {}), { code: -32601 });
  await assert.rejects(ask(methods.agent.session.new, { ...place, cwd: 'work' }), { code: -32602 });
  return sessionId;
});

// A second client: what is denied is not done, and the turn goes on. Then it is killed in the middle of a call.
await agent(
  async ({ ask, seen, questions, until }) => {
    await ask(methods.agent.session.load, { sessionId: session, ...place });
    seen.length = 0;
    const prompt = (words) => ask(methods.agent.session.prompt, { sessionId: session, prompt: text(words) });
    assert.equal((await prompt('send')).stopReason, 'end_turn');
    assert.equal(questions.length, 1);
    assert.equal(said(seen, 'tool_call_update').at(-1).status, 'failed');
    seen.length = 0;
    prompt('wait').catch(() => {});
    await until(({ update }) => update.status === 'in_progress');
  },
  { permit: 'reject_once', end: 'kill' },
);

await agent(async ({ ask, seen }) => {
  const load = async () => {
    seen.length = 0;
    await ask(methods.agent.session.load, { sessionId: session, ...place });
    return seen.slice();
  };
  let told = await load();
  // What was interrupted is brought to its end first.
  const settled = (told) => words(told.slice(told.findLastIndex(({ update }) => update.sessionUpdate === 'user_message_chunk')));
  while (!settled(told).endsWith('world.')) told = await load();
  told = await load();
  assert.deepEqual(said(told, 'user_message_chunk').map((u) => u.content.text), ['hi', 'look', 'send', 'wait', 'send', 'wait']);
  const interrupted = said(told, 'tool_call_update').filter((update) => update._meta?.['writ/outcome'] === 'interrupted');
  assert.equal(interrupted.at(-1).status, 'failed');
  assert.deepEqual(await load(), told);
  seen.length = 0;
  await ask(methods.agent.session.resume, { sessionId: session, cwd: '/work' });
  assert.equal(seen.length, 0);
  const listed = await ask(methods.agent.session.list, {});
  assert.deepEqual(listed.sessions, [{ sessionId: session, cwd: '/work' }]);
  assert.equal((await ask(methods.agent.session.prompt, { sessionId: session, prompt: text('hi') })).stopReason, 'end_turn');
  await ask(methods.agent.session.close, { sessionId: session });
  for (let i = 0; i < 2; i += 1) await ask(methods.agent.session.delete, { sessionId: session });
  assert.deepEqual((await ask(methods.agent.session.list, {})).sessions, []);
  await assert.rejects(ask(methods.agent.session.load, { sessionId: session, ...place }), { code: -32002 });
});
console.log(`acp_client.mjs: ${lines} lines fit the schema`);
