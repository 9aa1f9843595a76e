import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';

import { named, recorder, startStack } from './lib/stack.mjs';

const limitedKey = 'sk-headgate-limited';
const poorKey = 'sk-headgate-poor';
const messages = [{ role: 'user', content: 'Say something about canals.' }];

let stack;
before(async () => {
  stack = await startStack();
});
after(() => stack?.stop());

/** Makes one call with each SDK's own way of retrying, two retries at most; sent is what it tried. */
const sdks = {
  OpenAI: async (apiKey) => {
    const { sent, fetch } = recorder();
    const { id, options } = named();
    const client = new OpenAI({ baseURL: `${stack.gateway}/v1`, apiKey, maxRetries: 2, fetch });
    const result = await client.chat.completions.create({ model: 'gpt-4o-mini', messages }, options).catch((error) => ({ error }));
    return { ...result, id, sent };
  },
  Anthropic: async (apiKey) => {
    const { sent, fetch } = recorder();
    const { id, options } = named();
    const client = new Anthropic({ baseURL: stack.gateway, apiKey, maxRetries: 2, fetch });
    const result = await client.messages.create({ model: 'claude-sonnet-5', max_tokens: 100, messages }, options).catch((error) => ({ error }));
    return { ...result, id, sent };
  },
};

for (const [name, call] of Object.entries(sdks)) {
  test(`${name}: the gateway's own limit is waited for as told`, async () => {
    const first = await call(limitedKey);
    assert.equal(first.error, undefined);
    assert.equal(first.sent.length, 1);
    const began = Date.now();
    const { error, id, sent } = await call(limitedKey);
    const took = Date.now() - began;
    assert.equal(error, undefined);
    assert.equal(sent.length, 2, 'one try is refused and the next one let in');
    assert.ok(took >= 1000 && took < 5000, `the retry came after ${took} ms, and was told to wait 1200 to 1320`);
    assert.equal((await stack.seenOnce(id)).status, 200, 'the provider never hears of the refused try');
  });

  test(`${name}: a budget that is used up is not tried again`, async () => {
    const { error, id, sent } = await call(poorKey);
    assert.equal(sent.length, 1);
    assert.equal(error.status, 429);
    assert.equal((await stack.seen(id)).length, 0);
    assert.equal(error.headers.get('x-should-retry'), 'false');
    if (name === 'OpenAI') {
      assert.ok(error instanceof OpenAI.RateLimitError);
      assert.equal(error.code, 'insufficient_quota');
      assert.equal(error.type, 'insufficient_quota');
      assert.equal(error.requestID, id);
    } else {
      assert.ok(error instanceof Anthropic.RateLimitError);
      assert.equal(error.type, 'rate_limit_error');
      assert.match(error.error.error.message, /purse/);
      assert.equal(error.requestID, id);
    }
  });
}

test('without retries, the limit is an error that says how long to wait', async () => {
  const client = new OpenAI({ baseURL: `${stack.gateway}/v1`, apiKey: limitedKey, maxRetries: 0 });
  const calls = await Promise.allSettled([1, 2, 3].map(() => client.chat.completions.create({ model: 'gpt-4o', messages })));
  const errors = calls.filter((c) => c.status === 'rejected').map((c) => c.reason);
  assert.equal(errors.length, 2, 'one of three is let in');
  for (const error of errors) {
    assert.ok(error instanceof OpenAI.RateLimitError);
    assert.equal(error.code, 'rate_limit_exceeded');
    assert.equal(error.type, 'rate_limit_error');
    assert.equal(error.headers.get('retry-after'), '2');
    assert.equal(error.headers.get('x-ratelimit-remaining-requests'), '0');
  }
});
