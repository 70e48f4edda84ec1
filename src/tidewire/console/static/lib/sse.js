// Server-sent events out of a fetched body. EventSource cannot send a bearer token; fetch can.

/** Reads the lines of a text/event-stream, in pieces as they come: feed() gives the messages that are complete. */
export class MessageReader {
  #rest = "";
  #name = "";
  #data = [];

  feed(text) {
    const found = [];
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (this.#data.length) found.push({ name: this.#name || "message", data: this.#data.join("\n") });
        this.#name = "";
        this.#data = [];
      } else {
        this.#take(line);
      }
    }
    return found;
  }

  #take(line) {
    const colon = line.indexOf(":");
    if (colon === 0) return; // a comment: the heartbeat
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#name = value;
    else if (field === "data") this.#data.push(value);
  }
}

/** The messages of a response, until it ends; heard() is called for every piece, heartbeats too. */
export async function* messagesOf(response, heard) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const messages = new MessageReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      yield* messages.feed(decoder.decode(value, { stream: true }));
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
