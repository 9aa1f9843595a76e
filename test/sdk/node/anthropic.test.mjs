import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import Anthropic from '@anthropic-ai/sdk';

import { drain, longText, named, narrowKey, recorder, stamps, startStack, until, wideKey } from './lib/stack.mjs';

let stack;
let client;
const messages = [{ role: 'user', content: 'Say something about canals.' }];

before(async () => {
  stack = await startStack();
  client = anthropic();
});
after(() => stack?.stop());

function anthropic(options = {}) {
  return new Anthropic({ baseURL: stack.gateway, apiKey: wideKey, maxRetries: 0, timeout: 30_000, ...options });
}

const ask = (model, more = {}) => ({ model, max_tokens: 4096, messages, ...more });
const textOf = (events) => events.filter((e) => e.delta?.type === 'text_delta').map((e) => e.delta.text).join('');

test('messages.create', async () => {
  const { id, options } = named();
  const answer = await client.messages.create(ask('sonnet'), options);
  assert.equal(answer.content[0].type, 'text');
  assert.ok(answer.content[0].text.length > 0);
  assert.equal(answer.stop_reason, 'end_turn');
  assert.equal(answer.usage.output_tokens, 16);
  const seen = await stack.seenOnce(id);
  assert.equal(seen.path, '/v1/messages');
  assert.equal(seen.model, 'claude-sonnet-5', 'the alias is resolved');
  assert.deepEqual(seen.header['Anthropic-Version'], ['2026-10-21'], 'the client’s version travels on');
  assert.ok(!JSON.stringify(seen.header).includes(wideKey), 'the client’s key stays here');
});

test('the client’s anthropic-beta travels on', async () => {
  const { id, options } = named({ headers: { 'anthropic-beta': 'context-1m-2025-08-07' } });
  await client.messages.create(ask('sonnet'), options);
  assert.deepEqual((await stack.seenOnce(id)).header['Anthropic-Beta'], ['context-1m-2025-08-07']);
});

test('an alias changes nothing of the body but the model', async () => {
  const { id, options } = named();
  const { sent, fetch } = recorder();
  await anthropic({ fetch }).messages.create({ messages, max_tokens: 7, model: 'sonnet', metadata: { user_id: 'é\u2028' } }, options);
  const want = sent[0].body.toString().replace('"model":"sonnet"', '"model":"claude-sonnet-5"');
  assert.equal((await stack.seenOnce(id)).body.toString(), want);
});

test('request ids', async () => {
  const { id, options } = named();
  const { data, response, request_id } = await client.messages.create(ask('sonnet'), options).withResponse();
  assert.equal(response.headers.get('x-request-id'), id);
  assert.ok(request_id, 'the SDK finds a request-id');
  assert.equal(data._request_id, request_id);
});

test('request ids of what the gateway itself refuses', async () => {
  const { id, options } = named();
  const refused = await client.messages.create(ask('no-such-model'), options).then(assert.fail, (e) => e);
  assert.equal(refused.headers.get('x-request-id'), id);
  assert.equal(refused.error.request_id, id);
  assert.equal(refused.requestID, id, 'the SDK looks for it in the header request-id');
});

test('both places for the key, and both base URLs', async () => {
  const places = {
    'Authorization: Bearer': {},
    'x-api-key': { defaultHeaders: { authorization: null, 'x-api-key': wideKey } },
  };
  for (const [place, options] of Object.entries(places)) {
    for (const baseURL of [stack.gateway, `${stack.gateway}/anthropic`]) {
      const { sent, fetch } = recorder();
      await anthropic({ ...options, baseURL, fetch }).messages.create(ask('sonnet'));
      assert.equal(sent[0].headers.has('x-api-key'), place === 'x-api-key');
      assert.equal(sent[0].headers.has('authorization'), place !== 'x-api-key');
    }
  }
});

test('streaming: every token, in order, as it is made', async () => {
  const stream = await client.messages.create(ask('claude-sonnet-5+tokens=40+token-gap=10ms+stamp=1', { stream: true }));
  let firstAt;
  const events = [];
  for await (const event of stream) {
    if (event.type === 'content_block_delta') firstAt ??= Date.now();
    events.push(event);
  }
  const tokens = stamps(textOf(events));
  assert.deepEqual(tokens.map((t) => t.number), [...Array(40).keys()]);
  assert.ok(firstAt < tokens.at(-1).at, 'the first token came before the last was made');
  const order = events.map((e) => e.type).filter((t, i, all) => t !== 'ping' && t !== all[i - 1]);
  assert.deepEqual(order, ['message_start', 'content_block_start', 'content_block_delta', 'content_block_stop', 'message_delta', 'message_stop']);
  assert.equal(events.at(-2).delta.stop_reason, 'end_turn');
  assert.equal(events.at(-2).usage.output_tokens, 40);
});

test('the stream helper: finalMessage', async () => {
  const stream = client.messages.stream(ask('claude-sonnet-5+tokens=30+stamp=1'));
  let text = '';
  stream.on('text', (delta) => (text += delta));
  const message = await stream.finalMessage();
  assert.equal(message.content[0].text, text);
  assert.deepEqual(stamps(text).map((t) => t.number), [...Array(30).keys()]);
  assert.equal(message.stop_reason, 'end_turn');
  assert.equal(message.usage.output_tokens, 30);
});

// A schema whose keys are in no sorted order, with numbers that a JSON parser would write otherwise.
const oddSchema =
  '{"type":"object","required":["zone","amount"],"properties":{"zone":{"type":"string","description":"\\u00e9\\/\\ud83c\\udf0a"},' +
  '"amount":{"minimum":1.0,"type":"number","maximum":12345678901234567890,"multipleOf":1E-2},"10":{"type":"boolean"},"9":{"type":"null"}}}';

test('tools arrive as the bytes they are', async () => {
  const { id, options } = named();
  const { fetch } = recorder((body) => Buffer.from(body.toString().replace('"ODD"', oddSchema)));
  const tools = [{ name: 'open_gate', input_schema: 'ODD', description: 'Opens.' }];
  await anthropic({ fetch }).messages.create(ask('sonnet', { tools }), options);
  const body = (await stack.seenOnce(id)).body.toString();
  const want = `"tools":[{"name":"open_gate","input_schema":${oddSchema},"description":"Opens."}]`;
  assert.ok(body.includes(want), `the tools are not the same bytes in ${body}`);
});

test('streamed tool use assembles to valid JSON', async () => {
  const input_schema = { type: 'object', properties: { zone: { type: 'string' }, amount: { type: 'integer' } } };
  const tools = ['open_gate', 'close_gate'].map((name) => ({ name, input_schema }));
  const message = await client.messages.stream(ask('claude-sonnet-5+tool-calls=3', { tools })).finalMessage();
  assert.equal(message.stop_reason, 'tool_use');
  assert.equal(message.content.length, 3);
  assert.equal(new Set(message.content.map((b) => b.id)).size, 3);
  for (const block of message.content) {
    assert.equal(block.type, 'tool_use');
    assert.equal(typeof block.input.zone, 'string');
    assert.ok(Number.isInteger(block.input.amount));
  }
});

test('an abort is seen upstream within a second', async () => {
  const { id, options } = named();
  const before = (await stack.stats()).streams_cancelled;
  const stream = await client.messages.create(ask('claude-sonnet-5+tokens=2000+token-gap=10ms', { stream: true }), options);
  let events = 0;
  for await (const _ of stream) {
    if (++events === 8) break; // leaving the loop aborts the request
  }
  await until('cancelled request upstream', async () => (await stack.seenOnce(id)).outcome === 'cancelled', 1000);
  assert.equal((await stack.stats()).streams_cancelled, before + 1);
});

test('typed errors of the gateway itself', async () => {
  const cases = [
    [anthropic({ apiKey: 'sk-wrong' }), 'sonnet', Anthropic.AuthenticationError, 401, 'authentication_error'],
    [anthropic({ apiKey: narrowKey }), 'claude-sonnet-5', Anthropic.PermissionDeniedError, 403, 'permission_error'],
    [client, 'no-such-model', Anthropic.NotFoundError, 404, 'not_found_error'],
  ];
  for (const [c, model, type, status, kind] of cases) {
    for (const stream of [false, true]) {
      const { id, options } = named();
      const err = await c.messages.create(ask(model, { stream }), options).then(assert.fail, (e) => e);
      assert.ok(err instanceof type, `${model}: ${err.constructor.name} is no ${type.name}: ${err}`);
      assert.equal(err.status, status);
      assert.equal(err.type, kind);
      assert.deepEqual(await stack.seen(id), [], 'what the gateway refuses does not reach the provider');
    }
  }
});

test('typed errors of the provider', async () => {
  const cases = [
    [400, Anthropic.BadRequestError, 'invalid_request_error'],
    [429, Anthropic.RateLimitError, 'rate_limit_error'],
    [500, Anthropic.InternalServerError, 'api_error'],
    [529, Anthropic.InternalServerError, 'overloaded_error'],
  ];
  for (const [status, type, kind] of cases) {
    const err = await client.messages.create(ask(`claude-sonnet-5+status=${status}`)).then(assert.fail, (e) => e);
    assert.ok(err instanceof type, `${status}: ${err.constructor.name} is no ${type.name}: ${err}`);
    assert.equal(err.status, status);
    assert.equal(err.type, kind);
    assert.ok(err.requestID);
  }
});

test('a bad request says what is wrong', async () => {
  const err = await client.messages.create(ask('sonnet', { messages: [] })).then(assert.fail, (e) => e);
  assert.ok(err instanceof Anthropic.BadRequestError);
  assert.match(err.message, /at least one message/);
});

test('the SDK’s retries wait as long as they are told, and no call is wasted', async () => {
  const { id, options } = named({ maxRetries: 2 });
  const began = Date.now();
  const answer = await client.messages.create(ask('claude-sonnet-5+fail-first=1+error-status=429+retry-after=1200ms'), options);
  assert.equal(answer.stop_reason, 'end_turn');
  // Without a hint the SDK would have come back after half a second.
  assert.ok(Date.now() - began >= 1200, `came back after ${Date.now() - began} ms`);
  assert.deepEqual((await stack.seen(id)).map((r) => r.status), [429, 200]);
});

test('an overloaded provider is called once for each of the SDK’s tries', async () => {
  const { id, options } = named({ maxRetries: 2 });
  await assert.rejects(client.messages.create(ask('claude-sonnet-5+status=529+retry-after=10ms'), options), Anthropic.InternalServerError);
  assert.deepEqual((await stack.seen(id)).map((r) => r.status), [529, 529, 529]);
});

for (const fault of ['error-event', 'abort', 'reset', 'cut-json', 'half-json', 'no-done']) {
  test(`a stream that breaks off (${fault}) raises an error`, async () => {
    const { id, options } = named();
    const model = `claude-sonnet-5+tokens=20+token-gap=5ms+stamp=1+fault=${fault}+fault-after=3`;
    const { items, error } = await drain(await client.messages.create(ask(model, { stream: true }), options));
    assert.ok(error instanceof Anthropic.APIError, `no error after ${items.length} events, but ${error}`);
    if (fault !== 'no-done') assert.deepEqual(stamps(textOf(items)).map((t) => t.number), [0, 1, 2]);
    assert.ok(!items.some((e) => e.type === 'message_stop'));
    assert.equal((await stack.seen(id)).length, 1, 'a begun stream is not tried again');
    const helper = client.messages.stream(ask(model));
    await assert.rejects(helper.finalMessage(), Anthropic.AnthropicError, 'the helper must not take it for complete');
  });
}

for (const fault of ['html', 'empty', 'half-json', 'malformed', 'cut-json', 'short-length', 'error-body', 'reset', 'abort']) {
  test(`an answer that is none (${fault}) raises an error`, async () => {
    const { id, options } = named();
    const call = client.messages.create(ask(`claude-sonnet-5+fault=${fault}`), options);
    const err = await call.then((answer) => assert.fail(`taken for an answer: ${JSON.stringify(answer)}`), (e) => e);
    assert.ok(err instanceof Anthropic.InternalServerError, `${err.constructor.name}: ${err}`);
    assert.equal(err.headers.get('content-type'), 'application/json');
    assert.equal(err.type, 'api_error');
    assert.equal(err.error.request_id, id);
  });
}

for (const fault of ['crlf', 'cr', 'bom', 'comments', 'multi-line', 'split', 'drip', 'gzip', 'no-blank', 'giant']) {
  test(`a whole stream in an unusual form (${fault}) is whole`, async () => {
    const message = await client.messages.stream(ask(`claude-sonnet-5+tokens=20+fault=${fault}`)).finalMessage();
    assert.equal(message.stop_reason, 'end_turn');
    assert.equal(message.usage.output_tokens, 20);
    if (fault === 'giant') assert.ok(message.content[0].text.length > 500_000);
  });
}

test('countTokens', async () => {
  const { id, options } = named();
  const content = 'gate '.repeat(100);
  const answer = await client.messages.countTokens({ model: 'sonnet', messages: [{ role: 'user', content }] }, options);
  assert.ok(answer.input_tokens >= content.length / 4);
  const seen = await stack.seenOnce(id);
  assert.deepEqual([seen.path, seen.model], ['/v1/messages/count_tokens', 'claude-sonnet-5']);
});

test('models: those that the key may use', async () => {
  const ids = async (c) => (await drain(c.models.list())).items.map((m) => m.id);
  assert.deepEqual(await ids(client), ['chat', 'moderation', 'sonnet']);
  assert.deepEqual(await ids(anthropic({ apiKey: narrowKey })), ['chat', 'sonnet']);
  const model = await client.models.retrieve('sonnet');
  assert.deepEqual([model.id, model.type], ['sonnet', 'model']);
  assert.equal((await client.models.retrieve('anthropic/claude-sonnet-5')).id, 'anthropic/claude-sonnet-5');
  await assert.rejects(client.models.retrieve('no-such-model'), Anthropic.NotFoundError);
});

test('50 streams at once', async () => {
  const one = async (i) => {
    const content = [{ role: 'user', content: `stream ${i}` }];
    const stream = client.messages.stream(ask('claude-sonnet-5+tokens=40+token-gap=5ms+stamp=1', { messages: content }));
    const message = await stream.finalMessage();
    assert.deepEqual(stamps(message.content[0].text).map((t) => t.number), [...Array(40).keys()]);
    assert.equal(message.stop_reason, 'end_turn');
  };
  await Promise.all(Array.from({ length: 50 }, (_, i) => one(i)));
});

for (const stream of [false, true]) {
  test(`a body of 8 MB arrives byte for byte (${stream ? 'streaming' : 'unary'})`, async () => {
    const { sent, fetch } = recorder();
    const { id, options } = named();
    const params = ask('claude-sonnet-5', { messages: [{ role: 'user', content: longText(8 << 20) }], stream });
    const answer = await anthropic({ fetch }).messages.create(params, options).asResponse();
    const got = Buffer.from(await answer.arrayBuffer()).toString();
    assert.ok(sent[0].body.length > 8 << 20);
    const seen = await stack.seenOnce(id);
    assert.ok(sent[0].body.subarray(0, seen.body.length).equals(seen.body));
    const want = (await stack.direct(sent[0])).toString();
    // The gateway opens a stream with a line of its own, retry.
    assert.equal(got.replace(/^retry: \d+\n+/m, ''), want);
  });
}
