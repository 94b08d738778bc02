// A client of subscriptions/listen in plain JavaScript: one POST, whose response
// is read as it comes. What arrives is shown as a timeline, always as text.

const version = "2026-07-28";
const meta = {
  "io.modelcontextprotocol/protocolVersion": version,
  "io.modelcontextprotocol/clientInfo": { name: "mcplisten-page", version: "1.0.0" },
  "io.modelcontextprotocol/clientCapabilities": {},
};
const subscriptionId = "io.modelcontextprotocol/subscriptionId";

const $ = (id) => document.getElementById(id);
const streams = new Set();
let opened = 0;
let changed = 0;

// --- The protocol -------------------------------------------------------------

// post sends a JSON-RPC request.
function post(id, method, params, { name, signal } = {}) {
  const headers = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "MCP-Protocol-Version": version,
    "Mcp-Method": method,
  };
  if (name) headers["Mcp-Name"] = name;
  if ($("token").value) headers.Authorization = `Bearer ${$("token").value}`;
  return fetch($("endpoint").value, {
    method: "POST",
    headers,
    body: JSON.stringify({ jsonrpc: "2.0", id, method, params: { ...params, _meta: meta } }),
    cache: "no-store",
    credentials: "omit",
    signal,
  });
}

// events yields what a text/event-stream body carries: {data} for an event,
// {comment} for a comment line.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let data = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    // A CR at the end may be half of a CR LF: it waits for what follows.
    const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (data.length > 0) yield { data: data.join("\n") };
        data = [];
      } else if (line.startsWith(":")) {
        yield { comment: line.slice(1).trim() };
      } else if (line.startsWith("data:")) {
        data.push(line.slice("data:".length).replace(/^ /, ""));
      }
    }
  }
}

// answer returns the JSON-RPC response of a request that is no stream.
async function answer(response, id) {
  if (response.headers.get("Content-Type")?.startsWith("text/event-stream")) {
    for await (const { data } of events(response.body)) {
      const message = data && JSON.parse(data);
      if (message?.id === id) return message;
    }
    throw new Error("the response ended without an answer");
  }
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`HTTP ${response.status} ${text.trim().slice(0, 200)}`);
  }
}

// --- A stream -----------------------------------------------------------------

const states = {
  connecting: "Connecting",
  open: "Open",
  ended: "Ended by the server",
  closed: "Closed by you",
  refused: "Refused",
  lost: "Lost",
};

class Stream {
  constructor(notifications) {
    this.id = `page-${++opened}`;
    this.notifications = notifications;
    this.abort = new AbortController();
    this.received = 0;
    this.element = $("stream").content.firstElementChild.cloneNode(true);
    this.find = (selector) => this.element.querySelector(selector);
    this.timeline = this.find(".timeline");
    this.find("h3").textContent = this.id;
    this.log = this.find(".log");
    this.log.setAttribute("aria-label", `What happened on stream ${this.id}`);
    this.find(".close").setAttribute("aria-label", `Close stream ${this.id}`);
    this.find(".close").addEventListener("click", () => this.close());
    this.become("connecting");
    $("streams").prepend(this.element);
    streams.add(this);
  }

  get live() {
    return this.state === "connecting" || this.state === "open";
  }

  become(state) {
    this.state = state;
    this.element.dataset.state = state;
    this.find(".state").textContent = states[state];
    this.find(".close").disabled = !this.live;
    summarize();
  }

  close() {
    if (!this.live) return;
    this.add("closed", "Closed by you");
    this.become("closed");
    this.abort.abort();
  }

  // run opens the stream and reads it to its end.
  async run() {
    this.add("sent", "Request sent", describe(this.notifications));
    const waiting = setTimeout(() => {
      this.add("note", "No answer yet", "too many connections to this server may be open: close a stream");
    }, 5000);
    try {
      const response = await post(this.id, "subscriptions/listen", { notifications: this.notifications }, { signal: this.abort.signal });
      clearTimeout(waiting);
      if (!response.ok || !response.headers.get("Content-Type")?.startsWith("text/event-stream")) {
        await this.refused(response);
        return;
      }
      for await (const event of events(response.body)) {
        if (event.comment !== undefined) this.keptAlive();
        else this.take(JSON.parse(event.data));
      }
      if (this.live) this.end("lost", "error", "Ended without a result", "something may be missed: list again, then listen again");
    } catch (error) {
      if (!this.live) return; // closed here
      if (this.state === "open") this.end("lost", "error", "Connection lost", error.message);
      else this.end("refused", "error", "No answer", `${error.message}: the server is down, or does not let pages of this origin in`);
    } finally {
      clearTimeout(waiting);
      this.abort.abort();
    }
  }

  async refused(response) {
    const retry = response.headers.get("Retry-After");
    let why;
    try {
      const { error } = await answer(response, this.id);
      why = `${error.message} (${error.code})`;
    } catch (error) {
      why = error.message;
    }
    this.end("refused", "error", `Refused: HTTP ${response.status}`, retry ? `${why}; try again in ${retry} s` : why);
  }

  // take shows one message.
  take(message) {
    const carried = (message.params ?? message.result)?._meta?.[subscriptionId];
    if (!message.error && carried !== this.id) {
      this.add("error", "Wrong subscription id", JSON.stringify(carried));
    }
    switch (message.method) {
      case "notifications/subscriptions/acknowledged":
        this.add("acknowledged", "Acknowledged", describe(message.params.notifications));
        this.find(".filter").textContent = describe(message.params.notifications);
        this.become("open");
        break;
      case undefined:
        if (message.error) this.end("refused", "error", "Error", `${message.error.message} (${message.error.code})`);
        else this.end("ended", "result", "Result", "the server ended the stream; nothing is wrong");
        break;
      case "notifications/resources/updated":
        this.notified("Resource updated", message.params.uri);
        break;
      default:
        this.notified(lists[message.method] ?? message.method, "");
    }
  }

  notified(what, detail) {
    this.received++;
    this.add("notification", what, detail);
    summarize();
  }

  // keptAlive shows a keep-alive. Those in a row become one entry.
  keptAlive() {
    const last = this.timeline.lastElementChild;
    if (last?.dataset.kind !== "keep-alive") {
      this.add("keep-alive", "Keep-alive", "once");
      return;
    }
    last.dataset.count = Number(last.dataset.count) + 1;
    last.querySelector(".detail").textContent = `${last.dataset.count} times`;
    stamp(last.querySelector("time"));
  }

  end(state, kind, what, detail) {
    this.add(kind, what, detail);
    this.become(state);
  }

  // add puts an entry at the end of the timeline, and keeps its end in sight.
  add(kind, what, detail = "") {
    const { log, timeline: list } = this;
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 8;
    const entry = document.createElement("li");
    entry.dataset.kind = kind;
    entry.dataset.count = 1;
    const parts = ["time", "span", "span", "span"].map((tag) => document.createElement(tag));
    const [time, mark, name, more] = parts;
    stamp(time);
    mark.className = "mark";
    name.className = "what";
    name.textContent = what;
    more.className = "detail";
    more.textContent = detail;
    entry.append(...parts);
    list.append(entry);
    while (list.childElementCount > 500) list.firstElementChild.remove();
    if (atEnd) log.scrollTop = log.scrollHeight;
  }
}

const lists = {
  "notifications/tools/list_changed": "Tools changed",
  "notifications/prompts/list_changed": "Prompts changed",
  "notifications/resources/list_changed": "Resources changed",
};

// describe puts a filter into words.
function describe(filter) {
  const words = ["tools", "prompts", "resources"].filter((list) => filter[`${list}ListChanged`]);
  const all = [...words, ...(filter.resourceSubscriptions ?? [])];
  return all.length > 0 ? all.join(", ") : "nothing";
}

function stamp(time) {
  const now = new Date();
  time.dateTime = now.toISOString();
  time.textContent = `${now.toLocaleTimeString("en-GB")}.${String(now.getMilliseconds()).padStart(3, "0")}`;
}

// --- The page -----------------------------------------------------------------

function summarize() {
  const all = [...streams];
  const live = all.filter((stream) => stream.live).length;
  const received = all.reduce((sum, stream) => sum + stream.received, 0);
  $("summary").textContent = all.length > 0 ? `${live} open, ${received} notifications` : "";
  $("empty").hidden = all.length > 0;
  $("close-all").disabled = live === 0;
  $("clear").disabled = live === all.length;
}

$("endpoint").value = new URL("/mcp", location.href).href;

$("open").addEventListener("submit", (event) => {
  event.preventDefault();
  const form = event.currentTarget;
  const notifications = {};
  for (const name of ["toolsListChanged", "promptsListChanged", "resourcesListChanged"]) {
    if (form.elements[name].checked) notifications[name] = true;
  }
  const uris = $("uris").value.split("\n").map((line) => line.trim()).filter(Boolean);
  if (uris.length > 0) notifications.resourceSubscriptions = uris;
  new Stream(notifications).run();
});

$("close-all").addEventListener("click", () => streams.forEach((stream) => stream.close()));

$("clear").addEventListener("click", () => {
  for (const stream of streams) {
    if (stream.live) continue;
    stream.element.remove();
    streams.delete(stream);
  }
  summarize();
});

// change calls a tool that changes something, and shows what it says.
async function change(name, args = {}) {
  const status = $("changed");
  try {
    const id = `change-${++changed}`;
    const response = await post(id, "tools/call", { name, arguments: args }, { name });
    const { result, error } = await answer(response, id);
    if (error) throw new Error(`${error.message} (${error.code})`);
    status.textContent = result.content[0].text;
    delete status.dataset.failed;
  } catch (error) {
    status.textContent = error.message;
    status.dataset.failed = "";
  }
}

for (const button of document.querySelectorAll("[data-tool]")) {
  button.addEventListener("click", () => change(button.dataset.tool));
}

$("change").addEventListener("submit", (event) => {
  event.preventDefault();
  change("change_resource", { uri: $("uri").value });
});
