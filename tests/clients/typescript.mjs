// A client on the official TypeScript SDK.
//
//   node typescript.mjs SCENARIO FOLDER [SESSION] -- AGENT [ARGUMENT…]
//
// Prints what the client sees, one JSON document a line and in the order in which it sees it:
// {"session": …, "update": …} for a notification, {"to": METHOD, "result": …} or
// {"to": METHOD, "error": …} for an answer. python_sdk.py prints the same.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";

import * as acp from "@agentclientprotocol/sdk";

const LIST = "1. read the code\n2. write the fix\n3. run the tests";
const { initialize, session } = acp.methods.agent;

const scenarios = {
  // One turn in a new session.
  async chat(client) {
    await client.create();
    await client.prompt(LIST);
  },

  // The person stops the turn at the first plan, and then asks for something else.
  async cancel(client) {
    await client.create();
    const planned = client.seen("plan");
    const stopped = client.prompt(LIST);
    await Promise.race([planned, stopped]);
    await client.cancel();
    await stopped;
    await client.prompt("1. tidy up");
  },

  // The client goes away at the first plan, without a word.
  async leave(client) {
    await client.create();
    const planned = client.seen("plan");
    await Promise.race([planned, client.prompt(LIST)]);
    process.exit(0);
  },

  // A session of an earlier process, with its history.
  async load(client) {
    await client.open(session.load);
    await client.list();
    await client.prompt("1. tidy up");
    await client.close();
    await client.open(session.resume);
    await client.close();
  },

  // A session of an earlier process, without its history.
  async resume(client) {
    await client.open(session.resume);
    await client.prompt("1. tidy up");
    await client.close();
  },

  // A session that never was.
  async unknown(client) {
    client.session = "no-such-session";
    await client.open(session.load);
  },
};

const show = (seen) => console.log(JSON.stringify(seen));

class Client {
  constructor(agent, cwd, session) {
    Object.assign(this, { agent, cwd, session, waiting: new Map() });
  }

  // The next update of a kind.
  seen(kind) {
    return new Promise((resolve) => this.waiting.set(kind, resolve));
  }

  update({ sessionId, update }) {
    show({ session: sessionId, update });
    this.waiting.get(update.sessionUpdate)?.();
  }

  async ask(method, params) {
    try {
      const result = await this.agent.request(method, params);
      show({ to: method, result });
      return result;
    } catch ({ code, message, data }) {
      show({ to: method, error: { code, message, data } });
    }
  }

  initialize() {
    const clientCapabilities = {};
    return this.ask(initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities });
  }

  async create() {
    const created = await this.ask(session.new, { cwd: this.cwd, mcpServers: [] });
    this.session = created.sessionId;
  }

  open(method) {
    return this.ask(method, { sessionId: this.session, cwd: this.cwd, mcpServers: [] });
  }

  list() {
    return this.ask(session.list, { cwd: this.cwd });
  }

  prompt(text) {
    const prompt = [{ type: "text", text }];
    return this.ask(session.prompt, { sessionId: this.session, prompt });
  }

  cancel() {
    return this.agent.notify(session.cancel, { sessionId: this.session });
  }

  close() {
    return this.ask(session.close, { sessionId: this.session });
  }
}

const split = process.argv.indexOf("--");
const [scenario, cwd, id] = process.argv.slice(2, split);
const [program, ...args] = process.argv.slice(split + 1);

const child = spawn(program, args, { cwd, stdio: ["pipe", "pipe", "inherit"] });
const exited = once(child, "exit");
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));

let client;
await acp
  .client({ name: "minutebook-tests" })
  .onNotification(acp.methods.client.session.update, ({ params }) => client.update(params))
  .connectWith(stream, async (agent) => {
    client = new Client(agent, cwd, id);
    await client.initialize();
    await scenarios[scenario](client);
  });
child.stdin.end();
await exited;
