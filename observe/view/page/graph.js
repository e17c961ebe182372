// The three canvases of one connection, over one range of time.
//
// A drawing may have a million events. It is made in parts: a frame draws EVENTS_IN_A_FRAME at most, the next one continues, and
// moving or zooming begins anew, so that a frame's work is bounded whatever the file has. A mark that would lie on one of its
// kind is not drawn again.
"use strict";

const EVENTS_IN_A_FRAME = 20000;
const MARGIN = {left: 70, right: 10, top: 6, bottom: 20};

/** A canvas with axes: time below, and something at the left. */
class Plot {
  constructor(element) {
    this.element = element;
    this.context = element.getContext("2d");
    this.height = Number(element.getAttribute("height"));
    this.y = d3.scale.linear();
  }

  /** Clears it for a drawing of that range. */
  begin(x, yDomain, yTitle) {
    const dense = window.devicePixelRatio || 1;
    this.width = this.element.clientWidth;
    this.element.width = this.width * dense;
    this.element.height = this.height * dense;
    this.element.style.height = `${this.height}px`;
    this.context.setTransform(dense, 0, 0, dense, 0, 0);
    this.x = x;
    this.y.domain(yDomain).range([this.height - MARGIN.bottom, MARGIN.top]);
    this.seen = new Map();
    this.axes(yTitle);
    this.context.save();
    this.context.beginPath();
    this.context.rect(MARGIN.left, 0, this.width - MARGIN.left - MARGIN.right, this.height - MARGIN.bottom + 1);
    this.context.clip();
  }

  axes(yTitle) {
    const {context, x, y} = this;
    const bottom = this.height - MARGIN.bottom;
    context.fillStyle = "#444";
    context.strokeStyle = "#eee";
    context.font = "11px sans-serif";
    context.lineWidth = 1;
    context.textAlign = "center";
    const xFormat = x.tickFormat(10);
    for (const tick of x.ticks(10)) {
      this.line(x(tick), MARGIN.top, x(tick), bottom);
      context.fillText(`${xFormat(tick)} ms`, x(tick), this.height - 6);
    }
    context.textAlign = "right";
    const yFormat = y.tickFormat(4);
    for (const tick of y.ticks(4)) {
      this.line(MARGIN.left, y(tick), this.width - MARGIN.right, y(tick));
      context.fillText(yFormat(tick), MARGIN.left - 4, y(tick) + 4);
    }
    context.textAlign = "left";
    context.fillText(yTitle, MARGIN.left + 4, MARGIN.top + 8);
  }

  line(x1, y1, x2, y2) {
    this.context.beginPath();
    this.context.moveTo(x1, y1);
    this.context.lineTo(x2, y2);
    this.context.stroke();
  }

  /** Whether nothing of that kind is there yet; it is from now on. */
  isFree(kind, x, y) {
    const key = (Math.round(x) * 4096 + Math.round(y)) * 32 + kind;
    if (this.seen.has(key)) return false;
    this.seen.set(key, true);
    return true;
  }

  end() { this.context.restore(); }
}

/** A function that does the places from `begin` to before `end` by and by. */
function job(begin, end, each, finish) {
  let place = begin;
  return room => {
    const stop = Math.min(end, place + room), events = stop - place;
    for (; place < stop; place++) each(place);
    const isWhole = place >= end;
    if (isWhole && finish) finish();
    return {events, isWhole};
  };
}

/** Does the jobs in frames, and counts in `statistics`, as long as `isWanted()`; then `finish()`. */
function drawInFrames(jobs, statistics, isWanted, finish) {
  const frame = () => {
    if (!isWanted()) return;
    let room = EVENTS_IN_A_FRAME;
    while (room > 0 && jobs.length > 0) {
      const done = jobs[0](room);
      room -= done.events;
      if (done.isWhole) jobs.shift();
    }
    statistics.frames++;
    statistics.drawn += EVENTS_IN_A_FRAME - room;
    statistics.mostInAFrame = Math.max(statistics.mostInAFrame, EVENTS_IN_A_FRAME - room);
    if (jobs.length > 0) requestAnimationFrame(frame);
    else finish();
  };
  requestAnimationFrame(frame);
}

class Graph {
  /** `changed` is called when a drawing is whole, `moved` when somebody zooms or moves it. */
  constructor(changed, moved) {
    this.changed = changed;
    this.psns = new Plot(document.getElementById("psns"));
    this.window = new Plot(document.getElementById("window"));
    this.messages = new Plot(document.getElementById("messages"));
    this.x = d3.scale.linear();
    this.zoom = d3.behavior.zoom().scaleExtent([0.5, 1e7]).on("zoom", () => { moved(); this.draw(); });
    for (const plot of [this.psns, this.window, this.messages]) d3.select(plot.element).call(this.zoom);
    this.drawing = 0;
    this.statistics = {mostInAFrame: 0, frames: 0, drawn: 0, marks: 0, limits: 0};
  }

  show(connection, side) {
    this.connection = connection;
    this.side = side;
    this.mark = null;
    this.showAll();
  }

  showAll() {
    const {time} = this.connection;
    const from = time[0] || 0, to = time.length > 0 ? time[time.length - 1] : 1;
    const edge = Math.max((to - from) * 0.02, 0.001);
    this.showRange(from - edge, to + edge);
  }

  showRange(from, to) {
    this.x.domain([from, to]);
    this.draw(true);
  }

  /** Moves to events of that place, and marks the first. */
  showEvidence(place, from, to) {
    this.mark = place;
    const span = Math.max(to - from, 0.01);
    this.showRange(from - span * 0.25, to + span * 0.25);
  }

  /** Draws the range that the scale has. */
  draw(isNewRange) {
    const width = this.psns.element.clientWidth;
    this.x.range([MARGIN.left, width - MARGIN.right]);
    if (isNewRange) this.zoom.x(this.x);
    const [from, to] = this.x.domain();
    const {connection} = this;
    const begin = lowerBound(connection.time, from), end = lowerBound(connection.time, to + 1e-9);
    let [least, most] = connection.extent(this.side, begin, end);
    if (least > most) [least, most] = [0, 1];
    this.psns.begin(this.x, [least - 1, most + 1], "PSN");
    this.drawWindow(from, to);
    const jobs = [this.marksJob(begin, end), this.messagesJob(from, to), this.stepsJob(), this.limitsJob(from, to)];
    const drawing = ++this.drawing;
    this.statistics = {mostInAFrame: this.statistics.mostInAFrame, frames: 0, drawn: 0, marks: 0, limits: 0};
    drawInFrames(jobs, this.statistics, () => drawing === this.drawing, () => {
      for (const plot of [this.psns, this.window, this.messages]) plot.end();
      this.changed(this);
    });
  }

  marksJob(begin, end) {
    const {connection, psns, x} = this, {context, y} = psns;
    let waiting = -1;
    const paused = new Map();
    const endPause = (priority, until) => {
      const since = paused.has(priority) ? paused.get(priority) : x.range()[0];
      context.fillStyle = "rgba(96, 125, 139, 0.25)";
      context.fillRect(since, MARGIN.top, Math.max(until - since, 1), psns.height - MARGIN.top - MARGIN.bottom);
      paused.delete(priority);
    };
    const endWait = until => {
      context.fillStyle = "rgba(184, 51, 106, 0.15)";
      context.fillRect(waiting, MARGIN.top, Math.max(until - waiting, 1), psns.height - MARGIN.top - MARGIN.bottom);
      waiting = -1;
    };
    const each = place => {
      const kind = connection.kind[place], px = x(connection.time[place]);
      // An RNR wait lasts until a request goes.
      if (kind === KIND.RNR_NAK && waiting < 0) waiting = px;
      else if (kind <= KIND.RETRANSMISSION && waiting >= 0) endWait(px);
      // What the other end of the link stops; what it is asked to stop itself is no wait of this QP's.
      if ((kind === KIND.PAUSED || kind === KIND.RESUMED) && connection.texts[connection.text[place]] === "received") {
        if (kind === KIND.RESUMED) endPause(connection.value[place], px);
        else if (!paused.has(connection.value[place])) paused.set(connection.value[place], px);
        this.statistics.marks++;
        return;
      }
      if (LINES.has(kind)) {
        if (!psns.isFree(kind, px, 0)) return;
        context.strokeStyle = KINDS[kind].colour;
        psns.line(px, MARGIN.top, px, psns.height - MARGIN.bottom);
        if (kind === KIND.STATE) {
          context.fillStyle = KINDS[kind].colour;
          context.fillText(connection.texts[connection.text[place]], px + 2, psns.height - MARGIN.bottom - 4);
        } else if (kind === KIND.TIMER) {
          context.fillStyle = KINDS[kind].colour;
          context.fillText(connection.texts[connection.text[place]], px + 2, MARGIN.top + 20);
        }
        this.statistics.marks++;
        return;
      }
      const {radius, colour} = KINDS[kind];
      if (radius === 0 || connection.side[place] !== this.side) return;
      const py = y(connection.distance[place]);
      if (!psns.isFree(kind, px, py)) return;
      context.fillStyle = colour;
      context.fillRect(px - radius, py - radius, 2 * radius, 2 * radius);
      this.statistics.marks++;
    };
    return job(begin, end, each, () => {
      if (waiting >= 0) endWait(x.range()[1]);
      for (const priority of Array.from(paused.keys())) endPause(priority, x.range()[1]);
      if (this.mark === null) return;
      context.strokeStyle = "#c0182b";
      const px = x(connection.time[this.mark]);
      context.setLineDash([4, 3]);
      psns.line(px, MARGIN.top, px, psns.height - MARGIN.bottom);
      context.setLineDash([]);
      if (KINDS[connection.kind[this.mark]].radius === 0) return;
      context.beginPath();
      context.arc(px, y(connection.distance[this.mark]), 8, 0, 2 * Math.PI);
      context.stroke();
    });
  }

  /** The rate, which has as many parts as there are some pixels. */
  drawWindow(from, to) {
    const {connection, window: plot, x} = this;
    const parts = Math.max(1, Math.floor((x.range()[1] - x.range()[0]) / 4));
    const rates = connection.rates(from, to, parts);
    const first = lowerBound(connection.steps.time, from), last = lowerBound(connection.steps.time, to);
    this.stepRange = [Math.max(0, first - 1), last];
    plot.begin(x, [0, Math.max(1, connection.mostInFlight = d3.max(connection.steps.value) || 1)], "packets");
    const {context} = plot, most = Math.max(...rates, 1e-9), bottom = plot.height - MARGIN.bottom;
    context.fillStyle = "rgba(46, 139, 87, 0.35)";
    rates.forEach((rate, part) => {
      const height = (bottom - MARGIN.top) * rate / most;
      context.fillRect(x.range()[0] + part * (x.range()[1] - x.range()[0]) / parts, bottom - height, 4, height);
    });
    context.fillStyle = "#2e6b47";
    context.textAlign = "right";
    context.fillText(`rate up to ${d3.format(",.1f")(most)} Mbit/s of payload`, this.window.width - MARGIN.right - 4, MARGIN.top + 10);
  }

  stepsJob() {
    const {connection, window: plot, x} = this, {context, y} = plot;
    let at = null;
    const each = place => {
      const px = x(connection.steps.time[place]), py = y(connection.steps.value[place]);
      context.strokeStyle = KINDS[KIND.WINDOW].colour;
      if (at !== null && plot.isFree(KIND.WINDOW, px, py)) {
        plot.line(at[0], at[1], px, at[1]);
        plot.line(px, at[1], px, py);
      }
      at = [px, py];
    };
    return job(this.stepRange[0], this.stepRange[1], each);
  }

  /** The rate that congestion control allows, by a scale of its own; it is known from its first change on. */
  limitsJob(from, to) {
    const {connection, window: plot, x} = this, {context} = plot, {time, value} = connection.limits;
    const first = Math.max(0, lowerBound(time, from) - 1), last = lowerBound(time, to);
    if (first >= last) return job(0, 0);
    const most = d3.max(value) || 1, bottom = plot.height - MARGIN.bottom;
    const y = mbps => bottom - (bottom - MARGIN.top) * (mbps > 0 ? mbps : most) / most;
    let at = null;
    context.fillStyle = KINDS[KIND.RATE].colour;
    context.fillText(`limit up to ${d3.format(",.1f")(most)} Mbit/s`, plot.width - MARGIN.right - 4, MARGIN.top + 24);
    const step = (px, py) => {
      context.strokeStyle = KINDS[KIND.RATE].colour;
      if (at !== null) {
        plot.line(at[0], at[1], px, at[1]);
        plot.line(px, at[1], px, py);
      }
      at = [px, py];
      this.statistics.limits++;
    };
    return job(first, last, place => {
      const px = x(time[place]), py = y(value[place]);
      if (plot.isFree(KIND.RATE, px, py)) step(px, py);
    }, () => { if (at !== null) step(x.range()[1], at[1]); });
  }

  messagesJob(from, to) {
    const {connection, messages: plot, x} = this;
    const begin = lowerBound(connection.messageEnds, from), end = lowerBound(connection.messageBegins, to);
    // The first above.
    plot.begin(x, [Math.max(end, begin + 1), begin], "message");
    const {context, y} = plot, height = Math.max(1, Math.min(12, y(begin + 1) - y(begin)) - 1);
    const colours = d3.scale.category10();
    const each = place => {
      const message = connection.messages[place];
      const px = x(message.begin), py = y(place);
      if (!plot.isFree(KIND.MESSAGE, px, py)) return;
      const bar = (from, to, colour) => {
        context.fillStyle = colour;
        context.fillRect(x(from), py, Math.max(1, x(to) - x(from)), height);
      };
      if (!connection.hasWqes) {
        bar(message.begin, message.end, colours(message.opcode));
        return;
      }
      // A part of which one end is not seen belongs to the one behind it.
      let from = message.begin;
      for (const part of PARTS) {
        if (message[part.to] === null) continue;
        bar(from, message[part.to], message.isFailed && part.to === "completed" ? FAILED.colour : part.colour);
        from = message[part.to];
      }
      if (from === message.begin) bar(from, from, PARTS[0].colour);
    };
    return job(begin, Math.max(begin, end), each);
  }

  /** The message whose bar is at a place on the canvas of messages; null: none is. */
  messageAt(px, py) {
    const {connection, messages: plot, x} = this, message = connection.messages[Math.floor(plot.y.invert(py))];
    return message && px >= x(message.begin) - 3 && px <= x(message.end) + 3 ? message : null;
  }

  /** The event whose mark is nearest to a place on the canvas of PSNs; -1: none is near. */
  nearest(px, py) {
    const {connection, psns, x} = this, near = 12, most = 2000;
    const begin = lowerBound(connection.time, x.invert(px - near)), end = lowerBound(connection.time, x.invert(px + near));
    let best = -1, distance = near * near;
    for (let place = begin; place < Math.min(end, begin + most); place++) {
      if (KINDS[connection.kind[place]].radius === 0 || connection.side[place] !== this.side) continue;
      const dx = x(connection.time[place]) - px, dy = psns.y(connection.distance[place]) - py;
      if (dx * dx + dy * dy < distance) {
        distance = dx * dx + dy * dy;
        best = place;
      }
    }
    return best;
  }
}
