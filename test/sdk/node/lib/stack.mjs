// The processes under test: the simulator as the provider, and the gateway in front of it. Each test file starts its
// own pair, so that what one file sees upstream is its own doing.

import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

const root = path.resolve(import.meta.dirname, '../../../..');

export const wideKey = 'sk-headgate-wide';
export const narrowKey = 'sk-headgate-narrow';

/** Waits until look() gives something, and gives it back. */
export async function until(what, look, within = 5000) {
  const deadline = Date.now() + within;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`after ${within} ms still no ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Starts the simulator and the gateway. The caller stops them. */
export async function startStack() {
  const dir = await mkdtemp(path.join(tmpdir(), 'headgate-sdk-'));
  const processes = [];
  const stop = async () => {
    await Promise.all(processes.map(end));
    await rm(dir, { recursive: true, force: true });
  };
  try {
    const binary = process.env.HEADGATE_BIN || (await build(dir));
    const run = (...args) => {
      const child = spawn(binary, args, { stdio: ['ignore', 'pipe', 'pipe'] });
      processes.push(child);
      return child;
    };
    const simulator = await simulatorAddress(run('simulate', '--listen', '127.0.0.1:0', '--json'));
    const template = await readFile(path.join(root, 'test/sdk/gateway.yaml'), 'utf8');
    const config = path.join(dir, 'headgate.yaml');
    await writeFile(config, template.replaceAll('SIMULATOR', simulator));
    const { api, admin } = await gatewayAddresses(run('serve', '--config', config, '--log-format', 'json'));
    await until('ready gateway', async () => (await fetch(`http://${admin}/readyz`)).ok);
    return new Stack(`http://${api}`, simulator, stop);
  } catch (err) {
    await stop();
    throw err;
  }
}

async function build(dir) {
  const binary = path.join(dir, 'headgate');
  await promisify(execFile)('go', ['build', '-o', binary, './cmd/headgate'], { cwd: root });
  return binary;
}

async function end(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  const tooLong = setTimeout(() => child.kill('SIGKILL'), 10_000);
  await exited;
  clearTimeout(tooLong);
}

async function simulatorAddress(child) {
  child.stderr.resume();
  let printed = '';
  for await (const chunk of child.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    printed += chunk;
    const found = /"address":\s*"([^"]+)"/.exec(printed);
    if (found) {
      child.stdout.resume();
      return found[1];
    }
  }
  throw new Error(`headgate simulate ended: ${printed}`);
}

/** The gateway says in its log where it serves. The log is read on, or its pipe would fill up. */
function gatewayAddresses(child) {
  child.stdout.resume();
  return new Promise((resolve, reject) => {
    const log = [];
    createInterface({ input: child.stderr }).on('line', (line) => {
      if (log.push(line) > 20) log.shift();
      if (line.includes('"msg":"serving"')) resolve(JSON.parse(line));
    });
    child.once('exit', (code) => reject(new Error(`headgate serve ended with ${code}:\n${log.join('\n')}`)));
  });
}

class Stack {
  constructor(gateway, simulator, stop) {
    Object.assign(this, { gateway, simulator, stop });
  }

  /** What the simulator counted. */
  async stats() {
    return (await fetch(`${this.simulator}/_sim/stats`)).json();
  }

  /** The requests that reached the simulator under a request id, the oldest first. */
  async seen(id) {
    const all = await (await fetch(`${this.simulator}/_sim/requests`)).json();
    return all
      .filter((r) => r.header['X-Request-Id']?.[0] === id)
      .map((r) => ({ ...r, body: Buffer.from(r.body ?? '', 'base64') }));
  }

  /** The one request that reached the simulator under a request id. */
  async seenOnce(id) {
    const found = await this.seen(id);
    if (found.length !== 1) throw new Error(`${found.length} requests reached the simulator as ${id}, not 1`);
    return found[0];
  }

  /**
   * Gives the simulator the bytes that the gateway was given. Its answer is a function of every byte of the body, so
   * an equal answer through the gateway proves that the body arrived there byte for byte, whatever its size.
   */
  async direct({ path: to, headers, body }) {
    const res = await fetch(this.simulator + to, { method: 'POST', headers: { 'content-type': headers.get('content-type') }, body });
    if (!res.ok) throw new Error(`the simulator itself answered ${res.status}: ${await res.text()}`);
    return Buffer.from(await res.arrayBuffer());
  }
}

/**
 * A fetch for SDK clients that keeps what was sent. rewrite may change a body on its way, to send what
 * JSON.stringify cannot write.
 */
export function recorder(rewrite = (body) => body) {
  const sent = [];
  const record = async (url, init) => {
    // openai's SDK tries out with a data: URL whether this fetch can send forms.
    if (String(url).startsWith('data:')) return fetch(url, init);
    const request = new Request(url, init);
    const body = rewrite(Buffer.from(await request.arrayBuffer()));
    sent.push({ path: new URL(url).pathname, headers: request.headers, body });
    return fetch(url, {
      method: request.method,
      headers: request.headers,
      body: request.method === 'GET' ? undefined : body,
      signal: init?.signal,
    });
  };
  return { sent, fetch: record };
}

let calls = 0;

/** Request options with an id of their own, by which the simulator's records are found. */
export function named(options = {}) {
  const id = `sdk-test-${process.pid}-${++calls}`;
  return { id, options: { ...options, headers: { ...options.headers, 'x-request-id': id } } };
}

/** Reads a stream to its end or its error. */
export async function drain(stream) {
  const items = [];
  try {
    for await (const item of stream) items.push(item);
  } catch (error) {
    return { items, error };
  }
  return { items };
}

/** The numbers and times (in ms) of the simulator's stamps ~NUMBER.NANOSECONDS~ in a text. */
export function stamps(text) {
  return [...text.matchAll(/~(\d+)\.(\d+)~/g)].map((m) => ({ number: Number(m[1]), at: Number(BigInt(m[2]) / 1000n) / 1000 }));
}

/** A text of at least so many bytes, with spaces, escapes and characters of several bytes; no two lines are equal. */
export function longText(bytes) {
  const line = ' 運河 gate "quoted" \\ 🌊 '.repeat(100);
  const lines = Math.ceil(bytes / Buffer.byteLength(line));
  return Array.from({ length: lines }, (_, i) => i + line).join('\n');
}
