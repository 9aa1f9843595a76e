import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import OpenAI, { toFile } from 'openai';

import { drain, longText, named, narrowKey, recorder, stamps, startStack, until, wideKey } from './lib/stack.mjs';

let stack;
let client;
const messages = [{ role: 'user', content: 'Say something about canals.' }];

before(async () => {
  stack = await startStack();
  client = openai();
});
after(() => stack?.stop());

function openai(options = {}) {
  return new OpenAI({ baseURL: `${stack.gateway}/v1`, apiKey: wideKey, maxRetries: 0, timeout: 30_000, ...options });
}

const textOf = (chunks) => chunks.map((c) => c.choices[0]?.delta.content ?? '').join('');
const finishOf = (chunks) => chunks.map((c) => c.choices[0]?.finish_reason).filter(Boolean);

test('unary chat', async () => {
  const { id, options } = named();
  const answer = await client.chat.completions.create({ model: 'chat', messages }, options);
  assert.equal(answer.choices[0].message.role, 'assistant');
  assert.ok(answer.choices[0].message.content.length > 0);
  assert.equal(answer.choices[0].finish_reason, 'stop');
  assert.equal(answer.usage.completion_tokens, 16);
  assert.equal(answer._request_id, id, 'the client gets its own request id back');
  const seen = await stack.seenOnce(id);
  assert.equal(seen.path, '/v1/chat/completions');
  assert.equal(seen.model, 'gpt-4o-mini', 'the alias is resolved');
  assert.ok(!JSON.stringify(seen.header).includes(wideKey), 'the client’s key stays here');
});

test('an alias changes nothing of the body but the model', async () => {
  const { id, options } = named();
  const { sent, fetch } = recorder();
  await openai({ fetch }).chat.completions.create({ messages, model: 'chat', seed: 7, metadata: { z: 'é', a: '\u2028' } }, options);
  const want = sent[0].body.toString().replace('"model":"chat"', '"model":"gpt-4o-mini"');
  assert.equal((await stack.seenOnce(id)).body.toString(), want);
});

test('a minted request id is the same for client and provider', async () => {
  const { data, response, request_id } = await client.chat.completions.create({ model: 'chat', messages }).withResponse();
  assert.ok(request_id);
  assert.equal(data._request_id, request_id);
  assert.equal(response.headers.get('x-request-id'), request_id);
  assert.equal(response.headers.get('x-headgate-target'), 'openai/gpt-4o-mini');
  await stack.seenOnce(request_id);
});

test('both places for the key', async () => {
  const byHeader = openai({ defaultHeaders: { authorization: null, 'x-api-key': wideKey } });
  for (const c of [client, byHeader]) {
    const { sent, fetch } = recorder();
    await c.withOptions({ fetch }).chat.completions.create({ model: 'chat', messages });
    assert.equal(sent[0].headers.has('authorization'), c === client);
  }
});

test('streaming chat: every token, in order, as it is made', async () => {
  const stream = await client.chat.completions.create({ model: 'gpt-4o-mini+tokens=40+token-gap=10ms+stamp=1', messages, stream: true });
  let firstAt;
  const chunks = [];
  for await (const chunk of stream) {
    if (chunk.choices[0]?.delta.content) firstAt ??= Date.now();
    chunks.push(chunk);
  }
  const tokens = stamps(textOf(chunks));
  assert.deepEqual(tokens.map((t) => t.number), [...Array(40).keys()]);
  assert.ok(firstAt < tokens.at(-1).at, 'the first token came before the last was made');
  assert.deepEqual(finishOf(chunks), ['stop']);
});

test('no usage in a stream that did not ask for it', async () => {
  const { items, error } = await drain(await client.chat.completions.create({ model: 'chat', messages, stream: true }));
  assert.ifError(error);
  assert.ok(items.length > 16);
  for (const chunk of items) {
    assert.equal(chunk.usage ?? null, null, `unasked usage in ${JSON.stringify(chunk)}`);
    assert.equal(chunk.choices.length, 1);
  }
});

test('usage in a stream that asked for it', async () => {
  const params = { model: 'chat', messages, stream: true, stream_options: { include_usage: true } };
  const { items, error } = await drain(await client.chat.completions.create(params));
  assert.ifError(error);
  const last = items.pop();
  assert.deepEqual(last.choices, []);
  assert.equal(last.usage.completion_tokens, 16);
  assert.equal(last.usage.total_tokens, last.usage.prompt_tokens + 16);
  for (const chunk of items) assert.equal(chunk.usage, null);
});

// A schema whose keys are in no sorted order, with numbers that a JSON parser would write otherwise.
const oddSchema =
  '{"type":"object","required":["zone","amount"],"properties":{"zone":{"type":"string","description":"\\u00e9\\/\\ud83c\\udf0a"},' +
  '"amount":{"minimum":1.0,"type":"number","maximum":12345678901234567890,"multipleOf":1E-2},"10":{"type":"boolean"},"9":{"type":"null"}}}';

test('tools arrive as the bytes they are', async () => {
  const { id, options } = named();
  const { fetch } = recorder((body) => Buffer.from(body.toString().replace('"ODD"', oddSchema)));
  const tools = [{ type: 'function', function: { name: 'open_gate', parameters: 'ODD', strict: false, description: 'Opens.' } }];
  await openai({ fetch }).chat.completions.create({ model: 'chat', messages, tools }, options);
  const body = (await stack.seenOnce(id)).body.toString();
  const want = `"tools":[{"type":"function","function":{"name":"open_gate","parameters":${oddSchema},"strict":false,"description":"Opens."}}]`;
  assert.ok(body.includes(want), `the tools are not the same bytes in ${body}`);
});

test('streamed tool calls assemble to valid JSON', async () => {
  const parameters = { type: 'object', properties: { zone: { type: 'string' }, amount: { type: 'integer' } } };
  const tools = ['open_gate', 'close_gate'].map((name) => ({ type: 'function', function: { name, parameters } }));
  const stream = client.chat.completions.stream({ model: 'gpt-4o-mini+tool-calls=3', messages, tools });
  const { choices } = await stream.finalChatCompletion();
  assert.equal(choices[0].finish_reason, 'tool_calls');
  const calls = choices[0].message.tool_calls;
  assert.equal(calls.length, 3);
  assert.equal(new Set(calls.map((c) => c.id)).size, 3);
  for (const call of calls) {
    const given = JSON.parse(call.function.arguments);
    assert.equal(typeof given.zone, 'string');
    assert.ok(Number.isInteger(given.amount));
  }
});

test('an abort is seen upstream within a second', async () => {
  const { id, options } = named();
  const before = (await stack.stats()).streams_cancelled;
  const stream = await client.chat.completions.create({ model: 'gpt-4o-mini+tokens=2000+token-gap=10ms', messages, stream: true }, options);
  let chunks = 0;
  for await (const _ of stream) {
    if (++chunks === 5) break; // leaving the loop aborts the request
  }
  await until('cancelled request upstream', async () => (await stack.seenOnce(id)).outcome === 'cancelled', 1000);
  assert.equal((await stack.stats()).streams_cancelled, before + 1);
});

test('an abort of a unary call is seen upstream within a second', async () => {
  const { id, options } = named();
  const controller = new AbortController();
  const params = { model: 'gpt-4o-mini+first-token=30s', messages };
  const call = client.chat.completions.create(params, { ...options, signal: controller.signal });
  const failed = assert.rejects(call, OpenAI.APIUserAbortError);
  await until('request upstream', async () => (await stack.seen(id)).length === 1);
  controller.abort();
  await failed;
  await until('cancelled request upstream', async () => (await stack.seenOnce(id)).outcome === 'cancelled', 1000);
});

test('typed errors of the gateway itself', async () => {
  const cases = [
    [openai({ apiKey: 'sk-wrong' }), 'chat', OpenAI.AuthenticationError, 401, 'invalid_api_key'],
    [openai({ apiKey: narrowKey }), 'gpt-4o-mini', OpenAI.PermissionDeniedError, 403, 'MODEL_NOT_ALLOWED'],
    [client, 'no-such-model', OpenAI.NotFoundError, 404, 'model_not_found'],
  ];
  for (const [c, model, type, status, code] of cases) {
    for (const stream of [false, true]) {
      const { id, options } = named();
      const err = await c.chat.completions.create({ model, messages, stream }, options).then(assert.fail, (e) => e);
      assert.ok(err instanceof type, `${model}: ${err.constructor.name} is no ${type.name}: ${err}`);
      assert.equal(err.status, status);
      assert.equal(err.code, code);
      assert.equal(err.requestID, id);
      assert.deepEqual(await stack.seen(id), [], 'what the gateway refuses does not reach the provider');
    }
  }
});

test('typed errors of the provider', async () => {
  const cases = [
    [400, OpenAI.BadRequestError],
    [409, OpenAI.ConflictError],
    [422, OpenAI.UnprocessableEntityError],
    [429, OpenAI.RateLimitError],
    [500, OpenAI.InternalServerError],
    [503, OpenAI.InternalServerError],
  ];
  for (const [status, type] of cases) {
    const { id, options } = named();
    const err = await client.chat.completions.create({ model: `gpt-4o-mini+status=${status}`, messages }, options).then(assert.fail, (e) => e);
    assert.ok(err instanceof type, `${status}: ${err.constructor.name} is no ${type.name}: ${err}`);
    assert.equal(err.status, status);
    assert.equal(err.requestID, id);
  }
});

test('a bad request names the parameter', async () => {
  const err = await client.chat.completions.create({ model: 'chat', messages: [] }).then(assert.fail, (e) => e);
  assert.ok(err instanceof OpenAI.BadRequestError);
  assert.equal(err.param, 'messages');
  assert.equal(err.code, 'empty_array');
});

test('a rate limit tells when to come back', async () => {
  const params = { model: 'gpt-4o-mini+status=429+retry-after=1500ms', messages };
  const err = await client.chat.completions.create(params).then(assert.fail, (e) => e);
  assert.ok(err instanceof OpenAI.RateLimitError);
  assert.equal(err.headers.get('retry-after'), '2');
  assert.equal(err.headers.get('retry-after-ms'), '1500');
});

test('the SDK’s retries wait as long as they are told, and no call is wasted', async () => {
  const { id, options } = named({ maxRetries: 2 });
  const params = { model: 'gpt-4o-mini+fail-first=1+error-status=429+retry-after=1200ms', messages };
  const began = Date.now();
  const answer = await client.chat.completions.create(params, options);
  assert.equal(answer.choices[0].finish_reason, 'stop');
  // Without a hint the SDK would have come back after half a second.
  assert.ok(Date.now() - began >= 1200, `came back after ${Date.now() - began} ms`);
  assert.deepEqual((await stack.seen(id)).map((r) => r.status), [429, 200]);
});

test('a provider that keeps failing is called once for each of the SDK’s tries', async () => {
  const { id, options } = named({ maxRetries: 2 });
  const params = { model: 'gpt-4o-mini+status=500+retry-after=10ms', messages };
  await assert.rejects(client.chat.completions.create(params, options), OpenAI.InternalServerError);
  assert.deepEqual((await stack.seen(id)).map((r) => r.status), [500, 500, 500]);
});

for (const fault of ['error-event', 'abort', 'reset', 'cut-json']) {
  test(`a stream that breaks off (${fault}) raises an error`, async () => {
    const { id, options } = named();
    const model = `gpt-4o-mini+tokens=20+token-gap=5ms+stamp=1+fault=${fault}+fault-after=3`;
    const { items, error } = await drain(await client.chat.completions.create({ model, messages, stream: true }, options));
    assert.ok(error instanceof OpenAI.APIError, `no error after ${items.length} chunks, but ${error}`);
    assert.deepEqual(stamps(textOf(items)).map((t) => t.number), [0, 1, 2]);
    assert.deepEqual(finishOf(items), []);
    assert.equal((await stack.seen(id)).length, 1, 'a begun stream is not tried again');
    const helper = client.chat.completions.stream({ model, messages });
    await assert.rejects(helper.finalChatCompletion(), OpenAI.OpenAIError, 'the helper must not take it for complete');
  });
}

test('a stream that ends without its last event raises an error', async () => {
  const model = 'gpt-4o-mini+tokens=20+fault=half-json+fault-after=3';
  const { error, items } = await drain(await client.chat.completions.create({ model, messages, stream: true }));
  assert.ok(error instanceof OpenAI.APIError, `no error after ${items.length} chunks, but ${error}`);
});

for (const fault of ['html', 'empty', 'half-json', 'malformed', 'cut-json', 'short-length', 'error-body', 'reset', 'abort']) {
  test(`an answer that is none (${fault}) raises an error`, async () => {
    const { id, options } = named();
    const call = client.chat.completions.create({ model: `gpt-4o-mini+fault=${fault}`, messages }, options);
    const err = await call.then((answer) => assert.fail(`taken for an answer: ${JSON.stringify(answer)}`), (e) => e);
    assert.ok(err instanceof OpenAI.InternalServerError, `${err.constructor.name}: ${err}`);
    assert.equal(err.headers.get('content-type'), 'application/json');
    assert.equal(err.type, 'server_error');
    assert.ok(err.code, 'an error of the gateway has a code');
    assert.equal(err.requestID, id);
  });
}

for (const fault of ['crlf', 'cr', 'bom', 'comments', 'multi-line', 'split', 'drip', 'gzip', 'no-blank', 'no-done', 'giant']) {
  test(`a whole stream in an unusual form (${fault}) is whole`, async () => {
    const model = `gpt-4o-mini+tokens=20+fault=${fault}`;
    const { items, error } = await drain(await client.chat.completions.create({ model, messages, stream: true }));
    assert.ifError(error);
    assert.ok(items.length >= 20, `only ${items.length} chunks`);
    assert.deepEqual(finishOf(items), ['stop']);
    if (fault === 'giant') assert.ok(textOf(items).length > 500_000);
  });
}

test('embeddings: the SDK’s own base64, and floats', async () => {
  const params = { model: 'text-embedding-3-small', input: ['still water', 'a gate'], dimensions: 256 };
  const { id, options } = named();
  const packed = await client.embeddings.create(params, options);
  assert.match((await stack.seenOnce(id)).body.toString(), /"encoding_format":"base64"/);
  const floats = await client.embeddings.create({ ...params, encoding_format: 'float' });
  assert.equal(packed.data.length, 2);
  for (const [i, { embedding, index }] of floats.data.entries()) {
    assert.equal(index, i);
    assert.equal(embedding.length, 256);
    assert.deepEqual(Array.from(packed.data[i].embedding), embedding.map(Math.fround));
  }
  assert.ok(packed.usage.prompt_tokens > 0);
});

test('models: those that the key may use', async () => {
  const ids = async (c) => (await drain(c.models.list())).items.map((m) => m.id);
  assert.deepEqual(await ids(client), ['chat', 'moderation', 'sonnet']);
  assert.deepEqual(await ids(openai({ apiKey: narrowKey })), ['chat', 'sonnet']);
  for (const id of ['chat', 'gpt-4o-mini', 'openai/gpt-4o:beta']) {
    const model = await client.models.retrieve(id);
    assert.deepEqual([model.id, model.object, model.owned_by], [id, 'model', 'openai']);
  }
  await assert.rejects(client.models.retrieve('no-such-model'), OpenAI.NotFoundError);
  await assert.rejects(openai({ apiKey: narrowKey }).models.retrieve('gpt-4o-mini'), OpenAI.NotFoundError);
});

test('moderations', async () => {
  const { id, options } = named();
  const answer = await client.moderations.create({ model: 'moderation', input: ['fine', 'flagme'] }, options);
  assert.deepEqual(answer.results.map((r) => r.flagged), [false, true]);
  assert.equal((await stack.seenOnce(id)).model, 'omni-moderation-latest');
});

test('images.generate', async () => {
  const { sent, fetch } = recorder();
  const answer = await openai({ fetch }).images.generate({ model: 'gpt-image-1', prompt: 'A canal at dawn', n: 2 });
  assert.equal(answer.data.length, 2);
  const png = Buffer.from(answer.data[0].b64_json, 'base64');
  assert.equal(png.subarray(1, 4).toString(), 'PNG');
  assert.deepEqual(JSON.parse(await stack.direct(sent[0])).data, answer.data);
});

for (const order of ['file, model', 'model, file']) {
  test(`audio.transcriptions of 3 MB (${order})`, async () => {
    const audio = Buffer.alloc(3 << 20);
    for (let i = 0; i < audio.length; i += 4) audio.writeUInt32LE((i * 2654435761) >>> 0, i);
    const file = await toFile(audio, 'speech.wav', { type: 'audio/wav' });
    const params = order.startsWith('file') ? { file, model: 'gpt-4o-transcribe' } : { model: 'gpt-4o-transcribe', file };
    // Once as the SDK sends it, and once with its bytes kept to compare.
    assert.ok((await client.audio.transcriptions.create(params)).text);
    const { sent, fetch } = recorder();
    const { id, options } = named();
    const answer = await openai({ fetch }).audio.transcriptions.create(params, options);
    const form = sent[0].body.toString('latin1');
    assert.equal(form.indexOf('name="file"') < form.indexOf('name="model"'), order.startsWith('file'));
    assert.equal((await stack.seenOnce(id)).model, 'gpt-4o-transcribe');
    assert.equal(JSON.parse(await stack.direct(sent[0])).text, answer.text, 'the form arrives byte for byte');
  });
}

test('audio.speech: bytes equal', async () => {
  const { sent, fetch } = recorder();
  const params = { model: 'gpt-4o-mini-tts+tokens=300', voice: 'alloy', input: 'Still water.', response_format: 'wav' };
  const answer = await openai({ fetch }).audio.speech.create(params);
  assert.equal(answer.headers.get('content-type'), 'audio/wav');
  const audio = Buffer.from(await answer.arrayBuffer());
  assert.equal(audio.length, 300 << 10);
  assert.ok(audio.equals(await stack.direct(sent[0])));
});

test('responses.create', async () => {
  const { sent, fetch } = recorder();
  const answer = await openai({ fetch }).responses.create({ model: 'gpt-4o-mini', input: 'Say something.' });
  assert.equal(answer.status, 'completed');
  assert.equal(answer.usage.output_tokens, 16);
  assert.ok(answer.output_text.length > 0);
  assert.deepEqual(JSON.parse(await stack.direct(sent[0])).output, answer.output);
});

test('responses.create, streaming', async () => {
  const params = { model: 'gpt-4o-mini+tokens=30+stamp=1', input: 'Say something.', stream: true };
  const { items, error } = await drain(await client.responses.create(params));
  assert.ifError(error);
  assert.deepEqual(items.map((e) => e.sequence_number), [...items.keys()]);
  const text = items.filter((e) => e.type === 'response.output_text.delta').map((e) => e.delta).join('');
  assert.deepEqual(stamps(text).map((t) => t.number), [...Array(30).keys()]);
  assert.equal(items.at(-1).type, 'response.completed');
  assert.equal(items.at(-1).response.output[0].content[0].text, text);
});

for (const fault of ['error-event', 'abort']) {
  test(`a response that breaks off (${fault}) raises an error`, async () => {
    const model = `gpt-4o-mini+tokens=20+fault=${fault}+fault-after=3`;
    const { items, error } = await drain(await client.responses.create({ model, input: 'Say something.', stream: true }));
    const told = error instanceof OpenAI.APIError || items.at(-1).type === 'error';
    assert.ok(told, `neither an error nor an error event after ${items.length} events, but ${items.at(-1)?.type}`);
    assert.ok(!items.some((e) => e.type === 'response.completed'));
  });
}

test('50 streams at once', async () => {
  const one = async (i) => {
    const params = { model: `gpt-4o-mini+tokens=40+token-gap=5ms+stamp=1`, messages: [{ role: 'user', content: `stream ${i}` }], stream: true };
    const { items, error } = await drain(await client.chat.completions.create(params));
    assert.ifError(error);
    assert.deepEqual(stamps(textOf(items)).map((t) => t.number), [...Array(40).keys()]);
    assert.deepEqual(finishOf(items), ['stop']);
  };
  await Promise.all(Array.from({ length: 50 }, (_, i) => one(i)));
});

for (const stream of [false, true]) {
  test(`a body of 8 MB arrives byte for byte (${stream ? 'streaming' : 'unary'})`, async () => {
    const { sent, fetch } = recorder();
    const { id, options } = named();
    // include_usage leaves the gateway nothing to add to a streaming body.
    const params = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: longText(8 << 20) }] };
    if (stream) Object.assign(params, { stream, stream_options: { include_usage: true } });
    const answer = await openai({ fetch }).chat.completions.create(params, options).asResponse();
    const got = Buffer.from(await answer.arrayBuffer());
    assert.ok(sent[0].body.length > 8 << 20);
    const seen = await stack.seenOnce(id);
    assert.ok(sent[0].body.subarray(0, seen.body.length).equals(seen.body));
    const want = await stack.direct(sent[0]);
    if (stream) assert.equal(chunkIDs(got).size, 1);
    assert.deepEqual(stream ? chunkIDs(got) : got, stream ? chunkIDs(want) : want);
  });
}

/** The ids in a stream's events; the simulator makes them from the body. */
function chunkIDs(events) {
  return new Set([...events.toString().matchAll(/"id":"(chatcmpl-[^"]+)"/g)].map((m) => m[1]));
}
