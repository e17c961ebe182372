// What the page knows of a connection: columns of numbers, and what is looked up in them.
"use strict";

/** As Kind of event_log.h, in its order: what it is called, its colour, and the radius of its mark in pixels (0: none). */
const KINDS = [
  {name: "sent", colour: "#3574b5", radius: 1},
  {name: "retransmission", colour: "#c0182b", radius: 2.5},
  {name: "delivered", colour: "#3574b5", radius: 1},
  {name: "duplicate", colour: "#8e44ad", radius: 2.5},
  {name: "early, kept", colour: "#e08a00", radius: 2},
  {name: "early, dropped", colour: "#c0182b", radius: 2.5},
  {name: "no receive", colour: "#b8336a", radius: 3},
  {name: "refused", colour: "#000000", radius: 3},
  {name: "dropped", colour: "#000000", radius: 2.5},
  {name: "observed", colour: "#3574b5", radius: 1},
  {name: "observed again", colour: "#c0182b", radius: 2.5},
  {name: "response", colour: "#9aa5b1", radius: 1},
  {name: "ACK", colour: "#2e8b57", radius: 1},
  {name: "NAK", colour: "#c0182b", radius: 4},
  {name: "RNR NAK", colour: "#b8336a", radius: 4},
  {name: "CNP sent", colour: "#00897b", radius: 0},
  {name: "CNP received", colour: "#00897b", radius: 0},
  {name: "goes again", colour: "#c0182b", radius: 0},
  {name: "window", colour: "#555555", radius: 0},
  {name: "state", colour: "#000000", radius: 0},
  {name: "message", colour: "#3574b5", radius: 0},
  {name: "WQE taken up", colour: "#555555", radius: 0},
  {name: "completion", colour: "#2e8b57", radius: 0},
  {name: "rate limit changed", colour: "#d2691e", radius: 0},
  {name: "timer expired", colour: "#e0115f", radius: 0},
  {name: "paused", colour: "#607d8b", radius: 0},
  {name: "resumed", colour: "#607d8b", radius: 0},
];
/** What a message is at from each of its times to the next. */
const PARTS = [
  {from: "fetched", to: "first", name: "WQE taken up, no packet sent", colour: "#c9b458"},
  {from: "first", to: "last", name: "first to last packet", colour: "#3574b5"},
  {from: "last", to: "acknowledged", name: "to the acknowledgement", colour: "#9ec5e8"},
  {from: "acknowledged", to: "completed", name: "to the completion", colour: "#2e8b57"},
];
const FAILED = {name: "failed", colour: "#c0182b"};
const KIND = {SENT: 0, RETRANSMISSION: 1, DELIVERED: 2, OBSERVED: 9, OBSERVED_AGAIN: 10, RNR_NAK: 14, CNP_SENT: 15, CNP_RECEIVED: 16,
  WINDOW: 18, STATE: 19, MESSAGE: 20, FETCHED: 21, COMPLETION: 22, RATE: 23, TIMER: 24, PAUSED: 25, RESUMED: 26};
/** Kinds that are a vertical line in the graph of PSNs. */
const LINES = new Set([KIND.CNP_SENT, KIND.CNP_RECEIVED, KIND.STATE, KIND.TIMER]);
/** Events in a block of which the least and the most PSN are known. */
const BLOCK = 1024;

/** The first place in the ascending `column` whose number is not below `value`. */
function lowerBound(column, value) {
  let low = 0, high = column.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (column[middle] < value) low = middle + 1; else high = middle;
  }
  return low;
}

/** A connection of the data, with its columns as typed arrays, in the order of time. */
class Connection {
  constructor(data, texts) {
    this.name = data.name;
    this.peer = data.peer;
    this.peerQpn = data.peer_qpn;
    this.findings = data.findings;
    this.texts = texts;
    this.raw = data;
    this.isPrepared = false;
    this.counts = new Array(KINDS.length).fill(0);
    for (const kind of data.kind) this.counts[kind]++;
    this.length = data.kind.length;
    this.hasWqes = data.messages.has_wqes;
    this.numMessages = data.messages.opcode.length;
  }

  /** The work that only a connection that is looked at is worth. */
  prepare() {
    if (this.isPrepared) return;
    this.isPrepared = true;
    const raw = this.raw;
    // Places of evidence are those of the file; drawing wants the order of time.
    const order = Uint32Array.from(raw.time.keys());
    let isSorted = true;
    for (let i = 1; i < raw.time.length; i++) isSorted = isSorted && raw.time[i - 1] <= raw.time[i];
    if (!isSorted) order.sort((a, b) => raw.time[a] - raw.time[b] || a - b);
    this.placeOf = new Uint32Array(order.length);
    order.forEach((from, place) => { this.placeOf[from] = place; });
    const column = (type, of) => type.from(order, place => of[place]);
    this.time = column(Float64Array, raw.time);
    this.kind = column(Uint8Array, raw.kind);
    this.side = column(Uint8Array, raw.side);
    this.psn = column(Uint32Array, raw.psn);
    this.distance = column(Float64Array, raw.distance);
    this.value = column(Float64Array, raw.value);
    this.text = column(Uint32Array, raw.text);
    this.raw = null;
    this.fillBlocks();
    this.fillSeries();
    this.fillMessages(raw.messages);
  }

  fillBlocks() {
    this.blocks = [0, 1].map(() => ({least: [], most: []}));
    for (let begin = 0; begin < this.length; begin += BLOCK) {
      for (const side of [0, 1]) {
        const [least, most] = this.scan(side, begin, Math.min(begin + BLOCK, this.length));
        this.blocks[side].least.push(least);
        this.blocks[side].most.push(most);
      }
    }
  }

  /** The least and the most PSN of that side among the events from `begin` to before `end`. */
  scan(side, begin, end) {
    let least = Infinity, most = -Infinity;
    for (let i = begin; i < end; i++) {
      if (this.side[i] !== side || KINDS[this.kind[i]].radius === 0) continue;
      least = Math.min(least, this.distance[i]);
      most = Math.max(most, this.distance[i]);
    }
    return [least, most];
  }

  extent(side, begin, end) {
    const {least, most} = this.blocks[side];
    const first = Math.ceil(begin / BLOCK), last = Math.floor(end / BLOCK);
    if (first >= last) return this.scan(side, begin, end);
    const parts = [this.scan(side, begin, first * BLOCK), this.scan(side, last * BLOCK, end)];
    for (let block = first; block < last; block++) parts.push([least[block], most[block]]);
    return [Math.min(...parts.map(part => part[0])), Math.max(...parts.map(part => part[1]))];
  }

  fillSeries() {
    // Bytes of payload up to each packet, of requests sent, or else of those received.
    const isSender = this.counts[KIND.SENT] + this.counts[KIND.OBSERVED] > 0;
    const kinds = isSender ? [KIND.SENT, KIND.RETRANSMISSION, KIND.OBSERVED, KIND.OBSERVED_AGAIN] : [KIND.DELIVERED];
    const bytes = {time: [], total: []}, steps = {time: [], value: []}, limits = {time: [], value: []};
    let total = 0;
    for (let i = 0; i < this.length; i++) {
      if (kinds.includes(this.kind[i])) {
        total += this.value[i];
        bytes.time.push(this.time[i]);
        bytes.total.push(total);
      } else if (this.kind[i] === KIND.WINDOW) {
        steps.time.push(this.time[i]);
        steps.value.push(this.value[i]);
      } else if (this.kind[i] === KIND.RATE) {
        limits.time.push(this.time[i]);
        limits.value.push(this.value[i]);
      }
    }
    this.bytes = bytes;
    this.steps = steps;
    this.limits = limits;
  }

  /** Messages from the WQE's take-up to its completion, or to the acknowledgement if it has none; without WQEs in the trace from the
      first packet on. One whose end is not seen goes as far as it is known, and counts for no duration. */
  fillMessages(raw) {
    const success = this.texts.indexOf("SUCCESS");
    const messages = raw.opcode.map((opcode, i) => {
      const message = {opcode, bytes: raw.bytes[i], status: raw.status[i]};
      for (const time of ["fetched", "first", "last", "acknowledged", "completed"]) message[time] = raw[time][i];
      const seen = [message.fetched, message.first, message.last, message.acknowledged, message.completed].filter(time => time !== null);
      message.begin = seen[0];
      message.end = seen[seen.length - 1];
      message.isFailed = message.completed !== null && message.status !== success;
      message.hasEnded = !message.isFailed && (message.completed !== null || message.acknowledged !== null);
      return message;
    });
    messages.sort((a, b) => a.begin - b.begin);
    this.messages = messages;
    this.messageBegins = Float64Array.from(messages, message => message.begin);
    // One that has no completion may end before the one ahead of it: the column ascends all the same.
    let latest = -Infinity;
    this.messageEnds = Float64Array.from(messages, message => latest = Math.max(latest, message.end));
    const ended = messages.filter(message => message.hasEnded);
    this.durations = Float64Array.from(ended, message => (message.end - message.begin) * 1000).sort();
  }

  /** What a message is, in a line. */
  describeMessage(message) {
    const words = [this.texts[message.opcode]];
    if (this.hasWqes) words.push(`${message.bytes} bytes`, `WQE taken up at ${message.fetched.toFixed(6)} ms`);
    const names = {first: "first packet", last: "last packet", acknowledged: "acknowledged", completed: "completed"};
    let before = message.begin;
    for (const time of Object.keys(names)) {
      if (message[time] === null) continue;
      words.push(`${names[time]} +${((message[time] - before) * 1000).toFixed(3)} us`);
      before = message[time];
    }
    if (message.isFailed) words.push(this.texts[message.status]);
    return words.join("  ");
  }

  /** Mbit/s of payload in each of `count` parts of the time from `from` to `to`, in milliseconds. */
  rates(from, to, count) {
    const width = (to - from) / count, rates = [];
    const upTo = time => {
      const place = lowerBound(this.bytes.time, time);
      return place === 0 ? 0 : this.bytes.total[place - 1];
    };
    let before = upTo(from);
    for (let i = 1; i <= count; i++) {
      const here = upTo(from + i * width);
      rates.push((here - before) * 8 / 1000 / width);
      before = here;
    }
    return rates;
  }

  /** Microseconds below which this part of the messages stayed. */
  quantile(part) {
    return this.durations[Math.min(this.durations.length - 1, Math.floor(part * this.durations.length))];
  }

  /** Bars of the distribution: powers of 2^(1/4) microseconds. */
  distribution() {
    const bars = new Map();
    for (const us of this.durations) {
      const power = Math.floor(Math.log2(Math.max(us, 0.001)) * 4);
      bars.set(power, (bars.get(power) || 0) + 1);
    }
    return Array.from(bars, ([power, count]) => ({from: 2 ** (power / 4), to: 2 ** ((power + 1) / 4), count}));
  }

  /** What an event is, in a line. */
  describe(place) {
    const kind = this.kind[place], text = this.texts[this.text[place]];
    const words = [`${this.time[place].toFixed(6)} ms`, KINDS[kind].name, text];
    if (KINDS[kind].radius !== 0) words.push(`PSN ${this.psn[place]}`);
    if (kind <= 11) words.push(`${this.value[place]} bytes`);
    if (kind === KIND.RATE) words.push(this.value[place] > 0 ? `${this.value[place]} Mbit/s` : "no limit");
    if (kind === KIND.TIMER) words.push(`${this.value[place]} retries used up`);
    if (kind === KIND.PAUSED || kind === KIND.RESUMED) words.push(`priority ${this.value[place]}`);
    return words.filter(word => word !== "").join("  ");
  }
}

/** The connections of the page. */
function readModel(data) {
  return {source: data.source, shortfall: data.shortfall,
    connections: data.connections.map(connection => new Connection(connection, data.texts))};
}

if (typeof module !== "undefined") module.exports = {readModel, lowerBound, KINDS, PARTS};
